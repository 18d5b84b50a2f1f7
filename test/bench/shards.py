"""shards.py: how long it takes to ask many shards at once, against the slowest
of them."""
import os, statistics, time

from session import Session

SHARDS = 200
SLEEP = 2


def measure(report, runs):
    """Shards are databases of this server that sleep before they answer."""
    _create_databases()
    with Session(pinned=False, database='map') as session:
        _prepare(session)
        query = f"SELECT pg_catalog.pg_sleep({SLEEP})::pg_catalog.text AS slept"
        asked = f"""SELECT count(*), count(*) FILTER (WHERE ok)
                    FROM shardring.on_shards('many', '{query}')"""
        costs = []
        for _ in range(runs):
            before = time.monotonic()
            answered = session.run(asked)
            costs.append(time.monotonic() - before)
            if answered != [f'{SHARDS}|{SHARDS}']:
                raise RuntimeError(f'not all shards answered: {answered}')
    elapsed = statistics.median(costs)
    report.add('Asking shards', f'{SHARDS} shards that sleep {SLEEP} s each',
               f'{elapsed:.2f} s', 'elapsed time')
    report.bound(f'{SHARDS} shards at once against the slowest', 1.3,
                 elapsed / SLEEP)


def _names():
    return [f'shard_{i:03}' for i in range(SHARDS)]


def _create_databases():
    """All of them from one that has the extension."""
    with Session(pinned=False) as session:
        session.run('CREATE DATABASE map')
        session.run('CREATE DATABASE shard_template')
        with Session(pinned=False, database='shard_template') as template:
            template.run('CREATE EXTENSION shardring')
        for name in _names():
            session.run(f'CREATE DATABASE {name} TEMPLATE shard_template')
            session.run(
                f"ALTER DATABASE {name} SET shardring.shard = '{name}'")


def _prepare(session):
    """A ring on these shards."""
    session.run('CREATE EXTENSION shardring')
    session.run('CREATE EXTENSION postgres_fdw')
    session.run("SELECT shardring.create_ring('many')")
    host, port = os.environ['PGHOST'], os.environ['PGPORT']
    for name in _names():
        session.run(f"""
            CREATE SERVER {name} FOREIGN DATA WRAPPER postgres_fdw
            OPTIONS (host '{host}', port '{port}', dbname '{name}')""")
        session.run(f"""CREATE USER MAPPING FOR CURRENT_USER SERVER {name}
                        OPTIONS (user '{os.environ['PGUSER']}')""")
    groups = ', '.join(f"""{{"group_name": "{name}", "shards": ["{name}"]}}"""
                       for name in _names())
    session.run(f"SELECT shardring.add_groups('many', '[{groups}]')")
    session.run("SELECT shardring.activate('many')")
    session.run("SET shardring.remote_timeout = '30 s'")
