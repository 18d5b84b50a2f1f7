#!/usr/bin/python3
"""router.py: an application that chooses the shard itself, and learns from the
shards when the ring has changed.  An example, and a test: keys come on the
standard input, one a line; each is written to its shard by psql, and read.

    router.py RING MAP POOL [PATIENCE]

MAP and POOL are connection strings, to the server with the ring and to the
pooler, whose databases are named like the shards.  PATIENCE is how long a key
may be refused, in seconds: 5 are plenty when the ring moves the rows; when they
are copied by hand, it is as long as that takes.
"""
import json
import random
import re
import subprocess
import sys
import time

from client import Ring


class Router:
    def __init__(self, ring, map_server, pool):
        self.ring, self.map_server, self.pool = ring, map_server, pool
        self.refreshed = -1
        self.refused = 0
        self.refresh()

    def refresh(self):
        """Reads the ring again; it is small, and changes seldom."""
        document = self.psql(self.map_server,
                             'SELECT shardring.export_version(:\'ring\')')
        self.map = Ring(json.loads(document))
        self.refreshed += 1

    def run(self, key, statement, patience):
        """Runs a statement that uses :'key' on the shard of the key.

        The shard checks in the same transaction that the key lives there, so
        reads are as safe as writes.  Whatever it refuses has been rolled back,
        so it may be repeated: after some milliseconds, on the shard that is
        named, which sends back if it does not have the key yet.  SR001: the
        map here is old, or two shards are about to change; so the ring is read
        again, but not at every attempt.  SR003: the key is moving right now,
        and 40001: the transaction began before it came; the ring says nothing
        new about those.  Keys that stay are never refused.
        """
        give_up = time.monotonic() + patience
        shard = None
        refusals = 0
        while True:
            if shard is None:
                shard = self.map.locate(key)[3]
            try:
                return shard, self.psql(
                    f"{self.pool} dbname='{shard}'", 'BEGIN',
                    "SELECT shardring.require_here(:'ring', :'key')",
                    statement, 'COMMIT', key=key)
            except Refused as refused:
                if time.monotonic() > give_up:
                    raise
                time.sleep(random.uniform(0.001, 0.005))
                if refused.code == 'SR001':
                    if refusals % 8 == 0:
                        self.refresh()
                    refusals += 1
                    self.refused += 1
                shard = refused.shard or shard

    def psql(self, address, *statements, key=''):
        program = ['psql', '-XAtq', '-v', 'ON_ERROR_STOP=1',
                   '-v', 'VERBOSITY=verbose', '-v', f'ring={self.ring}',
                   '-v', f'key={key}', '-d', address]
        result = subprocess.run(program, input=';\n'.join(statements) + ';\n',
                                capture_output=True, text=True, check=False)
        code = re.search(r'ERROR:  (SR001|SR003|40001):', result.stderr)
        if code:
            raise Refused(code.group(1), result.stderr)
        if result.returncode != 0:
            raise RuntimeError(result.stderr)
        return result.stdout.strip()


class Refused(Exception):
    """The shard has not done it, and may say which one will."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code
        named = re.search(r'^DETAIL:  version=.* shard="((?:[^"]|"")*)"$',
                          message, re.M)
        self.shard = named and named.group(1).replace('""', '"')


def main():
    if len(sys.argv) not in (4, 5):
        print('usage: router.py RING MAP POOL [PATIENCE] <KEYS',
              file=sys.stderr)
        sys.exit(2)
    router = Router(*sys.argv[1:4])
    patience = float(sys.argv[4]) if len(sys.argv) > 4 else 5
    for line in iter(sys.stdin.readline, ''):
        key = line.rstrip('\n')
        shard, _ = router.run(
            key, "INSERT INTO held VALUES (:'key', 'by a router')", patience)
        _, found = router.run(
            key, "SELECT value FROM held WHERE key = :'key'", patience)
        if not found.endswith('by a router'):
            raise RuntimeError('what was written is not there')
        print(key, shard, router.map.version, router.refreshed,
              router.refused, flush=True)


if __name__ == '__main__':
    main()
