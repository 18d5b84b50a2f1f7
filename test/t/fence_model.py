#!/usr/bin/python3
"""fence_model.py: fence, switch_fenced and unfence in all orders of events.

    fence_model.py              the protocol, then what it cannot do without
    fence_model.py --list       names of the runs
    fence_model.py --phases     the phases, with step and who is asked
    fence_model.py NAME ...     only these

States.  The map keeps (phase, wanted, token): the phases are those of
95-move-phases.sql, without the ones that concern no shard.  A shard keeps
(active version, marked, closed, token), which are columns of shardring.ring:

    none -> set -> close -> settle -> closed                fence
    closed -> activate_targets -> activate_others
           -> clear -> finished                             switch_fenced
    set ... closed -> lift -> unset -> cancelled            unfence

From "activate_targets" on the way is only forward.  A call commits what is
wanted, then a token above all that it knows; then it lets every shard take the
token and asks what it is.  Then, phase by phase, it commits the phase, asks
shards for the step, and commits the next phase when all have answered.

What happens at any time: two writers of each key pass the guard of its shard
and commit later; a call dies, or another one takes its place, which is the
same for it, since it ends when it finds that its token is not the map's; its
requests arrive later, in any order, or never; the map loses its last commit,
and whatever runs there; somebody wants something else while a call runs;
somebody activates the version on a shard with an older tool.  Rows are copied
once fence has said that it is done; only then switch_fenced is called.

Looked for: two shards that accept a key; a write under way where the key was
when its new shard accepts it; an acknowledged write that was not copied; a
mark or a hold that stays when all is over.  And from every state some run has
to come to its end.  After an activation by hand on a shard without a mark,
which nobody can refuse, only the last is looked for.

Not in it: failovers of shards, a map that was replaced and lives on (tokens
begin with the timeline), routers and reads.  A late "take" of a dead call is
left out: all it does is to have a smaller token refused.
"""
import sys
from collections import deque

# Phase: what follows it, the step that is asked for, and of whom.
PHASES = {
    'set': ('close', 'set', 'all'),
    'close': ('settle', 'close', 'sources'),
    'settle': ('closed', 'settle', 'sources'),
    'activate_targets': ('activate_others', 'activate', 'targets'),
    'activate_others': ('clear', 'activate', 'all'),
    'clear': ('finished', 'clear', 'all'),
    'lift': ('unset', 'lift', 'all'),
    'unset': ('cancelled', 'clear', 'all')}
DECIDED = ('activate_targets', 'activate_others', 'clear')
CANCELLING = ('lift', 'unset')
OVER = ('finished', 'cancelled')

# Rules that can be taken away.
RULES = {
    'tokens': True,         # a shard refuses a smaller token
    'close first': True,    # sources are closed, all of them, not activated
    'wait': True,           # settle waits for writers
    'ask': True,            # what shards are counts for more than the ledger
    'forward': True,        # once decided, nothing is opened again
    'no mark, no lift': True,   # where nothing is marked, nothing is refused
    'marks': True,          # older tools are refused on a shard with a mark
    'one call': True,       # a call whose token is not the map's ends
    'check': True,          # the phase is looked at when something is wanted
}


class Call:
    """A call: what it waits for, and what the answers so far say."""
    __slots__ = ('token', 'stage', 'waits', 'failed', 'seen')

    def __init__(self, token, stage, waits=frozenset(), failed=False,
                 seen=(False, True, False)):
        self.token, self.stage, self.waits = token, stage, waits
        self.failed, self.seen = failed, seen

    def key(self):
        return (self.token, self.stage, self.waits, self.failed, self.seen)


