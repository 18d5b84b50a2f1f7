"""move_shards.py: the phases of a move, and what a shard does with a step.

Imported by move_model.py, which says what all this is for.
"""
from collections import namedtuple

# state, phase, next phase, step, who is asked, streams: 95-move-phases.sql
PHASES = [line.split() for line in '''
new push set - - -
new set quiet set all -
new quiet empty settle sources -
new empty publish - - -
preparing publish slot publish sources forward
preparing slot subscribe slot sources forward
preparing subscribe copy subscribe targets forward
copying copy verify - - forward
turning turn_push turn - - -
turning turn verify set all -
following verify partners - - forward
following partners ready - - -
ready ready - - - -
arming look sync_routers - - forward
arming sync_routers back_publish - - -
arming back_publish back_slot publish targets back
arming back_slot back_subscribe slot targets back
arming back_subscribe gate subscribe sources back
arming gate lease - - forward
closing lease lease_settle close sources -
closing lease_settle compare settle sources forward
closing compare close - - forward
closing close settle close sources -
closing settle activate_targets settle sources forward
decided turn_again activate_targets set all -
decided activate_targets activate_here activate targets forward
decided activate_here activate_routers - - -
decided activate_routers activate_others - - -
decided activate_others unsubscribe activate all -
decided unsubscribe unslot unsubscribe targets forward
decided unslot unpublish unslot sources forward
decided unpublish start unpublish sources forward
decided start back_verify start sources back
switched back_verify switched - - back
switched switched - - - -
finishing grace drain - - -
finishing drain back_verify_again - - -
finishing back_verify_again back_unsubscribe - - back
finishing back_unsubscribe back_unslot unsubscribe all both
finishing back_unslot back_unpublish unslot all both
finishing back_unpublish delete unpublish all both
finishing delete clear - - both
finishing clear finished clear all -
finished finished - - - -
reopening reopen disarm_unsubscribe lift all -
reopening disarm_unsubscribe disarm_unslot unsubscribe sources back
reopening disarm_unslot disarm_unpublish unslot targets back
reopening disarm_unpublish ready unpublish targets back
cancelling lift undo_unsubscribe lift all -
cancelling turn_lift turn_again lift all -
cancelling undo_unsubscribe undo_unslot unsubscribe all both
cancelling undo_unslot undo_unpublish unslot all both
cancelling undo_unpublish undo_copies unpublish all both
cancelling undo_copies unset - - both
cancelling unset cancelled clear all -
cancelled cancelled - - - -
'''.strip().split('\n')]
PHASE = {p[1]: p for p in PHASES}

# What moves no row, changes no shard and decides nothing here: publications,
# looks, routers, and the leased hold, over which any writer may look.
IDLE = {p[1] for p in PHASES if p[3] == 'publish' or p[3] == 'unpublish'} | {
    'quiet', 'empty', 'partners', 'sync_routers', 'gate', 'lease',
    'lease_settle', 'compare', 'activate_here', 'activate_routers', 'grace'}
# Phases that ask for a step though the table names none.
ASKS = {'drain': ('drain', 'sources'), 'delete': ('delete', 'sources'),
        'undo_copies': ('undo', 'targets')}

# Rules, each of which a run of move_model.py leaves out.
RULES = (
    'tokens',           # a shard refuses a smaller token
    'token stays',      # also when the move is over
    'close first',      # all sources are closed before one is activated
    'settle',           # after that, writers and streams are waited for
    'writers',          # ... writers
    'streams',          # ... what they wrote, to be on the other side
    'ask',              # what shards are counts for more than the ledger
    'all answer',       # decided only when all sources have settled
    'timeline',         # a silent target is passed over by a map that has
                        # lost nothing, and by no other
    'look at token',    # a call whose token is not the ledger's ends
    'map timeline',     # tokens of an old map are below those of the new one
    'marks',            # older tools are refused on a shard with the columns
    'set looks',        # the columns are set where from_version is active
    'cancel looks',     # copies are not deleted where they are owned
    'no subscription',  # nor anything while a subscription is there
    'verify',           # both sides are compared before rows are deleted
    'drain',            # and clients waited for that look at the old version
    'snapshot',         # require_here refuses a snapshot before the switch
    'back_lsn',         # the way back begins where the target was activated
    'start once',       # and is not put back to there
    'resume started',   # what was never started is not resumed
    'turn alone',       # a move is turned with a token, under the lock
    'lift before turn',     # a shard not yet turned is open, and says so
    'set again',        # a shard that lost the turn is turned again
    'turned on',        # a map that lost the turn finds it on the shards
    'cleared',          # and one that lost the end finds that, too
    'promoted',         # a promoted shard takes nothing before it was asked
    'raise fallen',     # a shard that lost the switch is closed, and switched
)

# base: version that the move is from, 0: no columns; fell: promoted since it was asked what it is
Shard = namedtuple('Shard', 'active base closed token fell')
# slot: on the publisher; sub: 0 none, 1 never started, 2 flows, 3 stopped
Stream = namedtuple('Stream', 'slot sub')
# w: side where a write is under way, 0: none; behind: per side, what the other
# lacks: 0 nothing, 1 it is in the slot, 2 no stream has it; rows: per side;
# stray: written round the guards where the key was
Key = namedtuple('Key', 'writer behind rows streams stray')


def side_of(version):
    """The side of every pair that has its key by a version."""
    return (version + 1) % 2


