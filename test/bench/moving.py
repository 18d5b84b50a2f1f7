"""moving.py: what it costs to compare two versions and to list what moves."""
import functools, statistics

from rings import make_next
from session import (Session, in_turns, median_cost, medians, ratio,
                     rolled_back_cost)

# what is counted, and in what
LISTINGS = (
    ('moves, text key',
     "*) FROM rows WHERE shardring.moves('r8000', 1, 2, k)"),
    ('moves, bigint key',
     "*) FROM rows WHERE shardring.moves('r8000', 1, 2, n)"),
    ('moving_keys, array of text',
     "*) FROM shardring.moving_keys('r8000', 1, 2, (SELECT keys FROM list))"),
    ('moving_keys, table, text key',
     "*) FROM shardring.moving_keys('r8000', 1, 2, 'rows', 'k')"),
    ('moving_keys, table, bigint key',
     "*) FROM shardring.moving_keys('r8000', 1, 2, 'rows', 'n')"),
    ('rehearse, text key, bytes counted',
     "*) FROM shardring.rehearse('r8000', 1, 2, 'rows', 'k')"))


def prepare(session, keys):
    """Version 2 of the rings, and a table with an index on the position."""
    make_next(session, 'r8000')
    make_next(session, 'r80000')
    session.run(f'''
        CREATE UNLOGGED TABLE rows AS
        SELECT i AS n, 'user:' || i AS k
        FROM generate_series(1::bigint, {keys}) AS i''')
    session.run('CREATE INDEX rows_position '
                'ON rows (shardring.key_position(k))')
    session.run('VACUUM ANALYZE rows')


def measure(report, keys, runs):
    with Session() as session:
        _ranges(report, session, runs)
        _keys(report, session, keys, runs)
        _extraction(report, session, runs)


def _ranges(report, session, runs):
    pair = "'r80000', 1, 2"
    session.run(f'SELECT count(*) FROM shardring.moved_ranges({pair})')
    for name in 'moved_ranges', 'move_plan':
        cost = median_cost(
            session, f'SELECT count(*) FROM shardring.{name}({pair})', runs)
        report.add('Comparing', f'{name}, 80,000 against 80,160 points',
                   f'{cost * 1e3:.2f} ms')
        if name == 'moved_ranges':
            report.bound(f'{name}, 80,000 against 80,160 points', 2,
                         cost * 1e3, 'ms')


def _keys(report, session, keys, runs):
    """moves over a table net of count(k); moving_keys with all it does."""
    session.run('CREATE UNLOGGED TABLE list AS '
                'SELECT array_agg(k) AS keys FROM rows')
    costs = in_turns({
        name: functools.partial(session.cost, f'SELECT count({what}')
        for name, what in (('nothing', 'k) FROM rows'), *LISTINGS)}, runs)
    for run in costs:
        base = run.pop('nothing')
        for name in run:
            run[name] -= base if name.startswith('moves') else 0
    for name, cost in medians(costs).items():
        report.add(f'Listing the keys that move, of {keys:,}', name,
                   f'{cost:.2f} s', f'{keys / cost / 1e6:.1f} M keys/s a core')
    report.least('moves, keys a second and core', 3.5,
                 keys / medians(costs)['moves, text key'] / 1e6, 'M')


def _extraction(report, session, runs):
    """All rows that move, and those between one pair of groups."""
    for what, condition in (
            ('all rows that move', ''),
            ('of one pair of groups', 'ORDER BY from_group LIMIT 1')):
        indexed = f'''
            SELECT count(k) FROM (
                SELECT positions
                FROM shardring.moved_ranges('r8000', 1, 2) {condition}) AS m
            CROSS JOIN unnest(m.positions) AS r
            JOIN rows ON shardring.key_position(k) >= lower(r)
                AND shardring.key_position(k) < upper(r)'''
        scan = f'''
            SELECT count(k) FROM rows
            WHERE shardring.key_position(k) <@ (
                SELECT range_agg(positions) FROM (
                    SELECT positions
                    FROM shardring.moved_ranges('r8000', 1, 2)
                    {condition}) AS m)'''
        rows = _count(session, indexed, 'off')
        if _count(session, scan, 'on') != rows:
            raise RuntimeError('index and scan disagree')
        costs = in_turns({
            'index': functools.partial(_cost, session, indexed, 'off'),
            'scan': functools.partial(_cost, session, scan, 'on')}, runs)
        cost = medians(costs)['index']
        report.add('Reading the rows that move', f'index, {what}',
                   f'{cost * 1e6 / rows:.2f} us a row',
                   f"{rows:,} rows, {ratio(costs, 'scan', 'index'):.0f} times "
                   'as quick as a scan')
        if not condition:
            report.bound('index on the position, a row that moves', 2,
                         cost * 1e6 / rows, 'us')


