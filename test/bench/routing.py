"""routing.py: what it costs to route a key, beside the peers."""
import contextlib, functools, os, pathlib, statistics, subprocess

from growth import cached
from session import (Session, fault_cost, in_turns, medians, net_costs, pin,
                     ratio)
from rings import make_ring

HERE = pathlib.Path(__file__).parent

# name of the ring, groups, points a group
RINGS = (('r1280', 8, 160), ('r8000', 50, 160), ('r80000', 500, 160),
         ('r1600000', 500, 3200))
# width_bucket needs its points in the statement, which has its limits
LITERAL_RINGS = ('r1280', 'r8000', 'r80000')
# statements of a pgbench that do not count
WARM_UP = 1000


def prepare(session, keys):
    session.run('CREATE EXTENSION shardring')
    session.run((HERE / 'peers.sql').read_text(encoding='utf-8'))
    session.run(f'''
        CREATE UNLOGGED TABLE keys AS
        SELECT 'user:' || i AS k, i AS n,
            shardring.key_position('user:' || i) AS p,
            md5(i::text)::uuid AS u
        FROM generate_series(1::bigint, {keys}) AS i''')
    session.run('VACUUM ANALYZE keys')
    for ring, groups, vnodes in RINGS:
        make_ring(session, ring, groups, vnodes)
        session.run(f'''
            INSERT INTO peer_point
            SELECT '{ring}', p.key_position, 'shard-' ||
                substring(p.group_name FROM 6) || '-1'
            FROM shardring.points('{ring}') AS p''')
    make_ring(session, 's64', 50, 160, 64)
    session.run('VACUUM ANALYZE')


def agree(session):
    """The peers are worth a comparison only if they give the same answers."""
    for ring, _, _ in RINGS:
        peers = [f"peer_btree('{ring}', k)"]
        if ring in LITERAL_RINGS:
            peers += session.run(f"SELECT peer_width_bucket('{ring}')")
        wrong = session.run(f'''
            SELECT count(*) FROM (SELECT k FROM keys LIMIT 5000) AS s
            WHERE (shardring.shard_for('{ring}', k)
                = ALL (ARRAY[{', '.join(peers)}])) IS NOT TRUE''')[0]
        if wrong != '0':
            raise RuntimeError(f'{wrong} keys of {ring} go elsewhere')


def measure(report, keys, runs):
    with Session() as session:
        agree(session)
        expressions = _expressions(session)
        costs = net_costs(session, expressions, 'keys', keys, runs)
    middle = medians(costs)
    for name in expressions:
        report.add('Routing one key', name, f'{middle[name] * 1e9:,.0f} ns',
                   f"{ratio(costs, name, 'md5'):.2f} of md5")
    report.bound('shard_for against md5, 8,000 points', 0.33,
                 ratio(costs, 'shard_for, 8,000 points', 'md5'))
    report.bound('the same, 80,000 points', 0.40,
                 ratio(costs, 'shard_for, 80,000 points', 'md5'))
    report.bound('shard_for, 80,000 points against 1,280', 1.3,
                 ratio(costs, 'shard_for, 80,000 points',
                       'shard_for, 1,280 points'))
    report.bound('shard_for against width_bucket, 8,000 points', 0.20,
                 ratio(costs, 'shard_for, 8,000 points',
                       'width_bucket, 8,000 points'))
    report.bound('shard_for against PL/pgSQL and a B-tree, 8,000 points', 0.03,
                 ratio(costs, 'shard_for, 8,000 points',
                       'PL/pgSQL and B-tree, 8,000 points'))
    if 'Citus' in expressions:
        report.bound('shard_for against Citus', 0.65,
                     ratio(costs, 'shard_for, 8,000 points', 'Citus'))
    report.curves['points'] = {
        peer: [(_points(ring), middle[f'{peer}, {_points(ring):,} points'])
               for ring, _, _ in RINGS
               if f'{peer}, {_points(ring):,} points' in middle]
        for peer in ('shard_for', 'width_bucket', 'PL/pgSQL and B-tree')}
    report.curves['points'] |= {
        peer: [(_points(ring), middle[peer]) for ring, _, _ in RINGS]
        for peer in ('hashtext', 'md5', 'position in SQL')}


