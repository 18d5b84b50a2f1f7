"""guard.py: what the guard costs, which asks for the active version anew for
every statement."""
import functools, statistics

from session import Session, in_turns, medians


def measure(report, inserts, runs):
    """INSERTs of one row, each in a transaction of its own."""
    with Session() as session:
        _prepare(session)
        costs = in_turns({
            table: functools.partial(_insert, session, table, inserts)
            for table in ('plain', 'guarded')}, runs)
    for table, cost in medians(costs).items():
        report.add('Guard, an INSERT of one row', table,
                   f'{cost * 1e6:.1f} us')
    report.bound('guard, an INSERT of one row, guarded less plain', 10,
                 statistics.median(run['guarded'] - run['plain']
                                   for run in costs) * 1e6, 'us')


def _prepare(session):
    """A table with the guard and one without; every key lives here."""
    session.run('''DO $$
        BEGIN
            PERFORM shardring.create_ring('guarded');
            FOR i IN 0 .. 49 LOOP
                PERFORM shardring.add_group('guarded', 'node-' || i,
                    ARRAY['here']);
            END LOOP;
            PERFORM shardring.activate('guarded');
        END $$''')
    session.run("SET shardring.shard = 'here'")
    session.run('CREATE UNLOGGED TABLE plain (key bigint, value text)')
    session.run('CREATE UNLOGGED TABLE guarded (LIKE plain)')
    session.run('''
        CREATE TRIGGER zz_guard BEFORE INSERT ON guarded
        FOR EACH ROW EXECUTE FUNCTION shardring.guard('guarded', 'key')''')


def _insert(session, table, inserts):
    """CPU seconds a row."""
    return session.cost(f'''DO $$
        BEGIN
            FOR i IN 1 .. {inserts} LOOP
                INSERT INTO {table} VALUES (i, 'x');
                COMMIT;
            END LOOP;
        END $$''') / inserts
