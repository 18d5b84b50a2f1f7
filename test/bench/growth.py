"""growth.py: what grows with what: slots, groups, versions, rings, memory."""
import contextlib, functools

from rings import copy_ring, copy_versions, make_ring
from session import Session, in_turns, medians, net_costs

STATEMENTS = 5000
COUNTS = 1, 10, 100, 1000


def measure(report, keys, runs):
    with Session() as session:
        _shapes(report, session, keys, runs)
    _versions(report, runs)
    _rings(report, runs)


def _shapes(report, session, keys, runs):
    """8,000 points with more slots, on as many shards; and in more groups."""
    slots = {n: f'slots{n}' for n in (1, 8, 64, 512)}
    groups = {n: f'groups{n}' for n in COUNTS}
    for n, ring in slots.items():
        make_ring(session, ring, 8, 1000, n)
    for n, ring in groups.items():
        make_ring(session, ring, n, 8000 // n)
    costs = medians(net_costs(
        session, {ring: f"shardring.shard_for('{ring}', k)"
                  for ring in (*slots.values(), *groups.values())},
        'keys', keys, runs))
    for title, rings in (('slots a group, each on its shard', slots),
                         ('groups', groups)):
        report.curves[title] = {
            'shard_for': [(n, costs[ring]) for n, ring in rings.items()]}
        for n, ring in rings.items():
            report.add(f'Growth: {title}', f'{n:,}',
                       f'{costs[ring] * 1e9:.0f} ns')


def _versions(report, runs):
    with Session() as session:
        for n in COUNTS:
            make_ring(session, f'versions{n}', 4, 20)
            copy_versions(session, f'versions{n}', n)
        _grow(report, 'versions of the ring', '{:,} versions',
              {n: (session, f'versions{n}') for n in COUNTS}, runs)


def _rings(report, runs):
    """A database for each number of rings, so that they can take turns."""
    with contextlib.ExitStack() as stack:
        places = {}
        for n in COUNTS:
            with Session() as session:
                session.run(f'CREATE DATABASE rings{n}')
            session = stack.enter_context(Session(database=f'rings{n}'))
            session.run('CREATE EXTENSION shardring')
            make_ring(session, 'rings', 4, 20)
            copy_versions(session, 'rings', 10)
            copy_ring(session, 'rings', 1, n - 1)
            places[n] = session, 'rings'
        _grow(report, 'rings of 10 versions in the database',
              '{:,} rings of 10 versions', places, runs)


def _grow(report, title, what, places, runs):
    """Of a ring in each place: the next version, and a statement."""
    changes = medians(in_turns({
        n: functools.partial(_next_version, *place)
        for n, place in places.items()}, runs))
    for n, cost in changes.items():
        report.add('Growth: draft, set_weight and activate', what.format(n),
                   f'{cost * 1e3:.1f} ms')
    statements = medians(in_turns({
        n: functools.partial(_statement, *place)
        for n, place in places.items()}, runs))
    report.curves[title] = {'a statement with shard_for':
                            list(statements.items())}
    for n, cost in statements.items():
        report.add(f'Growth: {title}', f'{n:,}', f'{cost * 1e6:.1f} us',
                   'a statement of its own, so that tables are read')


def _next_version(session, ring):
    """What it takes to make and activate the next version, undone."""
    session.run('BEGIN')
    cost = sum(session.cost(f"SELECT shardring.{change}") for change in (
        f"draft_version('{ring}')", f"set_weight('{ring}', 'node-1', 2)",
        f"activate('{ring}')"))
    session.run('ROLLBACK')
    return cost


def _statement(session, ring):
    """A call that finds nothing remembered, because a transaction has ended,
    net of the same loop with md5."""
    def cost(expression):
        return session.cost(f'''DO $$
            DECLARE x text;
            BEGIN
                FOR i IN 1 .. {STATEMENTS} LOOP
                    EXECUTE $q$SELECT {expression}$q$ INTO x;
                    COMMIT;
                END LOOP;
            END $$''')
    return (cost(f"shardring.shard_for('{ring}', 'k')")
            - cost("md5('k')")) / STATEMENTS


def measure_memory(report, calls, changes):
    """What a backend has more after millions of calls and thousands of
    versions, once it has warmed up, compiled rings left out."""
    with Session() as session:
        keys = int(session.run('SELECT count(*) FROM keys')[0])
        query = "SELECT count(shardring.shard_for('r8000', k)) FROM keys"
        session.run(query)
        before = _uncached(session)
        for _ in range(calls // keys):
            session.run(query)
        _grown(report, session, before, f'{calls // keys * keys:,} calls')
    with Session() as session:
        # so large that the cache is full, and has evicted all that was in it
        # several times, before it counts
        make_ring(session, 'changing', 2, 5000)
        for _ in range(4):
            _change(session, 500)
        before = _uncached(session)
        for _ in range(changes // 500):
            _change(session, 500)
        _grown(report, session, before, f'{changes:,} changes of the version')


def _uncached(session):
    """Memory but for compiled rings, which the cache bounds by itself."""
    return session.memory() - cached(session)


def cached(session):
    """Bytes of compiled rings."""
    return int(session.run('''
        SELECT sum(total_bytes) FROM pg_backend_memory_contexts
        WHERE name LIKE 'shardring%' ''')[0])


def _grown(report, session, before, what):
    grown = _uncached(session) - before
    report.add('Memory', f'growth over {what}', f'{grown / 1e6:.2f} MB')
    report.bound(f'memory growth over {what}', 1, grown / 1e6, 'MB')


def _change(session, count):
    """Draft, edit, activate, route; old versions are pruned now and then.  A
    few hundred a statement, because a DO block keeps memory until it ends."""
    session.run(f'''DO $$
        BEGIN
            FOR i IN 1 .. {count} LOOP
                PERFORM shardring.draft_version('changing');
                PERFORM shardring.pin('changing',
                    (i * 7919::bigint) % 4294967296, 'node-1');
                PERFORM shardring.activate('changing');
                PERFORM shardring.shard_for('changing', 'k');
                IF i % 50 = 0 THEN
                    PERFORM shardring.prune('changing', 2);
                    PERFORM shardring.draft_version('changing');
                    PERFORM shardring.unpin('changing', p.key_position)
                    FROM shardring.shard_pin AS p
                    WHERE p.ring = 'changing' AND p.version = (
                        SELECT max(r.version) FROM shardring.ring_version AS r
                        WHERE r.ring = 'changing');
                    PERFORM shardring.activate('changing');
                END IF;
                COMMIT;
            END LOOP;
        END $$''')