class Model:
    """Keys are (source, target); shards have numbers."""

    def __init__(self, keys, deaths=1, losses=1, tools=1, without=()):
        self.keys, self.limits = keys, (deaths, losses, tools)
        self.rule = {name: name not in without for name in RULES}
        self.shards = sorted({s for key in keys for s in key})
        self.sources = sorted({s for s, _ in keys})
        self.targets = sorted({t for _, t in keys})

    # (shards, keys, ledger, ledger before its last commit, calls, requests,
    #  told and copied, spoilt, deaths, losses and tools that are left)
    def start(self):
        return (((1, False, False, 0),) * len(self.shards),
                ((0, False),) * len(self.keys), ('none', 'closed', 0), None,
                (), frozenset(), 0, False, self.limits)

    # ---------- what must never be ----------

    def accepts(self, shards, shard, key):
        active, marked, closed, _ = shards[shard]
        source, target = self.keys[key]
        if active == 2:
            return shard == target
        return shard == source and not (marked and closed)

    def fault(self, state):
        shards, keys, ledger, spoilt = state[0], state[1], state[2], state[7]
        if spoilt:
            return None
        for key, (source, target) in enumerate(self.keys):
            writing, missed = keys[key]
            if self.accepts(shards, target, key):
                if self.accepts(shards, source, key):
                    return 'two shards accept a key'
                if writing:
                    return 'a write goes on where the key was'
                if missed:
                    return 'an acknowledged write was not copied'
        if ledger[0] == 'finished' and any(s[:3] != (2, False, False)
                                           for s in shards) \
                or ledger[0] == 'cancelled' and any(
                    s[:3] != (1, False, False) for s in shards):
            return 'it is over, and a shard is not'
        return None

    @staticmethod
    def is_end(state):
        return state[2][0] in OVER

    # ---------- what may happen next ----------

    def events(self, state):
        yield from self.writers(state)
        yield from self.arrivals(state)
        for i, call in enumerate(state[4]):
            yield from self.call_goes_on(state, i, Call(*call))
        yield from self.deaths(state)
        yield from self.people(state)

    def writers(self, state):
        shards, keys = state[:2]
        for key, (source, _) in enumerate(self.keys):
            writing, missed = keys[key]
            if writing < 2 and self.accepts(shards, source, key) \
                    and shards[source][0] == 1:
                yield f'a write of key {key} passes the guard', self.put(
                    state, keys=replace(keys, key, (writing + 1, missed)))
            if writing:
                yield f'a write of key {key} commits', self.put(
                    state, keys=replace(keys, key, (writing - 1, True)))

    def step(self, shard, step, token):
        """A shard after a step; None: it refuses, and nothing has changed."""
        active, marked, closed, known = shard
        if self.rule['tokens'] and token < known:
            return None
        known = max(known, token)
        if step == 'set':
            if not marked and active != 1:
                return None
            marked = True
        elif step == 'close':
            if active == 2 or not marked:
                return None
            closed = True
        elif step == 'activate':
            if active == 1 and not marked:
                return None
            closed = closed and active == 2
            active = 2
        elif step == 'lift':
            if active == 2 and (marked or not self.rule['no mark, no lift']):
                return None
            closed = False
        elif step == 'clear':
            if marked and closed:
                return None
            marked = False
        elif step == 'settle' and not (marked and token == known):
            return None
        return (active, marked, closed, known)

    def arrivals(self, state):
        shards, keys, calls, requests = state[0], state[1], state[4], state[5]
        for request in requests:
            shard, step, token = request
            if step == 'settle' and self.rule['wait'] and any(
                    keys[k][0] for k, (s, _) in enumerate(self.keys)
                    if s == shard):
                continue
            after = self.step(shards[shard], step, token)
            yield (f'shard {shard} {"refuses" if after is None else "takes"} '
                   f'{step} of {token}', self.put(
                       state, requests=requests - {request},
                       shards=shards if after is None
                       else replace(shards, shard, after),
                       calls=tuple(self.answered(Call(*c), request, after)
                                   for c in calls)))

    def answered(self, call, request, after):
        shard, step, token = request
        if call.token == token and shard in call.waits and \
                step == step_of(call.stage):
            call.waits -= {shard}
            call.failed |= after is None
            if after is not None and step == 'take':
                switched, everywhere, opened = call.seen
                active, marked, closed, _ = after
                call.seen = (switched or active == 2 and marked,
                             everywhere and active == 2,
                             opened or shard in self.sources and not closed)
        return call.key()

    # ---------- calls ----------

    def call_goes_on(self, state, i, call):
        ledger, others = state[2], state[4][:i] + state[4][i + 1:]
        name = f'call {call.token}'

        def goes(stage, what, new=ledger, waits=()):
            later = Call(call.token, stage, frozenset(waits))
            return f'{name} {what}', self.put(
                state, ledger=new, calls=others + (later.key(),),
                requests=state[5] | {
                    (s, step_of(stage), call.token) for s in waits})

        def ends(what, new=ledger, told=state[6]):
            return f'{name} {what}', self.put(state, ledger=new, calls=others,
                                              told=told)

        if call.stage == 'begin':
            # shards that are silent are not known to have a token
            for known in {ledger[2]} | {max([ledger[2]] + [
                    s[3] for s in state[0]])}:
                token = self.between(state, known)
                yield f'call {token} begins', self.put(
                    state, ledger=ledger[:2] + (token,),
                    calls=others + (Call(token, 'take', frozenset(
                        self.shards)).key(),),
                    requests=state[5] | {(s, 'take', token)
                                         for s in self.shards})
            return
        if self.rule['one call'] and ledger[2] != call.token:
            yield ends('ends, another one has begun')
        elif call.stage == 'take':
            yield from self.taken(state, call, goes, ends)
        elif call.stage == 'enter':
            yield from self.enters(state, call, goes, ends)
        elif call.waits:
            return
        elif call.failed:
            yield ends(f'is refused in {call.stage}')
        else:
            phase = PHASES[call.stage][0]
            yield goes('enter', f'has done {call.stage}',
                       (phase,) + ledger[1:])

    def taken(self, state, call, goes, ends):
        (phase, wanted, token), told = state[2], state[6]
        switched, everywhere, opened = call.seen
        decided = switched or everywhere and not call.waits \
            and not call.failed
        if phase in DECIDED:
            yield goes('enter', 'goes forward')
        elif decided and self.rule['ask']:
            yield goes('enter', 'finds that it is decided',
                       ('activate_targets', wanted, token))
        elif call.waits:
            return
        elif call.failed:
            yield ends('is refused')
        elif phase == 'closed' and wanted != 'cancelled' and opened \
                and self.rule['ask']:
            yield ends('finds an open source', ('close', wanted, token))
        else:
            yield goes('enter', 'has taken all')

    def enters(self, state, call, goes, ends):
        phase, wanted, token = state[2]
        if phase in OVER:
            yield ends(f'has {phase}', told=0)
            return
        if wanted == 'cancelled' and phase in DECIDED and self.rule['forward']:
            yield ends('cannot go back')
            return
        if wanted == 'cancelled' and phase not in CANCELLING:
            phase = 'lift'
        elif phase == 'closed':
            if wanted != 'finished':
                yield ends('has fenced', told=max(state[6], 1))
                return
            phase = 'activate_targets'
        asked = {'all': self.shards, 'sources': self.sources,
                 'targets': self.targets}[PHASES[phase][2]]
        if phase == 'close' and not self.rule['close first']:
            yield from self.activates_sources(state, call, goes)
            return
        yield goes(phase, f'asks {phase}', (phase, wanted, token), asked)

    def activates_sources(self, state, call, goes):
        """The older way: sources are activated one after the other."""
        later = Call(call.token, 'close', frozenset(self.sources))
        event, new = goes('close', 'activates sources',
                          ('close',) + state[2][1:], self.sources)
        requests = frozenset(
            (s, 'activate' if step == 'close' else step, t)
            for s, step, t in new[5])
        yield event, self.put(new, requests=requests, calls=(later.key(),))

    def between(self, state, known):
        """A token above this one, and equal to none."""
        above = [t for t in self.tokens(state) if t > known]
        return (known + min(above)) / 2 if above else known + 1

    @staticmethod
    def tokens(state):
        shards, _, ledger, before, calls, requests = state[:6]
        return {0, ledger[2]} | {s[3] for s in shards} \
            | {c[0] for c in calls if c[0] is not None} \
            | {r[2] for r in requests} | ({before[2]} if before else set())

    def deaths(self, state):
        ledger, before, calls, left = state[2], state[3], state[4], state[8]
        deaths, losses, tools = left
        if calls and deaths:
            for i in range(len(calls)):
                yield 'a call dies', self.put(
                    state, calls=calls[:i] + calls[i + 1:],
                    left=(deaths - 1, losses, tools))
        if losses and before is not None:
            yield 'the map loses its last commit', self.put(
                state, ledger=before, lost=True, calls=(),
                left=(deaths, losses - 1, tools))

    # ---------- people ----------

    # told: 0: nothing, 1: it is fenced, 2: and the rows are copied since
    def people(self, state):
        shards, keys, ledger, _, calls, _, told, _, left = state
        phase = ledger[0]
        if told == 1 and not any(s[0] == 2 for s in shards):
            yield 'the rows are copied', self.put(
                state, keys=tuple((w, False) for w, _ in keys), told=2)
        for verb in ('fence', 'switch', 'unfence'):
            if self.may_call(verb, phase, told):
                yield from self.calls(state, verb)
        if left[2] and phase != 'none':
            for s in self.shards:
                if shards[s][0] == 1 and not (
                        shards[s][1] and self.rule['marks']):
                    yield f'an older tool activates shard {s}', self.put(
                        state, shards=replace(
                            shards, s, (2,) + shards[s][1:2] + (False,)
                            + shards[s][3:]),
                        spoilt=state[7] or not shards[s][1],
                        left=left[:2] + (left[2] - 1,))

    def may_call(self, verb, phase, told):
        if verb == 'fence':
            return phase not in DECIDED + CANCELLING + ('finished',)
        if verb == 'unfence':
            return phase not in OVER + ('none',) and not (
                phase in DECIDED and self.rule['check'])
        return phase in DECIDED or told == 2 and (
            phase == 'closed' or not self.rule['check']
            and phase not in OVER + CANCELLING)

    def calls(self, state, verb):
        """What is wanted is committed; then a call begins, if it may."""
        ledger, calls, told, left = state[2], state[4], state[6], state[8]
        new = (ledger[0], {'fence': 'closed', 'switch': 'finished',
                           'unfence': 'cancelled'}[verb], ledger[2])
        if ledger[0] in ('none', 'cancelled'):      # a row of its own
            new = ('set', 'closed', 0)
        told = told if verb == 'switch' else 0
        begun = (Call(None, 'begin').key(),)
        if not calls:
            yield f'{verb} is called', self.put(
                state, ledger=new, calls=begun, told=told)
            return
        yield f'{verb} is wanted', self.put(state, ledger=new, told=told)
        if left[0] and all(c[0] is not None for c in calls) \
                and len(calls) == 1:
            yield f'{verb} takes over', self.put(
                state, ledger=new, told=told,
                calls=begun if self.rule['one call'] else calls + begun,
                left=(left[0] - 1,) + left[1:])

    # ---------- states ----------

    def put(self, state, shards=None, keys=None, ledger=None, calls=None,
            requests=None, told=None, spoilt=None, left=None, lost=False):
        """A state with some parts changed, in its one form."""
        old = state
        shards = old[0] if shards is None else shards
        keys = old[1] if keys is None else keys
        left = old[8] if left is None else left
        before = None
        if ledger is None:
            ledger, before = old[2], old[3]
        elif not lost:
            before = old[2] if ledger != old[2] else old[3]
        if not left[1]:
            before = None
        calls = old[4] if calls is None else calls
        requests = old[5] if requests is None else requests
        alive = {c[0] for c in calls}
        requests = frozenset(
            r for r in requests
            if (r[2] in alive or r[1] not in ('take', 'settle'))
            and not (self.rule['tokens'] and r[2] not in alive
                     and r[2] < shards[r[0]][3]))
        return self.ranked((
            shards, keys, ledger, before, calls, requests,
            old[6] if told is None else told,
            old[7] if spoilt is None else spoilt, left))

    def ranked(self, state):
        """Of tokens only the order counts."""
        tokens = sorted(self.tokens(state))
        if tokens == list(range(len(tokens))):
            return state
        rank = {t: i for i, t in enumerate(tokens)}
        rank[None] = None
        shards, keys, ledger, before, calls, requests, *rest = state
        return (tuple(s[:3] + (rank[s[3]],) for s in shards), keys,
                ledger[:2] + (rank[ledger[2]],),
                before and before[:2] + (rank[before[2]],),
                tuple((rank[c[0]],) + c[1:] for c in calls),
                frozenset((s, step, rank[t]) for s, step, t in requests),
                *rest)