def _points(ring):
    return int(ring[1:])


def _expressions(session):
    expressions = {
        'hashtext': 'hashtext(k)',
        'md5': 'md5(k)',
        'position in SQL': "('x' || substr(md5(k), 1, 8))::bit(32)::bigint",
        'key_position': 'shardring.key_position(k)'}
    for ring, _, _ in RINGS:
        expressions[f'shard_for, {_points(ring):,} points'] = (
            f"shardring.shard_for('{ring}', k)")
    expressions |= {
        'shard_for, 64 slots a group on 64 shards':
            "shardring.shard_for('s64', k)",
        'shard_for, bigint key': "shardring.shard_for('r8000', n)",
        'shard_for, uuid key': "shardring.shard_for('r8000', u)",
        'shard_for with a version': "shardring.shard_for('r8000', k, 1)",
        'shard_at': "shardring.shard_at('r8000', p)",
        'locate': "shardring.locate('r8000', k)"}
    for ring in LITERAL_RINGS:
        expressions[f'width_bucket, {_points(ring):,} points'] = (
            session.run(f"SELECT peer_width_bucket('{ring}')")[0])
    for ring, _, _ in RINGS:
        expressions[f'PL/pgSQL and B-tree, {_points(ring):,} points'] = (
            f"peer_btree('{ring}', k)")
    if _prepare_citus(session):
        expressions['Citus'] = (
            "get_shard_id_for_distribution_column('citus_keys', k)")
    return expressions


def _prepare_citus(session):
    """Whether Citus could be set up."""
    if session.run("SELECT count(*) FROM pg_available_extensions "
                   "WHERE name = 'citus'") == ['0']:
        return False
    session.run('CREATE EXTENSION IF NOT EXISTS citus')
    session.run('CREATE TABLE citus_keys (k text)')
    session.run("SELECT create_distributed_table('citus_keys', 'k')")
    return True


def measure_first_call(report, runs):
    """The first call in a backend that has done something else before."""
    report.add('A new backend', 'a page fault on this machine',
               f'{fault_cost() * 1e6:.2f} us', 'to read the rest by')
    _measure_steps(report, runs)
    for ring, _, _ in RINGS:
        costs, faults, grown, kept = [], [], [], []
        for _ in range(runs + 1):
            with Session() as session:
                session.run("SELECT md5('k')")
                before, faults_before = session.memory(), session.faults()
                costs.append(session.cost(
                    f"SELECT shardring.shard_for('{ring}', 'user:1')"))
                faults.append(session.faults() - faults_before)
                grown.append(session.memory() - before)
                kept.append(cached(session))
        points = f'{_points(ring):,} points'
        report.add('A new backend', f'first call, {points}',
                   f'{statistics.median(costs[1:]) * 1e3:.1f} ms',
                   f'{statistics.median(faults[1:]):.0f} page faults')
        report.add('A new backend', f'memory it takes, {points}',
                   f'{statistics.median(grown) / 1e6:.1f} MB',
                   f'{statistics.median(kept) / 1e6:.2f} MB compiled')
        if ring in ('r8000', 'r80000'):
            report.bound(f'first call in a new backend, {points}',
                         {'r8000': 3, 'r80000': 7}[ring],
                         statistics.median(costs[1:]) * 1e3, 'ms')


# What the first call of a backend does, a statement for each part of it; and
# loading a small library of PostgreSQL's own, for comparison.
FIRST_STEPS = (
    ('first statement, md5', "SELECT md5('k')"),
    ('load the library', "LOAD 'shardring'"),
    ('first hash', "SELECT shardring.key_position('k')"),
    ('table ring and its index', "SELECT shardring.active_version('r8000')"),
    ('the rest, 8,000 points', "SELECT shardring.shard_for('r8000', 'k')"),
    ('another ring, 80,000 points', "SELECT shardring.shard_for('r80000', 'k')"))


