#!/usr/bin/python3
"""router.py: an application that chooses the shard itself, and learns from the
shards when the ring has changed.  An example, and a test: keys come on the
standard input, one a line; each is written to its shard by psql.

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
        self.refresh()

    def refresh(self):
        """Reads the ring again; it is small, and changes seldom."""
        document = self.psql(self.map_server,
                             'SELECT shardring.export_version(:\'ring\')')
        self.map = Ring(json.loads(document))
        self.refreshed += 1

    def run(self, key, statement, tries=100):
        """Runs a statement that uses :'key' on the shard of the key.

        SR001: the key lives elsewhere.  SR002: the shard has another version
        than this router.  Either way nothing was done, so reading the ring
        again and repeating is right; while a switch goes on it takes a few
        times, since the map is switched last.
        """
        for attempt in range(tries):
            shard = self.map.locate(key)[3]
            try:
                return shard, self.psql(
                    f"{self.pool} dbname='{shard}'",
                    'BEGIN', 'SELECT shardring.require_version('
                    f":'ring', {self.map.version})", statement, 'COMMIT',
                    key=key)
            except StaleRing:
                if attempt > 0:
                    time.sleep(0.1)
                self.refresh()
        raise RuntimeError('the shards and the map do not agree')

    def psql(self, address, *statements, key=''):
        program = ['psql', '-XAtq', '-v', 'ON_ERROR_STOP=1',
                   '-v', 'VERBOSITY=verbose', '-v', f'ring={self.ring}',
                   '-v', f'key={key}', '-d', address]
        result = subprocess.run(program, input=';\n'.join(statements) + ';\n',
                                capture_output=True, text=True, check=False)
        if re.search(r'^.*ERROR:  SR00[12]:', result.stderr, re.M):
            raise StaleRing(result.stderr)
        if result.returncode != 0:
            raise RuntimeError(result.stderr)
        return result.stdout.strip()


class StaleRing(Exception):
    """What was sent went to the wrong shard, or by an old version."""


def main():
    router = Router(*sys.argv[1:4])
    for line in iter(sys.stdin.readline, ''):
        key = line.rstrip('\n')
        shard, _ = router.run(
            key, "INSERT INTO held VALUES (:'key', 'by a router')")
        print(key, shard, router.map.version, router.refreshed, flush=True)


if __name__ == '__main__':
    main()
