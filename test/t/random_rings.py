"""random_rings.py SEED RINGS KEYS
    Prints a psql script that builds random rings, several versions each, and
    compares the fingerprint of every version and the place of every key with
    the model's.  The script prints a line for each difference, and last how
    much it compared.
"""

import copy
import random
import sys
import uuid

import model

# Pairs with equal candidates, names that sort differently by locale, and
# names that are not ASCII.
NAMES = ["pg-89", "pg-97", "db712", "db732", "alpha-4", "Zeta-646",
         "node-71341", "shard-0044", "shard-0486", "node356", "node380",
         "é", "Ångström", "東京", "a b", "quote'd", 'double"', "back\\slash",
         "x#1", "x", "{tag}", "NULL", "0", "n" * 255]
SHARDS = [f"db{i}" for i in range(6)] + ["données", "東", "s'q"]


def literal(value):
    if value is None:
        return "NULL"
    if isinstance(value, list):
        return f"ARRAY[{', '.join(literal(item) for item in value)}]::text[]"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value).lower() if isinstance(value, bool) else str(value)


def call(function, *arguments):
    print(f"SELECT shardring.{function}"
          f"({', '.join(literal(a) for a in arguments)});")


class Case:
    """One ring, edited by the model and by SQL alike."""

    def __init__(self, rng, ring):
        self.rng = rng
        self.ring = ring
        self.active_groups = set()
        hash_name = rng.choice(["md5", "md5", "murmur3", "fnv1a", "crc16"])
        vnodes = rng.choice([1, 2, 7, 40, 160])
        self.version = model.Version(vnodes, hash_name, rng.random() < 0.4)
        call("create_ring", ring, vnodes, hash_name, self.version.hash_tags)
        for _ in range(1 if hash_name == "crc16" else rng.randint(1, 6)):
            self.add_group()

    def add_group(self):
        # A group that stays may not change its slots, so none is replaced.
        names = [n for n in NAMES if n not in self.version.groups
                 and n not in self.active_groups]
        name = self.rng.choice(names)
        shards = [self.rng.choice(SHARDS)
                  for _ in range(self.rng.randint(1, 5))]
        slots = len(shards) + self.rng.choice([0, 0, 1, 11, 100])
        weight = self.rng.choice(["1", "1", "0.5", "2", "1.25", "0.005"])
        if model.point_count(self.version.vnodes, weight) == 0:
            weight = "1"
        self.version.add_group(name, shards, slots, weight)
        print(f"SELECT shardring.add_group({literal(self.ring)}, "
              f"{literal(name)}, {literal(shards)}, {slots}, {weight}, "
              f"force => true);")

    def remove_group(self):
        name = self.group()
        if len(self.version.groups) > 1 and \
                name not in self.version.pins.values():
            self.version.remove_group(name)
            call("remove_group", self.ring, name)

    def set_weight(self):
        name = self.group()
        weight = self.rng.choice(["1", "3", "1.5", "0.25", "2.125"])
        if model.point_count(self.version.vnodes, weight) > 0:
            self.version.set_weight(name, weight)
            print(f"SELECT shardring.set_weight({literal(self.ring)}, "
                  f"{literal(name)}, {weight});")

    def set_vnodes(self):
        vnodes = self.version.vnodes + self.rng.randint(0, 30)
        self.version.set_vnodes(vnodes)
        call("set_vnodes", self.ring, vnodes)

    def assign_slots(self):
        name = self.group()
        slots = self.version.groups[name].slots
        low = self.rng.randrange(slots)
        high = self.rng.randint(low + 1, slots)
        shard = self.rng.choice(SHARDS)
        self.version.assign_slots(name, range(low, high), shard)
        call("assign_slots", self.ring, name, f"{{[{low},{high})}}", shard)

    def pin(self):
        position = self.rng.choice([0, 4294967295,
                                    self.rng.randrange(model.CIRCLE)])
        name = self.group()
        self.version.pin(position, name)
        call("pin", self.ring, position, name)

    def group(self):
        return self.rng.choice(list(self.version.groups))

    def edit(self):
        edits = [self.set_weight, self.set_vnodes, self.assign_slots,
                 self.pin]
        if self.version.hash_name != "crc16":
            edits += [self.add_group, self.add_group, self.remove_group]
        for _ in range(self.rng.randint(1, 4)):
            self.rng.choice(edits)()

    def history(self):
        """Activates a few versions and returns them by number."""
        versions = {}
        number = 1
        while True:
            call("activate", self.ring)
            versions[number] = copy.deepcopy(self.version)
            self.active_groups = set(self.version.groups)
            if number == 3:
                return versions
            number += 1
            call("draft_version", self.ring)
            self.edit()


