#!/usr/bin/python3
"""router.py: an application that chooses the shard itself, and learns from the
shards when the ring has changed.  An example, and a test: keys come on the
standard input, one a line; each is written to its shard by psql, and read.

    router.py RING MAP POOL     MAP, POOL: connection strings, to the server
                                with the ring and to the pooler; the pooler's
                                databases are named like the shards
"""
import json
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

    def run(self, key, statement, patience=600):
        """Runs a statement that uses :'key' on the shard of the key.

        The shard checks in the same transaction that the key lives there, so
        reads are as safe as writes.  SR001: it lives elsewhere.  Nothing was
        done, so reading the ring again and repeating is right.  While a switch
        goes on, keys that move are refused until the map is switched, which is
        last; so there is patience, in seconds.  All other keys go through,
        whatever version the map here has.
        """
        give_up = time.monotonic() + patience
        wait = 0
        while True:
            shard = self.map.locate(key)[3]
            try:
                return shard, self.psql(
                    f"{self.pool} dbname='{shard}'", 'BEGIN',
                    "SELECT shardring.require_here(:'ring', :'key')",
                    statement, 'COMMIT', key=key)
            except WrongShard:
                self.refused += 1
                if time.monotonic() + wait > give_up:
                    raise
                time.sleep(wait)
                wait = 0.1
                self.refresh()

    def psql(self, address, *statements, key=''):
        program = ['psql', '-XAtq', '-v', 'ON_ERROR_STOP=1',
                   '-v', 'VERBOSITY=verbose', '-v', f'ring={self.ring}',
                   '-v', f'key={key}', '-d', address]
        result = subprocess.run(program, input=';\n'.join(statements) + ';\n',
                                capture_output=True, text=True, check=False)
        if re.search(r'^.*ERROR:  SR001:', result.stderr, re.M):
            raise WrongShard(result.stderr)
        if result.returncode != 0:
            raise RuntimeError(result.stderr)
        return result.stdout.strip()


class WrongShard(Exception):
    """The key does not live where it was sent."""


def main():
    if len(sys.argv) != 4:
        print('usage: router.py RING MAP POOL <KEYS', file=sys.stderr)
        sys.exit(2)
    router = Router(*sys.argv[1:])
    for line in iter(sys.stdin.readline, ''):
        key = line.rstrip('\n')
        shard, _ = router.run(
            key, "INSERT INTO held VALUES (:'key', 'by a router')")
        _, found = router.run(
            key, "SELECT value FROM held WHERE key = :'key'")
        if not found.endswith('by a router'):
            raise RuntimeError('what was written is not there')
        print(key, shard, router.map.version, router.refreshed,
              router.refused, flush=True)


if __name__ == '__main__':
    main()