class Shards:
    """What shards do; pairs are (side 0, side 1), shards have numbers."""

    def accepts(self, shards, pair, side):
        shard = shards[self.pairs[pair][side]]
        return shard.active and side_of(shard.active) == side and not (
            shard.closed and shard.base and side_of(shard.base) == side
            and shard.active == shard.base)

    def ends(self, base, who):
        side = side_of(base)
        return {'all': self.shards,
                'sources': sorted({p[side] for p in self.pairs}),
                'targets': sorted({p[1 - side] for p in self.pairs})}[who]

    def step(self, shard, request):
        """The row of the ring after a step; None: it refuses."""
        _, step, token, base, turned = request
        rule, now = self.rule, shard
        if rule['tokens'] and token < now.token:
            return None
        now = now._replace(token=max(token, now.token))
        if step == 'take':
            return now._replace(fell=False)
        if now.fell and rule['promoted']:
            return None
        ours = now.base == base
        if step == 'set' or step == 'lift' and rule['lift before turn']:
            if now.base and now.base == turned and not now.closed \
                    and now.active == max(base, turned):
                if step == 'lift':
                    return now
                now, ours = now._replace(base=base), True
        if now.base and not ours and step not in (
                'take', 'unsubscribe', 'unslot', 'delete', 'undo') and not (
                    step == 'activate' and now.active == base + 1):
            return None
        if step in ('unsubscribe', 'unslot') and rule['turned on'] \
                and now.base and not ours:
            return None
        if step == 'set' and not ours:
            if now.active != base and rule['set looks']:
                return None
            return now._replace(base=base)
        if step == 'close':
            if now.active > base or not ours:
                return None
            return now._replace(closed=True)
        if step == 'lift' and ours:
            if now.active > base:
                return None
            return now._replace(closed=False)
        if step == 'activate' and now.active != base + 1:
            if not ours:
                return None
            return now._replace(active=base + 1, closed=False)
        if step == 'clear' and ours:
            if now.closed:
                return None
            return now._replace(base=0, token=(
                now.token if rule['token stays'] else 0))
        if step in ('settle', 'drain', 'slot') and not (
                ours and now.token == token):
            return None
        if step in ('subscribe', 'start', 'resume', 'resume_back') \
                and not ours:
            return None
        return now

    def waits(self, state, request):
        """Whether a step does not answer yet."""
        shard, step, token, base, _ = request
        side = side_of(base)
        if step == 'drain':
            return self.rule['drain'] and (bool(state.client) or any(
                key.writer == side + 1 and pair[side] == shard
                for key, pair in zip(state.keys, self.pairs)))
        return step == 'settle' and any(
            pair[side] == shard and (
                self.rule['writers'] and key.writer == side + 1
                or self.rule['streams'] and (key.behind[side] or (
                    self.streams and not key.streams[side].slot)))
            for key, pair in zip(state.keys, self.pairs))

    def effects(self, keys, old, new, request, told):
        """What a step that was taken does to rows and streams."""
        shard, step, _, base, _ = request
        fault = None
        for pair, ends in enumerate(self.pairs):
            for side in (0, 1):
                if ends[side] == shard:
                    key, said = self.effect(keys[pair], side, old, new, step,
                                            base, told)
                    fault = fault or said
                    keys = keys[:pair] + (key,) + keys[pair + 1:]
        return keys, fault

    def effect(self, key, side, old, new, step, base, told):
        """Side is where the shard is in this pair; told: not to compare."""
        source = side_of(base) == side
        # the stream that comes in here, and the one that goes out
        into, out = key.streams[1 - side], key.streams[side]
        behind = list(key.behind)
        if step == 'activate' and new.active != old.active and not source:
            into = into._replace(sub=3 if into.sub == 2 else into.sub)
        elif step == 'slot' and not out.slot:
            out = out._replace(slot=True)
        elif step == 'subscribe' and not into.sub:
            into = into._replace(sub=1 if source else 2)
        elif step == 'unsubscribe':
            into = into._replace(sub=0)
        elif step == 'unslot':
            out = out._replace(slot=False)
            behind[side] = 2 if behind[side] else 0
        elif step == 'start' and source:
            if into.sub == 1:
                if not self.rule['back_lsn']:
                    return key, 'the way back brings what came from here'
                into = into._replace(sub=2)
            elif into.sub and not self.rule['start once']:
                return key, 'what is there is applied again'
        elif step == ('resume_back' if source else 'resume') and (
                source or old.active == base):
            if into.sub == 1 and not self.rule['resume started']:
                return key, 'the way back brings what came from here'
            into = into._replace(sub=2 if into.sub == 3 else into.sub)
        elif step in ('delete', 'undo'):
            return self.deletes(key, side, new, step, source, told)
        streams = (out, into) if side == 0 else (into, out)
        return key._replace(behind=tuple(behind), streams=streams), None

    def deletes(self, key, side, shard, step, source, told):
        """Rows that are another's by the columns of this shard."""
        owned = side_of(shard.active) == side
        undo = step == 'undo'
        if undo == source or not shard.base and not (
                undo and owned and not self.rule['cancel looks']):
            return key, None
        if undo and owned and not self.rule['cancel looks']:
            return key, 'rows of the owner are deleted'
        if shard.active != (shard.base if undo else shard.base + 1):
            return key, None
        rows = list(key.rows)
        rows[side] = False
        if not undo and self.streams and any(s.sub for s in key.streams):
            return key, 'rows are deleted while a subscription is there'
        if owned:
            return key, 'rows of the owner are deleted'
        if not undo and not key.rows[1 - side]:
            return key, 'the only rows are deleted'
        if not undo and (key.behind[side] or key.stray) and not told:
            return key, 'rows are deleted that are not equal'
        return key._replace(rows=tuple(rows)), None
