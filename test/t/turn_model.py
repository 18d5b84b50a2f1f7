#!/usr/bin/python3
"""turn_model.py: reverse_move and its cancel_move in all orders of events.

    turn_model.py               the protocol, then what it cannot do without
    turn_model.py --list        names of the runs
    turn_model.py --phases      the phases that are here, with their successors
    turn_model.py NAME ...      only these

A move from version 1 to 2 is switched: shard C owns what A owned, and a stream
brings back to A what is written on C.  It is turned into the move from 2 to 3,
where 3 is 1 again; before 3 is active anywhere it can be turned once more.

States.  The map keeps (turned, phase, wanted, token): the phases are those of
95-move-phases.sql that concern this.  A shard keeps (active version, columns,
closed, token): columns 12 or 23, closed 0, 1 (leased) or 2 (for good).

    12: turn_again -> activate -> switched
    23: turn -> ready -> lease -> lease_settle -> close -> settle
        -> target -> others -> done;  reopen -> ready;  turn_lift -> turn_again

What happens at any time: a writer passes the guard of C and commits later;
what is committed reaches A later; a call dies and another one takes its place,
with a token above all that it knows, which may be the map's only; requests
arrive in any order, or never, and, where no shard is replaced, one of a dead
call later; a lease ends; somebody wants it back or
not; the map loses its last commit; a shard is replaced by a standby that has
stopped to follow at any time, for A also before the first switch, but not by
one that lacks both switches.

Looked for: two shards that accept the key; a write under way, or not applied,
where the key was when the other shard accepts it.  After a shard was replaced
this is looked for again once a call has been to all shards: what is written
there in between is found by comparing rows, and is not promised.  From every
state some run comes to rest: switched, ready or done, with one owner.

Not in it: other faults of the switch, which fence_model.py has; deletes.
"""
import sys
from collections import deque

A, C = 0, 1
# phase of (turned): what follows it, the step, and who is asked
PHASES = {
    'turn_again': ('activate', 'set', (A, C)),
    'activate': ('switched', 'activate', (A, C)),
    'turn': ('ready', 'set', (A, C)),
    'lease': ('lease_settle', 'lease', (C,)),
    'lease_settle': ('close', 'settle', (C,)),
    'close': ('settle', 'close', (C,)),
    'settle': ('target', 'settle', (C,)),
    'target': ('others', 'activate', (A,)),
    'others': ('done', 'activate', (C,)),
    'reopen': ('ready', 'lift', (A, C)),
    'turn_lift': ('turn_again', 'lift', (A, C)),
    'shut': ('turn_again', 'shut', (A,)),
    'shut again': ('target', 'shut', (C,)),
    'catch up': (None, 'set', (A, C))}
DECIDED = ('target', 'others', 'done')
CLOSING = ('lease', 'lease_settle', 'close', 'settle')
AT_REST = ('switched', 'ready', 'done')

RULES = {
    'tokens': 'a shard refuses a smaller token',
    'second settle': 'writers are waited for once more, closed for good',
    'catch up': 'a shard that lost its turning is turned',
    'all answer': 'a call goes on only when all shards have its token',
    'shards first': 'what shards are counts for more than the ledger',
    'shut first': 'a shard that lost the switch is closed before all else'}