def _count(session, sql, scans):
    """What a query finds, with sequential scans "on" or "off"."""
    session.run(f'SET enable_seqscan = {scans}')
    return int(session.run(sql)[0])


def _cost(session, sql, scans):
    """What it costs, with them on or off."""
    session.run(f'SET enable_seqscan = {scans}')
    return session.cost(sql)


def measure_defining(report, runs):
    """Edits of a version with 80,000 points, undone each time."""
    draft = "SELECT shardring.draft_version('r80000', 1)"
    group = ("SELECT shardring.add_group('r80000', 'node-more', "
             "ARRAY['shard-more'])")
    seal = "SELECT shardring.seal('r80000', 3)"
    with Session() as session:
        for name, before, statement in (
                ('draft_version', [], draft),
                ('add_group', [draft], group),
                ('seal', [draft, group], seal),
                ('activate', [draft, group, seal],
                 "SELECT shardring.activate('r80000', 3)"),
                ('set_vnodes, 161 for 160', [draft],
                 "SELECT shardring.set_vnodes('r80000', 161)")):
            cost = rolled_back_cost(session, before, statement, runs)
            report.add('Defining, 500 groups of 160 points', name,
                       f'{cost * 1e3:.1f} ms')
            if name == 'add_group':
                report.bound('add_group to 500 groups of 160 points', 20,
                             cost * 1e3, 'ms')
    _defining_many(report, runs)


def _defining_many(report, runs):
    """1,000 groups of 160 points, all at once and one after the other, the
    first half of them and the second; then one group more.  Undone each time,
    all in turns."""
    create = "SELECT shardring.create_ring('many')"
    heading = 'Defining, 1,000 groups of 160 points'
    with Session() as session:
        def one_by_one():
            session.run('BEGIN')
            session.run(create)
            costs = [session.cost(statement) for statement in (
                _adding(1, 500), _adding(501, 1000), _adding(1001, 1001))]
            session.run('ROLLBACK')
            return costs
        costs = in_turns({
            'add_groups': lambda: rolled_back_cost(session, [create], """
                SELECT shardring.add_groups('many', jsonb_agg(
                    jsonb_build_object('group_name', 'node-' || i,
                                       'shards', ARRAY['shard-' || i])))
                FROM generate_series(1, 1000) AS i""", 1),
            'add_group': one_by_one}, runs)
    at_once = statistics.median(run['add_groups'] for run in costs)
    low, high, one = (statistics.median(run['add_group'][i] for run in costs)
                      for i in range(3))
    report.add(heading, 'add_groups', f'{at_once * 1e3:.0f} ms')
    report.add(heading, 'add_group, the first 500', f'{low * 1e3:.0f} ms')
    report.add(heading, 'add_group, the next 500', f'{high * 1e3:.0f} ms')
    report.bound('add_groups, 1,000 groups of 160 points', 300,
                 at_once * 1e3, 'ms')
    report.bound('add_group to 1,000 groups of 160 points', 5, one * 1e3,
                 'ms')


def _adding(low, high):
    """One by one, as a script would."""
    return f"""DO $$
        BEGIN
            FOR i IN {low} .. {high} LOOP
                PERFORM shardring.add_group('many', 'node-' || i,
                                            ARRAY['shard-' || i]);
            END LOOP;
        END $$"""
