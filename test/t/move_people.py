"""move_people.py: what people do to a move, and what fails under it.

Imported by move_calls.py.
"""
from collections import namedtuple

from fence_model import replace
from move_shards import PHASE, PHASES

OVER = ('finished', 'cancelled')
AFTER = ('decided', 'switched', 'finishing')
# A failover of the map leaves the ledger at one of these, or before.
KEPT = ('set', 'copy', 'turn', 'ready', 'close', 'activate_targets',
        'unsubscribe', 'start', 'back_verify', 'drain', 'delete', 'clear')
ORDER = {p[1]: i for i, p in enumerate(PHASES)}

Ledger = namedtuple('Ledger', 'phase wanted token base turned promoted')
Call = namedtuple('Call', 'token stage waits failed seen')
State = namedtuple(
    'State', 'shards keys maps requests client snapshot spoilt left')
Left = namedtuple('Left', 'deaths losses falls stops tools turns moves silent strays')


def state_of(ledger):
    return PHASE[ledger.phase][0]


def is_turned(ledger):
    return ledger.turned and ledger.turned + 1 == ledger.base


class People:
    """Commands, tools and failures, at any time."""

    def people(self, state):
        ledger, call = state.maps[0]
        now = state_of(ledger)
        for i, (m, c) in enumerate(state.maps):
            if c is None and m.phase not in OVER and (
                    wanted_phase(m) or any(s.active <= m.base
                                           for s in state.shards)):
                yield self.begins(state, i)
        for wanted in self.wants:
            if wanted != ledger.wanted and now in MAY[wanted] and (
                    ledger.wanted != 'unverified') and not (
                    wanted == 'unverified' and not any(
                        2 in k.behind or not all(k.rows) or k.stray
                        for k in state.keys) and not state.spoilt):
                yield f'{wanted} is wanted', self.want(state, ledger._replace(
                    wanted=wanted))
        if state.left.turns and now == 'switched':
            yield 'reverse_move', self.turns(state, ledger)
        elif is_turned(ledger) and ledger.wanted != 'switched' \
                and now not in AFTER + ('cancelling',) + OVER:
            yield 'reverse_move', self.want(state, ledger._replace(
                wanted='switched'))
        if ledger.phase in OVER and state.left.moves and not call:
            base = ledger.base + (ledger.phase == 'finished')
            yield 'start_move', self.want(self.put(
                state, left=state.left._replace(moves=state.left.moves - 1)),
                Ledger('set', 'ready', 0, base, 0, ledger.promoted))
        if state.left.tools and ledger.phase not in OVER:
            for s, shard in enumerate(state.shards):
                if shard.active == 1 and not (
                        shard.base and self.rule['marks']):
                    yield f'an older tool activates shard {s}', self.put(
                        state, spoilt=state.spoilt or not shard.base,
                        shards=replace(state.shards, s, shard._replace(
                            active=2)),
                        left=state.left._replace(tools=state.left.tools - 1))

    def want(self, state, ledger):
        return self.put(state, maps=((ledger, state.maps[0][1]),)
                        + state.maps[1:])

    def turns(self, state, ledger):
        token = ledger.token
        if self.rule['turn alone']:
            token = self.above(state, token)
        return self.want(self.put(state, left=state.left._replace(
            turns=state.left.turns - 1)), Ledger(
                'turn_push', 'switched', token, ledger.base + 1, ledger.base,
                ledger.promoted))

    def begins(self, state, i):
        ledger = state.maps[i][0]
        if i == 0 or not self.rule['map timeline']:
            token = max(self.tokens(state)) + 1
        else:
            token = self.above(state, ledger.token)
        ledger = ledger._replace(token=token)
        return self.goes(state, i, Call(token, '', (), False, ()), 'take',
                         ledger, self.shards)

    def above(self, state, token):
        higher = [t for t in self.tokens(state) if t > token]
        return (token + min(higher)) / 2 if higher else token + 1

    @staticmethod
    def tokens(state):
        return {s.token for s in state.shards} | {
            m.token for m, _ in state.maps} | {
            c.token for _, c in state.maps if c} | {
            r[2] for r in state.requests}

    # ---------- failures ----------

    def failures(self, state):
        ledger, call = state.maps[0]
        left = state.left
        if left.deaths and call:
            yield 'the call dies', self.put(
                state, maps=((ledger, None),) + state.maps[1:],
                left=left._replace(deaths=left.deaths - 1))
        if left.losses:
            old = state.maps[:1] if self.old else ()
            for lost in earlier(ledger):
                yield f'the map fails over, back to {lost.phase}', self.put(
                    state, maps=((lost._replace(promoted=True), None),) + old,
                    left=left._replace(losses=left.losses - 1))
        if left.falls and state_of(ledger) not in (
                'finishing',) + OVER:
            for s, shard in enumerate(state.shards):
                for lost in before(shard, ledger):
                    yield f'shard {s} fails over, {lost}', self.put(
                        state, shards=replace(
                            state.shards, s, lost._replace(fell=True)),
                        keys=self.slots_lost(state.keys, s), spoilt=True,
                        left=left._replace(falls=left.falls - 1))
                if self.streams and state_of(ledger) == 'switched':
                    yield f'shard {s} fails over, its stream not begun', \
                        self.put(state, shards=replace(
                            state.shards, s, shard._replace(fell=True)),
                            keys=self.slots_lost(state.keys, s, 1),
                            left=left._replace(falls=left.falls - 1))
        if left.stops:
            for i, key in enumerate(state.keys):
                for side, stream in enumerate(key.streams):
                    if stream.sub == 2:
                        yield f'stream {side} of key {i} stops', self.put(
                            state, keys=replace(state.keys, i, key._replace(
                                streams=replace(key.streams, side,
                                                stream._replace(sub=3)))),
                            left=left._replace(stops=left.stops - 1))

    def slots_lost(self, keys, shard, sub=2):
        return tuple(
            key._replace(
                behind=tuple(2 if p[d] == shard and b else b
                             for d, b in enumerate(key.behind)),
                streams=tuple(s._replace(
                    slot=s.slot and p[d] != shard,
                    sub=sub if s.sub == 2 and p[1 - d] == shard else s.sub)
                              for d, s in enumerate(key.streams)))
            if self.streams else key
            for key, p in zip(keys, self.pairs))