def random_key(rng, version):
    kind = rng.randrange(5)
    if kind == 0:
        return str(rng.randint(-2**63, 2**63 - 1))
    if kind == 1:
        return str(uuid.UUID(int=rng.getrandbits(128)))
    if kind == 2:
        # Exactly on a point, where off by one shows.
        name = rng.choice(list(version.groups))
        return f"{name}#{rng.randrange(200)}"
    if kind == 3:
        return "".join(rng.choice("ab{}é日") for _ in range(rng.randrange(9)))
    return f"user:{rng.randrange(10**6)}"


def copy_text(*fields):
    return "\t".join(str(f).replace("\\", "\\\\") for f in fields)


def main():
    seed, rings, keys = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    rng = random.Random(seed)
    print("""\\set ON_ERROR_STOP 1
\\o /dev/null
SET client_min_messages = error;
CREATE TEMP TABLE print (ring text, version int, fingerprint text);
CREATE TEMP TABLE place (ring text, version int, key text, at bigint,
    group_name text, slot int, shard text);
BEGIN;""")
    histories = {}
    for i in range(rings):
        ring = f"r{seed}-{i}"
        histories[ring] = Case(rng, ring).history()
    print("COMMIT;\n\\o\nCOPY print FROM stdin;")
    for ring, versions in histories.items():
        for number, version in versions.items():
            print(copy_text(ring, number, version.fingerprint()))
    print("\\.\nCOPY place FROM stdin;")
    for _ in range(keys):
        ring = rng.choice(list(histories))
        number = rng.choice(list(histories[ring]))
        version = histories[ring][number]
        key = random_key(rng, version)
        print(copy_text(ring, number, key, *version.locate(key)))
    print(r"""\.
SELECT 'fingerprint', p.* FROM print p LEFT JOIN shardring.ring_version v
    USING (ring, version) WHERE v.fingerprint IS DISTINCT FROM p.fingerprint;
SELECT 'place', p.* FROM place p
    WHERE shardring.locate(ring, key, version) IS DISTINCT FROM
        (version, at, group_name, slot, shard)::shardring.location
    OR shardring.shard_for(ring, key, version) IS DISTINCT FROM shard
    OR shardring.shard_at(ring, at, version) IS DISTINCT FROM shard;
SELECT 'bigint', p.* FROM place p WHERE key ~ '^-?[1-9][0-9]*$'
    AND shardring.locate(ring, key::bigint, version) IS DISTINCT FROM
        (version, at, group_name, slot, shard)::shardring.location;
SELECT 'uuid', p.* FROM place p WHERE key ~ '^[0-9a-f]{8}-.{27}$'
    AND shardring.locate(ring, key::uuid, version) IS DISTINCT FROM
        (version, at, group_name, slot, shard)::shardring.location;
SELECT 'active', p.* FROM place p JOIN shardring.ring r USING (ring)
    WHERE version = r.active_version
    AND shardring.shard_for(ring, key) IS DISTINCT FROM shard;
SELECT 'problem', p.* FROM shardring.problems() p;
SELECT 'compared', (SELECT count(*) FROM print), (SELECT count(*) FROM place);
""")


main()
