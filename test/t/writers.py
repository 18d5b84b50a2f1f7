#!/usr/bin/python3
"""writers.py: clients that write all the time and remember what was
acknowledged; a test of moves.

    writers.py SECONDS WRITERS KEYS SEED MAP SHARD=ADDRESS ...

Addresses are connection strings.  Each writer has keys of its own and follows
the rule for clients: require_here in the transaction that writes; after SR001
or SR003 roll back, wait a little, ask the shard that is named; after 40001
again.  Where there is a SHARD "proxy", every other writer calls function
"write" there instead, which knows itself where the key is.  It ends with
SIGTERM, at the latest after SECONDS, and prints as JSON what each key may hold
(more than one value where no answer came), the faults it saw, and the longest
time that a write had to wait.
"""
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time

MARK = '-- answered --'


class Lost(Exception):
    """The connection was lost: whether a commit happened is not known."""


class Session:
    """A psql that stays connected."""

    def __init__(self, address):
        self.address = address
        self.psql = None

    def run(self, *statements):
        """What the statements print, errors with their SQLSTATE."""
        if self.psql is None:
            self.connect()
        try:
            self.psql.stdin.write('\n'.join(statements)
                                  + f'\n\\echo {MARK}\n')
            self.psql.stdin.flush()
        except OSError:
            self.close()
            raise Lost from None
        lines = []
        while True:
            line = self.psql.stdout.readline()
            if not line:
                self.close()
                raise Lost
            if line.rstrip('\n') == MARK:
                return lines
            lines.append(line.rstrip('\n'))

    def connect(self):
        self.psql = subprocess.Popen(
            ['psql', '-XAt', '-v', 'VERBOSITY=verbose', self.address],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, bufsize=1)

    def close(self):
        if self.psql is not None:
            self.psql.kill()
            self.psql.wait()
        self.psql = None


class Writer(threading.Thread):
    def __init__(self, number, keys, seed, addresses, end):
        super().__init__()
        self.random = random.Random(f'{seed} {number}')
        self.sessions = {n: Session(a) for n, a in addresses.items()}
        self.end = end
        self.number = number
        self.may_be = {k: {None} for k in keys}
        self.known = {}                 # key: shard
        self.faults = []
        self.writes = self.refused = self.unknown = 0
        self.longest = 0.0
        self.counter = 0

    def run(self):
        while not self.end.is_set():
            key = self.random.choice(list(self.may_be))
            try:
                self.write(key)
            except Exception as error:   # a fault of the test is a fault
                self.faults.append(f'{key}: {error!r}')
                return
        for session in self.sessions.values():
            session.close()

    def write(self, key):
        """Writes a key until that is acknowledged or not known."""
        self.counter += 1
        value = f'{self.number}.{self.counter}'
        kind = self.random.choice(['put', 'put', 'update', 'delete'])
        if kind == 'update' and (None in self.may_be[key]):
            kind = 'put'
        new = None if kind == 'delete' else value
        started = time.monotonic()
        while True:
            shard = self.known.get(key) or self.ask_map(key)
            if shard is None:
                time.sleep(0.01)
            elif self.attempt(key, kind, value, new, shard):
                break
            if self.end.is_set() or time.monotonic() > started + 60:
                return
        self.longest = max(self.longest, time.monotonic() - started)

    def attempt(self, key, kind, value, new, shard):
        """True when it is over: acknowledged, or not known."""
        try:
            lines = self.sessions[shard].run(
                'BEGIN;',
                f"SELECT shardring.require_here('orders', '{key}');",
                *self.statements(key, kind, value), 'COMMIT;')
        except Lost:
            self.unknown += 1
            self.may_be[key] = self.may_be[key] | {new}
            self.known.pop(key, None)
            time.sleep(0.01)
            return True
        if 'COMMIT' in lines:
            if kind == 'update' and 'UPDATE 1' not in lines:
                self.faults.append(f'{key} on {shard}: acknowledged {lines}')
            self.may_be[key] = {new}
            self.known[key] = shard
            self.writes += 1
            return True
        self.learn(key, lines)
        return False

    def learn(self, key, lines):
        """From a refusal, where the key is."""
        text = '\n'.join(lines)
        code = re.search(r'(?:ERROR|FATAL):  (\w{5}):', text)
        code = code.group(1) if code else 'none'
        self.known.pop(key, None)
        if code in ('SR001', 'SR003'):
            self.refused += 1
            named = re.search(r'shard="(\w+)"', text)
            if named and self.random.random() < 0.8:
                self.known[key] = named.group(1)
            time.sleep(0.002)
        elif code in ('40001', '57P01', '57P02', '57P03', '55000', 'none',
                      '40P01'):
            time.sleep(0.01)
        else:
            self.faults.append(f'{key}: {text}')

    def ask_map(self, key):
        try:
            lines = self.sessions['map'].run(
                f"SELECT shardring.shard_for('orders', '{key}');")
        except Lost:
            return None
        return lines[0] if lines and lines[0] in self.sessions else None

    def statements(self, key, kind, value):
        if kind == 'delete':
            return [f"DELETE FROM account WHERE id = '{key}';"]
        note = value * self.random.choice([1, 1, 1000])
        entry = (f"INSERT INTO entry (account, amount) VALUES ('{key}', 1);"
                 if self.random.random() < 0.3 else '')
        if kind == 'update':
            return [f"UPDATE account SET value = '{value}'"
                    + (f", note = '{note}'" if self.random.random() < .5
                       else '') + f" WHERE id = '{key}';", entry]
        return [f"INSERT INTO account VALUES ('{key}', '{value}', '{note}') "
                "ON CONFLICT (id) DO UPDATE SET value = excluded.value;",
                entry]


class ProxyWriter(Writer):
    """Calls one function, in a transaction of its own on the shard."""

    def attempt(self, key, kind, value, new, shard):
        try:
            lines = self.sessions['proxy'].run(
                f"SELECT public.write('{key}', '{kind}', '{value}');")
        except Lost:
            lines = []
        if lines == [kind]:
            self.may_be[key] = {new}
            self.writes += 1
        elif re.search(r'ERROR:  (SR00[13]|40001|55000):', '\n'.join(lines)):
            self.refused += 1
            time.sleep(0.002)
            return False
        else:
            self.unknown += 1
            self.may_be[key] = self.may_be[key] | {new}
            time.sleep(0.01)
        return True


def main():
    seconds, n, keys, seed = (int(a) for a in sys.argv[1:5])
    addresses = {'map': sys.argv[5]}
    addresses.update(a.split('=', 1) for a in sys.argv[6:])
    end = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: end.set())
    kinds = [Writer, ProxyWriter if 'proxy' in addresses else Writer]
    writers = [kinds[i % 2](i, [f'k{k}' for k in range(i, keys, n)], seed,
                            addresses, end) for i in range(n)]
    for writer in writers:
        writer.start()
    print('started', flush=True)
    threading.Timer(seconds, end.set).start()
    for writer in writers:
        while writer.is_alive():
            writer.join(0.1)
    print(json.dumps({
        'may_be': {k: [v for v in values if v is not None]
                   + ([''] if None in values else [])
                   for w in writers for k, values in w.may_be.items()},
        'faults': [f for w in writers for f in w.faults],
        'writes': sum(w.writes for w in writers),
        'refused': sum(w.refused for w in writers),
        'unknown': sum(w.unknown for w in writers),
        'longest': max(w.longest for w in writers)}), flush=True)
    os._exit(0)


main()
