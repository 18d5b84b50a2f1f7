"""outside.py: rings outside of the server, in Python; PL/Proxy before it."""
import bisect, functools, hashlib, statistics, time

import uhashring

from session import Session, in_turns, medians, ratio

# Groups and points a group.
SIZES = (8, 160), (50, 160), (500, 160), (500, 3200)
KEYS = [f'user:{i}' for i in range(20000)]


def measure(report, runs):
    """Making a ring, and looking up a key.  The largest takes uhashring more
    than a minute and a half to make, so it is left out there."""
    costs = in_turns({
        f'{name}, {groups * vnodes:,} points': functools.partial(
            _make_and_look, make, groups, vnodes)
        for name, make, sizes in (('plain Python', _plain, SIZES),
                                  ('uhashring', _uhashring, SIZES[:-1]))
        for groups, vnodes in sizes}, runs)
    for name in costs[0]:
        made, looked = map(statistics.median,
                           zip(*(run[name] for run in costs)))
        report.add('Rings in Python', f'making it, {name}',
                   f'{made * 1e3:,.1f} ms')
        report.add('Rings in Python', f'a key, {name}',
                   f'{looked * 1e9:,.0f} ns')


def _make_and_look(make, groups, vnodes):
    """CPU seconds to make a ring, and of a lookup in it."""
    start = time.process_time()
    lookup = make(groups, vnodes)
    middle = time.process_time()
    for key in KEYS:
        lookup(key)
    return middle - start, (time.process_time() - middle) / len(KEYS)


def _hash(text):
    return int.from_bytes(hashlib.md5(text.encode()).digest()[:4], 'big')


def _plain(groups, vnodes):
    """A ring by the rules of ours, but for taken positions."""
    owners = {_hash(f'node-{g}#{i}'): f'node-{g}'
              for g in range(groups) for i in range(vnodes)}
    points = sorted(owners)
    return lambda key: owners[
        points[bisect.bisect_left(points, _hash(key)) % len(points)]]


def _uhashring(groups, vnodes):
    """ketama makes 4 points a virtual node."""
    ring = uhashring.HashRing(nodes=[f'node-{g}' for g in range(groups)],
                              hash_fn='ketama', vnodes=vnodes // 4)
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
            EXECUTE (SELECT format('CREATE SERVER r1280 FOREIGN DATA WRAPPER '
                'plproxy OPTIONS (%s)', string_agg(format('p%s %L', i,
                {connect}), ', ')) FROM generate_series(0, 7) AS i);
            CREATE USER MAPPING FOR PUBLIC SERVER r1280; END $$""")
        for name, partition in (
                ('hashtext', 'hashtext(k)'),
                ('ring', "shardring.plproxy_partition('r1280', k)")):
            session.run(f"""CREATE FUNCTION by_{name}(k text) RETURNS text
                LANGUAGE plproxy AS $$
                CLUSTER 'r1280'; RUN ON {partition}; TARGET hop; $$""")
        costs = in_turns({
            name: functools.partial(
                session.cost, f'SELECT count(by_{name}(k)) FROM '
                f'(SELECT k FROM keys LIMIT {calls}) AS s')
            for name in ('hashtext', 'ring')}, runs)
    for name, cost in medians(costs).items():
        report.add('PL/Proxy, a call', f'RUN ON {name}',
                   f'{cost * 1e6 / calls:.1f} us')
    report.bound('PL/Proxy, RUN ON plproxy_partition against hashtext', 1.3,
                 ratio(costs, 'ring', 'hashtext'))