class Model:
    def __init__(self, losses=0, falls=0, without=()):
        self.losses, self.falls = losses, falls
        self.replaced = falls > 0       # then no request comes late
        self.rule = {name: name not in without for name in RULES}

    # shards, writing, not applied, ledger, the one before, call (token, phase,
    # waits, seen), requests, standby, healed, losses, falls
    def start(self):
        shard = (2, 12, 0, 0)
        standby = (A, (1, 12, 0, 0)) if self.falls else None
        return ((shard, shard), False, False, (False, 'switched', 'stay', 0),
                None, None, frozenset(), standby, True, self.losses,
                self.falls)

    @staticmethod
    def accepts(shards, who):
        active, _, closed, _ = shards[who]
        return closed == 0 and (active == 2) == (who == C)

    def fault(self, state):
        shards, writing, behind = state[:3]
        if not state[8] or not self.accepts(shards, A):
            return None
        if self.accepts(shards, C):
            return 'two shards accept a key'
        if writing:
            return 'a write goes on where the key was'
        if behind:
            return 'an acknowledged write has not come back'
        return None

    def is_rest(self, state):
        shards, ledger, call = state[0], state[3], state[5]
        good = {'switched': (2, 12, 0), 'ready': (2, 23, 0),
                'done': (3, 23, 0)}
        return call is None and state[8] and ledger[1] in AT_REST and all(
            s[:3] == good[ledger[1]] for s in shards)

    # ---------- a step on a shard; None: it refuses ----------

    def step(self, shard, who, step, turned, token):
        active, columns, closed, known = shard
        if self.rule['tokens'] and token < known:
            return None
        known = max(known, token)
        if step == 'take':
            return (active, columns, closed, known)
        ours, other = (23, 12) if turned else (12, 23)
        if step == 'set':
            if columns == other:
                if active != 2 or turned and closed == 2:
                    return None
                columns, closed = ours, 0
            return (active, columns, closed, known)
        if step == 'lift' and columns == other:
            return (active, columns, closed, known)
        if step == 'shut' and columns == other and active == 2:
            columns = ours      # it is set before it is closed
        if columns != ours:
            return None
        from_version, to_version = (2, 3) if turned else (1, 2)
        if step == 'activate':
            return (max(active, to_version), columns,
                    0 if active < to_version else closed, known)
        if step in ('lease', 'close', 'shut', 'lift') and active >= to_version:
            return None if step != 'shut' else (active, columns, closed, known)
        if step == 'lease':
            closed = max(closed, 1)
        elif step in ('close', 'shut'):
            closed = 2
        elif step == 'lift':
            closed = 0
        elif step == 'settle' and token != known:
            return None
        return (active, columns, closed, known)

    # ---------- what may happen next ----------

    def events(self, state):
        (shards, writing, behind, ledger, before, call, requests, standby,
         healed, losses, falls) = state
        if not writing and healed and self.accepts(shards, C):
            yield 'a write passes the guard', put(state, writing=True)
        if writing:
            yield 'it commits', put(state, writing=False, behind=True)
        if behind:
            yield 'it is applied', put(state, behind=False)
        for who in (A, C):
            if shards[who][2] == 1:
                yield 'the lease ends', put(state, shards=replace(
                    shards, who, shards[who][:2] + (0,) + shards[who][3:]))
        for request in requests:
            yield from self.arrives(state, request)
        yield from self.calls(state)
        if losses and before:
            # tokens of its new timeline are above all there were
            top = max(ledger[3], *(s[3] for s in shards))
            yield 'the map loses its last commit', put(
                state, ledger=before[:3] + (top,), before=None, call=None,
                losses=losses - 1)
        if falls and standby:
            who, old = standby
            if old != shards[who] and not (
                    old[0] == 1 and any(s[0] == 3 for s in shards)):
                # what is asked of it knows its timeline, and is refused
                yield f'shard {"AC"[who]} is replaced', put(
                    state, shards=replace(shards, who, old), healed=False,
                    writing=writing and who != C, behind=behind and who != C,
                    call=None, falls=falls - 1, requests=frozenset(
                        r for r in requests if r[0] != who))
        if falls:
            for who in (A, C):
                if standby != (who, shards[who]):
                    yield 'a standby stops following', put(
                        state, standby=(who, shards[who]))

    def arrives(self, state, request):
        shards, writing, behind, call = state[0], state[1], state[2], state[5]
        who, step, turned, token = request
        if step == 'settle' and (writing or behind):
            return
        after = self.step(shards[who], who, step, turned, token)
        left = put(state, requests=state[6] - {request})
        ours = call is not None and call[0] == token
        if after is None:
            yield f'{"AC"[who]} refuses {step} of {token}', put(
                left, call=None) if ours else left
            return
        left = put(left, shards=replace(shards, who, after))
        if ours:
            seen = replace(call[3], who, after[:3])
            call = (token, call[1], call[2] - {who}, seen)
            left = put(left, call=call)
            if not call[2]:
                left = self.answered(left)
        yield f'{"AC"[who]} takes {step} of {token}', left

    def calls(self, state):
        shards, ledger, call, requests = (state[0], state[3], state[5],
                                          state[6])
        turned, phase, wanted, token = ledger
        old = [frozenset()] + [frozenset((r,)) for r in requests
                               if r[1] != 'take' and not self.replaced]
        wishes = {wanted}
        if phase not in DECIDED + ('turn_again', 'activate', 'turn_lift'):
            wishes |= {'stay', 'back'} if turned else {'back'}
        if phase == 'switched':
            wishes.add('back')
        for wish in sorted(wishes):
            new = ledger
            if wish == 'back' and not turned and phase == 'switched':
                new = (True, 'turn', 'back', token)
            elif wish != wanted:
                new = (turned, phase, wish, token)
            for known in {token, max(token, *(s[3] for s in shards))}:
                mine = known + 1
                for late in old:
                    yield f'{wish}: a call with token {mine}', put(
                        state, before=ledger, ledger=new[:3] + (mine,),
                        call=(mine, 'take', frozenset((A, C)), (None, None)),
                        requests=late | {
                            (who, 'take', False, mine) for who in (A, C)})
        if call is not None and call[1] == 'take' \
                and not self.rule['all answer'] and len(call[2]) == 1:
            yield 'it goes on with one answer', self.answered(state)

    # ---------- what a call does with its answers ----------

    def answered(self, state):
        ledger, call = state[3], state[5]
        if call[1] == 'take':
            return self.taken(state)
        after = PHASES[call[1]][0]
        return self.enter(self.commit(state, after) if after else state)

    def commit(self, state, phase):
        """The ledger with its next phase."""
        ledger = state[3]
        turned, wanted = ledger[0], ledger[2]
        if phase == 'turn_again':
            turned, wanted = False, 'stay'
        return put(state, before=ledger,
                   ledger=(turned, phase, wanted, ledger[3]))

    def taken(self, state):
        ledger, seen = state[3], state[5][3]
        turned, phase, wanted, _ = ledger
        facts = [s for s in seen if s is not None]
        low = any(s[0] < 2 for s in facts)
        forward = turned and self.rule['shards first'] and any(
            s[0] == 3 and s[1] == 23 for s in facts)
        turn = low and (not turned or not any(s[0] == 3 for s in facts))
        if turned and (phase in DECIDED or forward) and not turn:
            if forward or any(s[0] < 3 for s in facts):
                state = self.commit(state, 'target')
            if self.rule['shut first'] and seen[C] is not None \
                    and seen[C][0] == 2 and seen[C][2] != 2:
                return self.ask(state, 'shut again')
        elif turn:
            state = self.commit(state, 'turn_again')
            if self.rule['shut first'] and any(
                    s[0] < 2 and s[2] != 2 for s in facts):
                return self.ask(state, 'shut')
        elif turned and phase in CLOSING:
            state = self.commit(state, 'reopen')
        state = put(state, healed=True)
        ours, phase = (23 if state[3][0] else 12), state[3][1]
        if self.rule['catch up'] and phase not in ('turn', 'turn_again') \
                and any(s[1] != ours for s in facts):
            return self.ask(state, 'catch up')
        return self.enter(state)

    def enter(self, state):
        """The phase that leads to what is wanted; or the call is over."""
        turned, phase, wanted, _ = state[3]
        if turned and wanted == 'stay' and phase not in DECIDED + (
                'turn_lift',):
            phase = 'turn_lift'
            state = self.commit(state, phase)
        elif phase == 'ready' and wanted == 'back':
            phase = 'lease'
            state = self.commit(state, phase)
        elif phase in AT_REST:
            return put(state, call=None)
        if phase == 'settle' and not self.rule['second settle']:
            state = self.commit(state, 'target')
            phase = 'target'
        if phase in ('activate', 'turn_again', 'target'):
            state = put(state, healed=True)
        return self.ask(state, phase)

    def ask(self, state, phase):
        token, _, _, seen = state[5]
        turned = state[3][0]
        _, step, who = PHASES[phase]
        return put(state, call=(token, phase, frozenset(who), (None, None)),
                   requests=state[6] | {
                       (w, step, turned, token) for w in who})


