#!/usr/bin/python3
"""move_model.py: start_move to finish_move, cancel_move and reverse_move in
all orders of events.

    move_model.py               every run that fits into a test
    move_model.py --full        larger ones, which take minutes
    move_model.py --list        names of the runs
    move_model.py --phases      the phases, as move_phases() has them
    move_model.py NAME ...      only these

The map keeps (phase, wanted, token, base, turned, whether its timeline is the
one that was noted); a move from version "base" is to the next one, and
"turned" is the base of the move that this one was before it was turned.  A
shard keeps (active version, columns, closed, token, back_lsn).  A call commits
what is wanted, a token above all that it knows, and then lets every shard take
it and say what it is; a shard may be silent.  Then it goes from phase to phase
as 98-move-drive.sql does; phases that change no shard are passed at once.

What happens at any time: writers pass the guard and commit later; what they
wrote comes to the other side later; a call dies, or another one takes its
place; requests arrive later, in any order, or never; the map fails over, back
to any earlier state of the ledger, and the old one may live on; a shard fails
over and lacks its last commit, and its slots; a stream stops with an error; an
older tool activates a version; every command is given in every state that
takes it; a client that looked long ago updates; another move follows.

Looked for: two shards that accept a key; an acknowledged write that is not at
its owner; rows deleted that are not equal on both sides, or owned, or while a
subscription is anywhere; an update that finds nothing and is told nothing; a
way back that begins elsewhere than at the activation.  From every state some
run comes to an end, with every shard open and without columns.

After a failover of a shard that loses an activation there are two owners until
the next call, which nobody can prevent; then only the rest is looked for.

A map loses no more than one turn of a move, and nothing of one that ended after
it; shards lose nothing once rows are being deleted.

Not in it: reads, routers, sequences, more than one table, forget_move.
"""
import sys
import time

from fence_model import search
from move_calls import Model
from move_shards import PHASES

ENDLESS = 'nothing leads to an end'
PAIR, TWO, CHAIN, EXCHANGE = ([(0, 1)], [(0, 2), (1, 2)], [(0, 1), (1, 2)],
                              [(0, 1), (1, 0)])
ALL = ('switched', 'finished', 'cancelled')
SWITCH = ('switched', 'finished')


def pair(begin='ready', wants=ALL, **more):
    return lambda: Model(PAIR, begin, wants, **more)


def without(*rules, pairs=PAIR, begin='ready', wants=ALL, **more):
    return lambda: Model(pairs, begin, wants, without=rules, **more)


SAFE = {
    'pair': pair(wants=ALL + ('unverified',), deaths=1, strays=1, silent=1),
    'pair, map fails over': pair(wants=SWITCH, losses=1),
    'older tools': pair('set', tools=1),
    'streams': pair('set', streams=True, deaths=1, stops=1),
    'clients': pair('set', SWITCH, clients=True),
    'two sources': lambda: Model(TWO, 'ready', SWITCH, deaths=1),
    'chain': lambda: Model(CHAIN, 'ready', SWITCH, deaths=1),
    'exchange': lambda: Model(EXCHANGE, 'ready', ALL, deaths=1),
    'two moves': pair('set', moves=1, deaths=1),
    'shard fails over': pair(wants=ALL + ('unverified',), falls=1),
    'reverse': pair('switched', turns=1, deaths=1),
    'reverse, streams': pair('switched', streams=True, turns=1, deaths=1),
    'reverse, exchange': lambda: Model(EXCHANGE, 'switched', ALL, turns=1),
}
FULL = {
    'old map': pair(wants=SWITCH, old=True, losses=1),
    'pair, two faults': pair(deaths=2, losses=1, silent=1),
    'from new, map fails over': pair('set', losses=1),
    'clients, a death': pair('set', clients=True, deaths=1),
    'chain, map fails over': lambda: Model(CHAIN, 'ready', SWITCH, losses=1),
    'reverse twice': pair('switched', turns=2, deaths=1),
    'reverse, map fails over': pair('switched', turns=1, losses=1),
    'reverse, shard fails over': pair(
        'switched', ALL + ('unverified',), turns=1, falls=1),
}
BROKEN = {
    'no token': without('tokens', deaths=2, wants=SWITCH),
    'token of another move': without(
        'token stays', begin='set', moves=1, deaths=1),
    'sources activated before all are closed': without(
        'close first', pairs=EXCHANGE),
    'settled once': without('settle'),
    'writers not waited for': without('writers'),
    'streams not waited for': without('streams'),
    'the map believed, not the shards': without('ask', losses=1),
    'decided before all have answered': without(
        'all answer', pairs=TWO, wants=SWITCH),
    'any silent target passed over': without(
        'timeline', wants=SWITCH, losses=1, silent=1),
    'a call goes on with another token': without(
        'look at token', begin='back_verify', turns=1),
    'tokens without the timeline': without(
        'map timeline', wants=SWITCH, old=True, losses=1),
    'older tools not refused': without('marks', tools=1),
    'marked without a look': without('set looks', begin='set', tools=1),
    'cancel deletes without a look': without(
        'cancel looks', 'cleared', losses=1),
    'deleted with a subscription there': without(
        'no subscription', streams=True, begin='switched'),
    'not verified': without('verify', strays=1),
    'not drained': without('drain', clients=True, wants=SWITCH),
    'old snapshot passes': without(
        'snapshot', begin='set', clients=True, wants=SWITCH),
    'way back from the start of its slot': without(
        'back_lsn', streams=True),
    'way back started twice': without(
        'start once', streams=True, deaths=1),
    'way back resumed, not started': without(
        'resume started', begin='switched', streams=True, falls=1,
        wants=ALL + ('unverified',)),
    'shard that lost the switch stays': without(
        'raise fallen', wants=ALL + ('unverified',), falls=1),
    'promoted shard not asked': without(
        'promoted', wants=ALL + ('unverified',), falls=1),
    'a map that lost the end': without('cleared', losses=1),
    'turned under a call': without(
        'turn alone', begin='back_verify', turns=1),
    'a shard not yet turned refuses': without(
        'lift before turn', begin='switched', turns=1, deaths=1),
    'a shard that lost the turn': without(
        'set again', begin='switched', wants=ALL + ('unverified',),
        turns=1, falls=1),
    'a map that lost the turn': without(
        'turned on', begin='switched', turns=1, losses=1),
}
# These break no promise about rows; they never end.
STUCK = (
    'marked without a look', 'shard that lost the switch stays',
    'promoted shard not asked', 'a map that lost the end',
    'a shard not yet turned refuses', 'a shard that lost the turn',
    'a map that lost the turn')
RUNS = {**SAFE, **BROKEN}


def main(names):
    if names == ['--list']:
        print('\n'.join(RUNS))
        return 0
    if names == ['--phases']:
        print('\n'.join(' '.join(phase) for phase in PHASES))
        return 0
    runs = {**RUNS, **FULL}
    if names == ['--full']:
        names = list(FULL)
    wrong = 0
    for name in names or RUNS:
        begun = time.monotonic()
        states, fault = search(runs[name]())
        good = (fault is not None) == (name in BROKEN) and (
            fault is None or (name in STUCK) == (fault[-1] == ENDLESS))
        wrong += not good
        print(f'{"ok" if good else "NOT OK"}: {name}: {states} states, '
              f'{time.monotonic() - begun:.1f} s, '
              f'{"safe" if fault is None else fault[-1]}', flush=True)
        if fault and not good:
            print('\n'.join(f'    {event}' for event in fault))
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
