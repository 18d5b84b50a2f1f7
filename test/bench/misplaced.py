"""misplaced.py: what it costs to find the rows that are on another shard,
against a sequential scan that reads the key of every row."""
import functools

from session import Session, in_turns, medians, ratio

STRAYS = 10


def measure(report, rows, runs):
    """CPU time without workers; the strays are found in every run."""
    with Session() as session:
        _prepare(session, rows)
        costs = in_turns({
            'count(key)': functools.partial(
                session.cost, 'SELECT count(key) FROM held'),
            'misplaced_here': functools.partial(_count, session)}, runs)
    for name, cost in medians(costs).items():
        report.add(f'Misplaced rows, of {rows:,} rows of 100 bytes', name,
                   f'{cost * 1e3:.0f} ms')
    report.bound('misplaced rows against a sequential scan', 2,
                 ratio(costs, 'misplaced_here', 'count(key)'))


def _prepare(session, rows):
    """A guarded table of which all keys but a few live here."""
    session.run('''DO $$
        BEGIN
            PERFORM shardring.create_ring('held');
            FOR i IN 0 .. 49 LOOP
                PERFORM shardring.add_group('held', 'node-' || i,
                    ARRAY['here'], 1, CASE i WHEN 0 THEN 4 ELSE 1 END);
            END LOOP;
            PERFORM shardring.add_group('held', 'away', ARRAY['away']);
            PERFORM shardring.activate('held');
        END $$''')
    session.run("SET shardring.shard = 'here'")
    session.run('''CREATE UNLOGGED TABLE held
                   (value text, key bigint NOT NULL)''')
    session.run("SELECT shardring.add_guard('held', 'held', 'key')")
    session.run('SET session_replication_role = replica')
    for shard, number in ('here', rows - STRAYS), ('away', STRAYS):
        session.run(f'''
            INSERT INTO held
            SELECT repeat('x', 60), i FROM generate_series(1, 2 * {rows}) AS i
            WHERE shardring.shard_for('held', i) = '{shard}'
            LIMIT {number}''')
    session.run('RESET session_replication_role')
    session.run('VACUUM ANALYZE held')


def _count(session):
    """CPU seconds of a count."""
    count = "FROM shardring.misplaced_here('held', 1)"
    cost = session.cost(f'SELECT * {count}')
    if session.run(f'SELECT sum(rows) {count}')[0] != str(STRAYS):
        raise RuntimeError('not all strays were found')
    return cost