def step_of(stage):
    return PHASES[stage][1] if stage in PHASES else stage


def replace(values, i, value):
    return values[:i] + (value,) + values[i + 1:]


# ---------- the search ----------

def search(model):
    """(states, None) or (states, the shortest way to a fault)."""
    start = model.start()
    number, states, parent, back = {start: 0}, [start], [None], [[]]
    queue = deque([0])
    while queue:
        i = queue.popleft()
        for event, new in model.events(states[i]):
            j = number.get(new)
            if j is None:
                j = number[new] = len(states)
                states.append(new)
                parent.append((i, event))
                back.append([])
                queue.append(j)
                fault = model.fault(new)
                if fault:
                    return len(states), way(parent, j) + [fault]
            back[j].append(i)
    ends = [i for i, s in enumerate(states) if model.is_end(s)]
    can_end = set(ends)
    queue = deque(ends)
    while queue:
        for i in back[queue.popleft()]:
            if i not in can_end:
                can_end.add(i)
                queue.append(i)
    for i in range(len(states)):
        if i not in can_end:
            return len(states), way(parent, i) + ['nothing leads to an end']
    return len(states), None


def way(parent, i):
    events = []
    while parent[i] is not None:
        i, event = parent[i]
        events.append(event)
    return events[::-1]


PAIR, TWO, CHAIN, EXCHANGE = ([(0, 1)], [(0, 2), (1, 2)], [(0, 1), (1, 2)],
                              [(0, 1), (1, 0)])