MAY = {'switched': ('new', 'preparing', 'copying', 'turning', 'following',
                    'ready', 'arming', 'closing', 'reopening', 'decided',
                    'switched'),
       'finished': ('decided', 'switched', 'finishing')}
MAY['cancelled'] = MAY['switched'][:-2] + ('cancelling',)
MAY['unverified'] = MAY['finished']


def wanted_phase(ledger):
    """The phase that leads to what is wanted; None: that is reached."""
    phase, wanted = ledger.phase, ledger.wanted
    if wanted == 'cancelled' and state_of(ledger) not in AFTER + (
            'cancelling', 'cancelled', 'finished'):
        return 'turn_lift' if is_turned(ledger) else 'lift'
    if phase == 'ready':
        return 'look' if wanted in MAY and wanted != 'cancelled' else None
    if phase == 'switched':
        return 'grace' if wanted in ('finished', 'unverified') else None
    return phase


def turn_again(ledger):
    return ledger._replace(phase='turn_again', wanted='switched',
                           base=ledger.turned, turned=ledger.base)


def earlier(ledger):
    """What the ledger has been before."""
    phase = ledger.phase
    last = ORDER['settle'] if state_of(ledger) in (
        'reopening', 'cancelling', 'cancelled') else ORDER[phase]
    for kept in KEPT:
        turning = kept == 'turn'
        if ORDER[kept] >= last or phase == 'turn_again':
            break
        if turning and is_turned(ledger) or not turning and not (
                is_turned(ledger) and ORDER[kept] < ORDER['turn']):
            yield ledger._replace(phase=kept)
    if is_turned(ledger) and state_of(ledger) not in OVER + ('finishing',):
        for kept in ('ready', 'activate_targets', 'unsubscribe',
                     'back_verify'):
            yield ledger._replace(phase=kept, base=ledger.turned, turned=0)
    elif ledger.turned and not is_turned(ledger):
        for kept in ('ready', 'turn_lift'):
            yield ledger._replace(phase=kept, base=ledger.turned,
                                  turned=ledger.base)


def before(shard, ledger):
    """What a shard has been before its last commit that counts."""
    if shard.closed:
        yield shard._replace(closed=False)
    elif shard.base and shard.active == shard.base + 1:
        yield shard._replace(active=shard.base)
        yield shard._replace(active=shard.base, closed=True)
    elif shard.base:
        yield shard._replace(base=ledger.turned if is_turned(ledger) else 0)