def _measure_steps(report, runs):
    other = (('', "SELECT md5('k')"),
             ('load citext, for comparison', "LOAD 'citext'"))
    for steps in other, FIRST_STEPS:
        costs = {name: [] for name, _ in steps}
        for _ in range(runs + 1):
            with Session() as session:
                for name, sql in steps:
                    faults = session.faults()
                    cost = session.cost(sql)
                    costs[name].append((cost, session.faults() - faults))
        for name in filter(None, costs):
            cost, faults = map(statistics.median, zip(*costs[name][1:]))
            report.add('A first call, step by step', name,
                       f'{cost * 1e3:.1f} ms', f'{faults:.0f} page faults')


def measure_statements(report, statements, runs):
    """A new statement for every call, as proxies do it, through pgbench; the
    server's share of the time only."""
    calls = {'md5': 'md5(:k::text)',
             'shard_for': "shardring.shard_for('r8000', :k::text)"}
    with Session() as session, _postmaster_pinned():
        session.run('CREATE UNLOGGED TABLE clock (ns bigint)')
        costs = in_turns({
            f'{name}, -M {mode}': functools.partial(
                _pgbench, session, mode, call, statements)
            for mode in ('simple', 'prepared')
            for name, call in calls.items()}, runs)
    for name, cost in medians(costs).items():
        md5 = name.replace('shard_for', 'md5')
        report.add('A statement a call', name, f'{cost * 1e6:.1f} us',
                   f'{ratio(costs, name, md5):.2f} of md5')


def _pgbench(session, mode, call, statements):
    """CPU seconds a statement.  The backend, which is gone when pgbench ends,
    writes its clock down when it is warm and when it is done."""
    session.run('TRUNCATE clock')
    subprocess.run(
        ['pgbench', '-n', '-M', mode, '-t', str(statements + WARM_UP),
         '-D', 'i=0', '-f', '/dev/stdin'], input=f'''
            \\set i :i + 1
            \\set k random(1, 1000000000)
            SELECT {call};
            \\if :i = {WARM_UP} or :i = {WARM_UP + statements}
            INSERT INTO clock VALUES (split_part(
                pg_read_file('/proc/self/schedstat'), ' ', 1)::bigint);
            \\endif\n''',
        capture_output=True, text=True, check=True)
    return float(session.run(
        f'SELECT (max(ns) - min(ns)) / 1e9 / {statements} FROM clock')[0])


@contextlib.contextmanager
def _postmaster_pinned():
    """What it starts meanwhile is pinned too."""
    postmaster = int(os.environ['POSTMASTER'])
    cores = os.sched_getaffinity(postmaster)
    pin(postmaster)
    try:
        yield
    finally:
        pin(postmaster, cores)


def measure_parallel(report, keys, runs):
    """Elapsed time, since three processes share the work; of so many keys that
    starting the workers is a small part."""
    query = "SELECT count(shardring.shard_for('r8000', k)) FROM parallel_keys"

    def elapsed(workers):
        session.run(f'SET max_parallel_workers_per_gather = {workers}')
        return session.elapsed(query)
    with Session(pinned=False) as session:
        session.run('CREATE UNLOGGED TABLE parallel_keys AS '
                    f'SELECT k FROM rows LIMIT {keys}')
        session.run('VACUUM ANALYZE parallel_keys')
        session.run('SET parallel_setup_cost = 0')
        session.run('SET min_parallel_table_scan_size = 0')
        costs = in_turns({workers: functools.partial(elapsed, workers)
                          for workers in (0, 2)}, runs)
    report.add('Parallel', f'2 workers and the leader, {keys:,} keys, elapsed',
               f'{medians(costs)[2] * 1e3:.0f} ms',
               f'{ratio(costs, 0, 2):.2f} times as quick as alone, on '
               f'{os.cpu_count()} cores')