RUNS = {
    'pair': Model(PAIR, deaths=2),
    'two sources': Model(TWO, losses=0, tools=0),
    'chain': Model(CHAIN, losses=0, tools=0),
    'chain, a commit lost': Model(CHAIN, deaths=0, tools=0),
    'exchange': Model(EXCHANGE),
    'no token': Model(PAIR, losses=0, tools=0, without=['tokens']),
    'sources activated before all are closed': Model(
        EXCHANGE, 0, 0, 0, without=['close first']),
    'writers not waited for': Model(PAIR, 0, 0, 0, without=['wait']),
    'the map believed, not the shards': Model(
        PAIR, tools=0, without=['ask']),
    'opened where a target is active': Model(
        PAIR, tools=0, without=['forward']),
    'refused where nothing is marked': Model(
        PAIR, 0, 0, without=['no mark, no lift']),
    'older tools not refused': Model(PAIR, 0, 0, without=['marks']),
    'two calls at once': Model(PAIR, 1, 0, 0, without=['one call']),
    'switched without a look at the phase': Model(
        PAIR, 2, without=['check']),
}
SAFE = ('pair', 'two sources', 'chain', 'chain, a commit lost', 'exchange')


def main(names):
    if names == ['--list']:
        print('\n'.join(RUNS))
        return 0
    if names == ['--phases']:
        print('\n'.join(f'{phase} {step} {who}'
                        for phase, (_, step, who) in PHASES.items()))
        return 0
    wrong = 0
    for name in names or RUNS:
        states, fault = search(RUNS[name])
        good = (fault is None) == (name in SAFE)
        wrong += not good
        print(f'{"ok" if good else "NOT OK"}: {name}: {states} states, '
              f'{"safe" if fault is None else fault[-1]}', flush=True)
        if fault and not good:
            print('\n'.join(f'    {event}' for event in fault))
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
