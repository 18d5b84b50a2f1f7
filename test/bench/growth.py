"""growth.py: what grows with what: slots, groups, versions, rings, memory."""
import statistics

from rings import copy_ring, copy_versions, make_ring
from session import Session, medians, net_costs, rolled_back_cost

STATEMENTS = 2000


def measure(report, keys, runs):
    with Session() as session:
        _shapes(report, session, keys, runs)
        _versions(report, session)
        _rings(report, session)


def _shapes(report, session, keys, runs):
    """8,000 points with more slots, on as many shards; and in more groups."""
    slots = {n: f'slots{n}' for n in (1, 8, 64, 512)}
    groups = {n: f'groups{n}' for n in (1, 10, 100, 1000)}
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


def _versions(report, session):
    curve = []
    for n in (1, 10, 100, 1000):
        make_ring(session, f'versions{n}', 4, 20)
        if n > 1:
            copy_versions(session, f'versions{n}', n)
        curve.append((n, _statement(session, f'versions{n}')))
        _next_version(report, session, f'versions{n}', f'{n:,} versions')
    _curve(report, 'versions of the ring', curve)


def _rings(report, session):
    curve, made = [], 0
    make_ring(session, 'rings', 4, 20)
    copy_versions(session, 'rings', 10)
    for n in (1, 10, 100, 1000):
        if n > 1:
            copy_ring(session, 'rings', made + 1, n - 1)
            made = n - 1
        curve.append((n, _statement(session, 'rings')))
        _next_version(report, session, 'rings', f'{n:,} rings of 10 versions')
    _curve(report, 'rings of 10 versions in the database', curve)


def _next_version(report, session, ring, what):
    """What it takes to make and activate the next version, undone."""
    draft = f"SELECT shardring.draft_version('{ring}')"
    change = f"SELECT shardring.set_weight('{ring}', 'node-1', 2)"
    activate = f"SELECT shardring.activate('{ring}')"
    costs = [rolled_back_cost(session, before, statement, 5)
             for before, statement in (
                 ([], draft), ([draft], change), ([draft, change], activate))]
    report.add('Growth: draft, set_weight and activate', what,
               f'{sum(costs) * 1e3:.1f} ms')


def _curve(report, title, curve):
    report.curves[title] = {'a statement with shard_for': curve}
    for n, cost in curve:
        report.add(f'Growth: {title}', f'{n:,}', f'{cost * 1e6:.1f} us',
                   'a statement of its own, so that tables are read')


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
    plain, routed = "md5('k')", f"shardring.shard_for('{ring}', 'k')"
    cost(routed)
    return statistics.median(
        (cost(routed) - cost(plain)) / STATEMENTS for _ in range(5))


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
        # so large that the cache is full, and evicts, before it counts
        make_ring(session, 'changing', 2, 5000)
        _change(session, 1000)
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