FIELDS = ('shards', 'writing', 'behind', 'ledger', 'before', 'call',
          'requests', 'standby', 'healed', 'losses', 'falls')


def put(state, **changes):
    new = list(state)
    for name, value in changes.items():
        new[FIELDS.index(name)] = value
    return tuple(new)


def replace(values, i, value):
    return values[:i] + (value,) + values[i + 1:]


def ranked(state):
    """The same with tokens 0, 1, 2 ...: only their order counts."""
    tokens = {s[3] for s in state[0]} | {state[3][3]} | {
        r[3] for r in state[6]}
    tokens |= {state[4][3]} if state[4] else set()
    tokens |= {state[5][0]} if state[5] else set()
    tokens |= {state[7][1][3]} if state[7] else set()
    rank = {token: i for i, token in enumerate(sorted(tokens))}
    shard = lambda s: s[:3] + (rank[s[3]],)
    ledger = lambda l: l[:3] + (rank[l[3]],) if l else None
    call = state[5]
    return put(
        state, shards=tuple(shard(s) for s in state[0]),
        ledger=ledger(state[3]), before=ledger(state[4]),
        call=(rank[call[0]],) + call[1:] if call else None,
        requests=frozenset(r[:3] + (rank[r[3]],) for r in state[6]),
        standby=(state[7][0], shard(state[7][1])) if state[7] else None)


