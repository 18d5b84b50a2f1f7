"""session.py: a psql that is asked one statement after the other, and the CPU
time that its backend takes for each.

Time is read from the CPU clock of the backend, so that other load on the
machine counts little; elapsed time is only used where several processes work
together.
"""
import mmap, os, statistics, subprocess, time

END = '-- the end --'


def cpu_time(pid):
    """CPU seconds of any process of this machine (clock_getcpuclockid)."""
    return time.clock_gettime(~pid << 3 | 2)


class Session:
    """One backend.  Use as a context, or close it."""

    def __init__(self, pinned=True, database='postgres'):
        self.psql = subprocess.Popen(
            ['psql', '-XqAt', '-f', '-', '-d', database],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True)
        self.pid = int(self.run('SELECT pg_backend_pid()')[0])
        if pinned:
            pin(self.pid)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.psql.stdin.close()
        self.psql.stdout.close()
        self.psql.wait()

    def run(self, sql):
        """The lines that a statement printed; an error ends the benchmark."""
        self.psql.stdin.write(f'{sql}\n;\n\\echo {END}\n')
        self.psql.stdin.flush()
        lines = []
        for line in self.psql.stdout:
            if line.rstrip('\n') == END:
                return lines
            lines.append(line.rstrip('\n'))
            if 'ERROR:' in line or 'FATAL:' in line:
                raise RuntimeError(f'{sql[:200]}\n{line}')
        raise RuntimeError(f'psql ended: {lines}')

    def cost(self, sql):
        """CPU seconds of a statement."""
        before = cpu_time(self.pid)
        self.run(sql)
        return cpu_time(self.pid) - before

    def elapsed(self, sql):
        """Seconds until a statement is done."""
        before = time.monotonic()
        self.run(sql)
        return time.monotonic() - before

    def memory(self):
        """Bytes that are the backend's own, shared buffers not counted."""
        with open(f'/proc/{self.pid}/status', encoding='ascii') as status:
            for line in status:
                if line.startswith('RssAnon:'):
                    return int(line.split()[1]) * 1024
        raise RuntimeError('no RssAnon')

    def faults(self):
        """Page faults of the backend so far."""
        with open(f'/proc/{self.pid}/stat', encoding='ascii') as stat:
            return int(stat.read().rpartition(')')[2].split()[7])


def fault_cost():
    """CPU seconds for the first touch of a page: the better part of a first
    call, and much more in a virtual machine."""
    pages = 4096
    costs = []
    for _ in range(5):
        with mmap.mmap(-1, pages * mmap.PAGESIZE, mmap.MAP_PRIVATE
                       | mmap.MAP_ANONYMOUS) as memory:
            before = time.process_time()
            for page in range(0, pages * mmap.PAGESIZE, mmap.PAGESIZE):
                memory[page] = 1
            costs.append((time.process_time() - before) / pages)
    return statistics.median(costs)


def pin(pid, cores=None):
    """Keep a process on these cores, or else on the last, where that is
    allowed."""
    try:
        os.sched_setaffinity(pid, cores or {max(os.sched_getaffinity(0))})
    except OSError:
        pass


def median_cost(session, sql, runs):
    """The median of several runs of a statement, after one that warms up."""
    session.run(sql)
    return statistics.median(session.cost(sql) for _ in range(runs))


def rolled_back_cost(session, before, sql, runs):
    """As median_cost, of the last statement of a transaction that is undone."""
    costs = []
    for _ in range(runs + 1):
        session.run('BEGIN')
        for statement in before:
            session.run(statement)
        costs.append(session.cost(sql))
        session.run('ROLLBACK')
    return statistics.median(costs[1:])


def in_turns(measures, runs):
    """What each of a dict of functions returns, all of them once in every run,
    so that what disturbs one disturbs all; a run before that warms up does not
    count.  Returns a list of runs, each a dict."""
    return [{name: measure() for name, measure in measures.items()}
            for _ in range(runs + 1)][1:]


def net_costs(session, expressions, table, rows, runs):
    """Seconds of each expression a row, net of count(k), for a dict of name to
    SQL, in turns too, and returned as by in_turns."""
    def cost(expression):
        return session.cost(
            f'SELECT pg_catalog.count({expression}) FROM {table}')
    for expression in expressions.values():
        cost(expression)
    result = []
    for _ in range(runs):
        base = min(cost('k'), cost('k'))
        result.append({name: (cost(expression) - base) / rows
                       for name, expression in expressions.items()})
    return result


def medians(costs):
    """Of what in_turns or net_costs returned: the median of each."""
    return {name: statistics.median(run[name] for run in costs)
            for name in costs[0]}


def ratio(costs, name, to):
    """Of what in_turns or net_costs returned: the median ratio of two."""
    return statistics.median(run[name] / run[to] for run in costs)
