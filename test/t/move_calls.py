"""move_calls.py: the calls that drive a move, and all that may befall them.

Imported by move_model.py, which says what all this is for.
"""
from fence_model import replace
from move_people import (AFTER, OVER, Call, Ledger, Left, People, State,
                         is_turned, state_of, turn_again, wanted_phase)
from move_shards import (ASKS, IDLE, PHASE, RULES, Key, Shard, Shards,
                         Stream, side_of)


class Model(People, Shards):
    """A move of some pairs, with so many failures, without some rules."""

    def __init__(self, pairs, begin='set', wants=('switched', 'cancelled'),
                 streams=False, clients=False, old=False, without=(), **left):
        self.pairs, self.begin, self.wants = pairs, begin, wants
        self.streams, self.clients, self.old = streams, clients, old
        self.left = Left(**dict(dict.fromkeys(Left._fields, 0), **left))
        self.rule = {name: name not in without for name in RULES}
        assert set(without) <= set(RULES)
        self.shards = sorted({s for pair in pairs for s in pair})

    def start(self):
        begun = self.begin != 'set'
        switched = self.begin in ('switched', 'back_verify')
        flow, none = Stream(True, 2), Stream(False, 0)
        key = Key(0, (0, 0), (True, begun), (
            flow if begun and not switched else none,
            flow if switched else none), False)
        shard = Shard(2 if switched else 1, int(begun), False, 0, False)
        ledger = Ledger(self.begin, 'switched' if switched else 'ready', 0,
                        1, 0, False)
        return State((shard,) * len(self.shards), (key,) * len(self.pairs),
                     ((ledger, None),), frozenset(), None, None, False,
                     self.left)

    # ---------- what must never be ----------

    def fault(self, state):
        if isinstance(state.spoilt, str):
            return state.spoilt
        ledger = state.maps[0][0]
        if ledger.phase in OVER and len(state.maps) == 1:
            active = ledger.base + (ledger.phase == 'finished')
            if any(s.base or s.closed or s.active != active
                   for s in state.shards) and not state.spoilt:
                return 'it is over, and a shard is not'
        if state.spoilt:
            return None
        for i, key in enumerate(state.keys):
            owners = [self.accepts(state.shards, i, side) for side in (0, 1)]
            if all(owners):
                return 'two shards accept a key'
            for side in (0, 1):
                if owners[side] and key.writer == 2 - side:
                    return 'a write goes on where the key was'
                if owners[side] and key.behind[1 - side]:
                    return 'an acknowledged write is not at the owner'
        return None

    def is_end(self, state):
        return state.maps[0][0].phase in OVER

    # ---------- what may happen next ----------

    def events(self, state):
        yield from self.rows(state)
        if self.clients:
            yield from self.clients_go_on(state)
        for request in state.requests:
            if not self.waits(state, request):
                yield self.arrives(state, request)
        for i in range(len(state.maps)):
            yield from self.call_goes_on(state, i)
        yield from self.people(state)
        yield from self.failures(state)

    def rows(self, state):
        for i, key in enumerate(state.keys):
            def put(**change):
                return self.put(state, keys=replace(
                    state.keys, i, key._replace(**change)))
            for side in (0, 1):
                if not key.writer and self.accepts(state.shards, i, side):
                    yield f'a write of key {i} passes at side {side}', put(
                        writer=side + 1)
                if state.left.strays and state_of(state.maps[0][0]) in (
                        'decided', 'switched') and state.shards[
                            self.pairs[i][0]].active == 2 and not side:
                    yield 'a write goes round the guards', self.put(
                        state, keys=replace(state.keys, i, key._replace(
                            stray=True)), left=state.left._replace(strays=0))
                out, behind = key.streams[side], list(key.behind)
                if key.writer == side + 1:
                    behind[side] = 1 if out.slot or not self.streams \
                        else 2
                    behind[side] = max(behind[side], key.behind[side])
                    yield f'a write of key {i} commits at side {side}', put(
                        writer=0, behind=tuple(behind))
                flows = out.slot and out.sub == 2 if self.streams \
                    else not self.accepts(state.shards, i, 1 - side) \
                    and side_of(state.shards[self.pairs[i][1 - side]].active) \
                    == side
                if not flows:
                    continue
                rows = list(key.rows)
                if behind[side] == 1 and rows[1 - side]:
                    behind[side] = 0
                    yield f'key {i} flows from side {side}', put(
                        behind=tuple(behind))
                elif not rows[1 - side] and all(
                        state.shards[p].base for p in self.pairs[i]):
                    rows[1 - side], behind[side] = True, 0
                    yield f'key {i} is copied from side {side}', put(
                        rows=tuple(rows), behind=tuple(behind))

    def clients_go_on(self, state):
        """One looks at side 0 and updates later, one has a snapshot of 1."""
        key, there = state.keys[0], state.shards[self.pairs[0][1]]
        if state.client is None and self.accepts(state.shards, 0, 0):
            yield 'require_here passes', self.put(state, client=True)
        elif state.client:
            yield 'an update follows', self.put(
                state, client=False, spoilt=state.spoilt or key.rows[0] is
                False and 'an update finds nothing')
        if state.snapshot is None:
            yield 'a snapshot is taken', self.put(
                state, snapshot=(key.rows[1], there.active))
        elif state.snapshot:
            rows, active = state.snapshot
            passes = there.active > 1 and (
                active > 1 or not self.rule['snapshot'])
            yield 'an update looks at its snapshot', self.put(
                state, snapshot=False, spoilt=state.spoilt or passes and
                not rows and 'an update finds nothing')

    def arrives(self, state, request):
        shard, step = request[:2]
        old = state.shards[shard]
        new = self.step(old, request)
        said = f'shard {shard} {"refuses" if new is None else "takes"} ' \
            f'{step} of {request[2]}'
        keys, fault = state.keys, None
        if new is not None and step in ('delete', 'undo'):
            right = new.base and new.active == new.base + (step == 'delete')
            if self.rule['no subscription'] and self.streams and any(
                    k.streams[1 - side].sub for k, p in zip(keys, self.pairs)
                    for side in (0, 1) if p[side] == shard):
                right = False
            if not right and not (step == 'undo' and (
                    not self.rule['cancel looks']
                    or not new.base and new.active == request[3])):
                new = None
        if new is not None:
            keys, fault = self.effects(
                keys, old, new, request,
                state.maps[0][0].wanted == 'unverified')
        return said, self.put(
            state, keys=keys, requests=state.requests - {request},
            spoilt=fault or state.spoilt,
            shards=replace(state.shards, shard, new or old),
            maps=tuple((m, c and self.answered(c, request, new))
                       for m, c in state.maps))

    @staticmethod
    def answered(call, request, new):
        shard, step, token = request[:3]
        if call.token != token or shard not in call.waits \
                or step != step_of(call.stage):
            return call
        seen = call.seen
        if new is not None and step == 'take':
            seen = tuple(sorted(seen + ((shard,) + new[:3],)))
        return call._replace(waits=call.waits - {shard}, seen=seen,
                             failed=call.failed or new is None)

    # ---------- calls ----------

    def goes(self, state, i, call, stage, ledger=None, waits=(), seen=()):
        """The call goes on with a stage; it asks all that it waits for."""
        ledger = ledger or state.maps[i][0]
        waits = frozenset(waits)
        return f'call {call.token}: {ledger.phase}, {stage}', self.put(
            state, maps=replace(state.maps, i, (ledger, Call(
                call.token, stage, waits, False, seen))),
            requests=state.requests | {
                (s, step_of(stage), call.token, ledger.base, ledger.turned)
                for s in waits})

    def ends_call(self, state, i, said, ledger=None):
        return f'call {state.maps[i][1].token} {said}', self.put(
            state, maps=replace(state.maps, i, (
                ledger or state.maps[i][0], None)))

    def call_goes_on(self, state, i):
        ledger, call = state.maps[i]
        if call is None:
            return
        if self.rule['look at token'] and ledger.token != call.token:
            yield self.ends_call(state, i, 'ends, another one has begun')
        elif call.stage == 'take':
            if not call.waits or state.left.silent:
                yield from self.taken(state, i)
        elif call.stage == 'enter':
            yield from self.enters(state, i)
        elif call.stage in ('raise', 'shut') and not call.waits:
            yield from self.raised(state, i)
        elif call.stage == 'again' and not call.waits:
            yield self.goes(state, i, call, 'enter')
        elif call.failed:
            yield self.ends_call(state, i, f'is refused {call.stage}')
        elif call.stage in ('settle', 'drain') and call.waits \
                and self.streams:
            yield self.ends_call(state, i, 'has waited long enough')
        elif not call.waits or not self.rule['all answer'] \
                and call.stage == 'settle' and len(call.waits) == 1:
            yield from self.leaves(state, i)

    def taken(self, state, i):
        ledger, call = state.maps[i]
        base, phase = ledger.base, ledger.phase
        rule, now, silent = self.rule, state_of(ledger), call.waits
        targets = self.ends(base, 'targets')
        seen = call.seen
        if silent:
            state = self.put(state, left=state.left._replace(
                silent=state.left.silent - 1))
        switched = rule['ask'] and any(
            active == base + 1 and cols == base
            for _, active, cols, _ in seen)
        if rule['turned on'] and not is_turned(ledger) and any(
                cols == base + 1 for _, _, cols, _ in seen):
            yield from self.taken(self.put(state, maps=replace(
                state.maps, i, (ledger._replace(
                    base=base + 1, turned=base, phase='turn',
                    wanted='switched'), call))), i)
            return
        cleared = [active == base + 1 and not cols for _, active, cols, _
                   in seen]
        if rule['cleared'] and phase not in OVER and (
                all(cleared) and not silent if now == 'new'
                else any(cleared)):
            yield self.goes(state, i, call, 'enter',
                            ledger._replace(phase='clear'))
            return
        if switched and now not in AFTER:
            ledger, silent = ledger._replace(phase='activate_targets'), ()
            now = 'decided'
        elif is_turned(ledger) and now not in AFTER and any(
                active < base for _, active, _, _ in seen):
            ledger = turn_again(ledger)
            base, now = ledger.base, 'decided'
        fallen = [s for s, active, cols, closed in seen
                  if now in AFTER and active == base and (
                      now != 'decided' or not cols
                      or s in self.ends(base, 'sources') and not closed)]
        if fallen and rule['raise fallen']:
            yield self.goes(state, i, call, 'raise', ledger, fallen)
            return
        if now in ('arming', 'closing'):
            heard = not set(targets) & silent
            if heard:
                ledger = ledger._replace(promoted=False)
            if heard or not ledger.promoted or not rule['timeline']:
                ledger, silent = ledger._replace(phase='reopen'), ()
        if silent and state_of(ledger) not in (
                'decided', 'reopening', 'finishing'):
            yield self.ends_call(state, i, 'misses a shard', ledger)
            return
        lacks = [s for s, _, cols, _ in seen if cols == ledger.turned]
        if rule['set again'] and is_turned(ledger) and lacks \
                and now in ('following', 'ready', 'arming', 'closing',
                            'reopening', 'decided'):
            yield self.goes(state, i, call, 'again', ledger, lacks)
            return
        event, state = self.goes(state, i, call, 'enter', ledger)
        yield event, self.resumes(state, i)

    def resumes(self, state, i):
        """Streams that an error has stopped flow again."""
        ledger, call = state.maps[i]
        now = state_of(ledger)
        step, who = ('resume', 'targets') if now in (
            'copying', 'turning', 'following', 'ready', 'arming', 'closing',
            'reopening') else ('resume_back', 'sources')
        if not any(s.sub in (1, 3) for k in state.keys for s in k.streams) \
                or now not in ('switched', 'finishing') and step != 'resume':
            return state
        return self.put(state, requests=state.requests | {
            (s, step, call.token, ledger.base, ledger.turned)
            for s in self.ends(ledger.base, who)})

    def raised(self, state, i):
        """Shards that lost the switch have the columns, then are closed."""
        ledger, call = state.maps[i]
        if call.failed:
            yield self.ends_call(state, i, 'cannot raise a shard')
            return
        if call.stage == 'raise':
            low = [s for s in self.ends(ledger.base, 'sources')
                   if state.shards[s].active == ledger.base]
            if low:
                yield self.goes(state, i, call, 'shut', waits=low)
                return
        if state_of(ledger) != 'decided':
            ledger = ledger._replace(phase='activate_targets')
        yield self.goes(state, i, call, 'enter', ledger)

    def enters(self, state, i):
        ledger, call = state.maps[i]
        phase, now = wanted_phase(ledger), state_of(ledger)
        while phase in IDLE or not self.streams and phase in PHASE and \
                PHASE[phase][3] in ('slot', 'subscribe', 'unsubscribe',
                                    'unslot', 'start'):
            phase = PHASE[phase][2]
            phase = wanted_phase(ledger._replace(phase=phase))
        if phase == 'settle' and not self.rule['settle']:
            phase = 'activate_targets'
        if phase == 'back_unsubscribe' and not self.rule['no subscription']:
            phase = 'delete'
        if phase in OVER or phase is None:
            yield self.ends_call(state, i, f'has come to {now}',
                                 ledger._replace(phase=phase or ledger.phase)
                                 if phase else None)
            return
        step, who = ASKS.get(phase, PHASE[phase][3:5])
        asked = () if step == '-' else self.ends(ledger.base, who)
        stage = phase
        if phase == 'close' and not self.rule['close first']:
            stage = 'activate_others'
        yield self.goes(state, i, call, stage,
                        ledger._replace(phase=phase), asked)

    def leaves(self, state, i):
        """A phase is done, when what it looks at is so."""
        ledger, call = state.maps[i]
        phase, keys = call.stage, state.keys
        if phase in ('push', 'turn_push') and any(
                s.active != ledger.base for s in state.shards):
            yield self.ends_call(state, i, 'finds another version')
            return
        target = 1 - side_of(ledger.base)
        verifies = phase in ('verify', 'back_verify', 'back_verify_again')
        if verifies and any(s.fell for s in state.shards) \
                and self.rule['promoted']:
            yield self.ends_call(state, i, 'finds a promoted shard')
            return
        if phase in ('copy', 'look') and not all(
                k.rows[target] and (
                    not self.streams or k.streams[1 - target].sub == 2)
                for k in keys) \
                or verifies and self.rule['verify'] and ledger.wanted != 'unverified' \
                and not all(k.behind == (0, 0) and all(k.rows) and not k.stray
                        for k in keys):
            yield self.ends_call(state, i, 'does not find both sides equal')
            return
        done = ledger._replace(phase=PHASE[phase][2])
        if phase == 'turn_lift':
            done = turn_again(ledger)
        yield self.goes(state, i, call, 'enter', done)

    # ---------- states ----------

    def put(self, state, **change):
        """A state with some parts changed, in its one form."""
        state = state._replace(**change)
        alive = {c.token for _, c in state.maps if c}
        state = state._replace(requests=frozenset(
            r for r in state.requests
            if r[2] in alive or r[1] not in ('take', 'settle', 'drain')
            and not (self.rule['tokens'] and self.rule['token stays']
                     and r[2] < state.shards[r[0]].token)))
        tokens = sorted(self.tokens(state) | {0})
        if tokens == list(range(len(tokens))):
            return state
        rank = {t: i for i, t in enumerate(tokens)}
        return state._replace(
            shards=tuple(s._replace(token=rank[s.token])
                         for s in state.shards),
            maps=tuple((m._replace(token=rank[m.token]),
                        c and c._replace(token=rank[c.token]))
                       for m, c in state.maps),
            requests=frozenset((r[0], r[1], rank[r[2]]) + r[3:]
                               for r in state.requests))


def step_of(stage):
    if stage in ASKS:
        return ASKS[stage][0]
    return {'raise': 'set', 'again': 'set', 'shut': 'close'}.get(
        stage, PHASE[stage][3] if stage in PHASE else stage)