def search(model, limit=3000000):
    """(fault or None, number of states, the events that led there)"""
    start = ranked(model.start())
    came, back, ends = {start: None}, {}, []
    queue = deque([start])
    while queue:
        state = queue.popleft()
        why = model.fault(state)
        if why:
            return why, len(came), trace(came, state)
        if model.is_rest(state):
            ends.append(state)
        for event, after in model.events(state):
            after = ranked(after)
            back.setdefault(after, []).append(state)
            if after not in came:
                came[after] = (state, event)
                queue.append(after)
        if len(came) > limit:
            return 'too many states', len(came), []
    reaches = set(ends)
    queue = deque(ends)
    while queue:
        for state in back.get(queue.popleft(), ()):
            if state not in reaches:
                reaches.add(state)
                queue.append(state)
    for state in came:
        if state not in reaches:
            return 'no run comes to rest', len(came), trace(came, state)
    return None, len(came), []


def trace(came, state):
    events = []
    while came[state] is not None:
        state, event = came[state]
        events.append(event)
    return events[::-1]


RUNS = {'to and fro': {}, 'a map that loses commits': {'losses': 1},
        'a shard that is replaced': {'falls': 1}}
CONTROLS = {'tokens': {}, 'catch up': {'falls': 1},  'second settle': {},
            'all answer': {}, 'shards first': {'losses': 1},
            'shut first': {'falls': 1}}


def main():
    if sys.argv[1:] == ['--phases']:
        for phase, (after, step, who) in PHASES.items():
            print(phase, after, step, ''.join('AC'[w] for w in who))
        return 0
    names = list(RUNS) + [f'without: {name}' for name in CONTROLS]
    if sys.argv[1:] == ['--list']:
        print('\n'.join(names))
        return 0
    bad = 0
    for name in sys.argv[1:] or names:
        control = name.removeprefix('without: ')
        model = Model(**RUNS[name]) if name in RUNS else Model(
            without=(control,), **CONTROLS[control])
        why, states, events = search(model)
        good = (why is None) == (name in RUNS) and why != 'too many states'
        bad += not good
        print(f'{"ok" if good else "NOT ok"}: {name}: {why or "safe"}, '
              f'{states} states', flush=True)
        if not good:
            print('\n'.join('    ' + e for e in events))
    return bad > 0


if __name__ == '__main__':
    sys.exit(main())
