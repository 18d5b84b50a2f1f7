"""outside.py: rings outside of the server, in Python; PL/Proxy before it."""
import bisect, hashlib, statistics, time

import uhashring

from session import Session

GROUPS, VNODES = 500, 160


def measure(report, runs):
    """Making a ring of 80,000 points, and looking up a key."""
    keys = [f'user:{i}' for i in range(20000)]
    for name, make in (('plain Python', _plain), ('uhashring', _uhashring)):
        made, looked = [], []
        for _ in range(runs):
            start = time.process_time()
            lookup = make()
            middle = time.process_time()
            for key in keys:
                lookup(key)
            made.append(middle - start)
            looked.append((time.process_time() - middle) / len(keys))
        report.add('Rings in Python, 80,000 points', f'making it, {name}',
                   f'{statistics.median(made) * 1e3:.0f} ms')
        report.add('Rings in Python, 80,000 points', f'a key, {name}',
                   f'{statistics.median(looked) * 1e9:,.0f} ns')


def _hash(text):
    return int.from_bytes(hashlib.md5(text.encode()).digest()[:4], 'big')


def _plain():
    """A ring by the rules of ours, but for taken positions."""
    owners = {_hash(f'node-{g}#{i}'): f'node-{g}'
              for g in range(GROUPS) for i in range(VNODES)}
    points = sorted(owners)
    return lambda key: owners[
        points[bisect.bisect_left(points, _hash(key)) % len(points)]]


def _uhashring():
    """ketama makes 4 points a virtual node."""
    ring = uhashring.HashRing(nodes=[f'node-{g}' for g in range(GROUPS)],
                              hash_fn='ketama', vnodes=VNODES // 4)
    return ring.get_node


def measure_plproxy(report, calls, runs):
    """A call through PL/Proxy to this server, by RUN ON hashtext and by RUN ON
    our partition; the CPU time of the proxy."""
    with Session() as session:
        session.run('CREATE EXTENSION plproxy')
        session.run('CREATE FUNCTION hop(k text) RETURNS text LANGUAGE sql '
                    'RETURN k')
        connect = "'dbname=postgres host=' || current_setting("\
            "'unix_socket_directories') || ' port=' || current_setting('port')"
        session.run(f"""DO $$ BEGIN
            EXECUTE (SELECT format('CREATE SERVER bench FOREIGN DATA WRAPPER '
                'plproxy OPTIONS (%s)', string_agg(format('p%s %L', i,
                {connect}), ', ')) FROM generate_series(0, 7) AS i);
            CREATE USER MAPPING FOR PUBLIC SERVER bench; END $$""")
        for name, partition in (
                ('hashtext', 'hashtext(k)'),
                ('ring', "shardring.plproxy_partition('r1280', k)")):
            session.run(f"""CREATE FUNCTION by_{name}(k text) RETURNS text
                LANGUAGE plproxy AS $$
                CLUSTER 'bench'; RUN ON {partition}; TARGET hop; $$""")
        costs = {'hashtext': [], 'ring': []}
        for _ in range(runs + 1):
            for name, list_of in costs.items():
                list_of.append(session.cost(
                    f'SELECT count(by_{name}(k)) FROM '
                    f'(SELECT k FROM keys LIMIT {calls}) AS s') / calls)
    middle = {name: statistics.median(c[1:]) for name, c in costs.items()}
    for name, cost in middle.items():
        report.add('PL/Proxy, a call', f'RUN ON {name}', f'{cost * 1e6:.1f} us')
    report.bound('PL/Proxy, RUN ON plproxy_partition against hashtext', 1.3,
                 statistics.median(r / h for r, h in zip(
                     costs['ring'][1:], costs['hashtext'][1:])))
