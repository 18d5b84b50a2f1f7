"""model.py
    The rules of shardring in a language of their own: hashes, points, slots,
    pins, the canonical byte string, the fingerprint and routing.

Rules of this file:
  - it is written from the published rules, not from the C code, so that the
    tests compare two independent answers;
  - it uses the standard library only, and is simple before it is fast;
  - it accepts only what the extension accepts too: the tests feed it nothing
    else.

As a program it prints the fingerprints of the five rings in pinned_rings().
"""

import bisect
import decimal
import hashlib

CIRCLE = 1 << 32


# ---------- bytes to a position ----------

def md5(data):
    """The first four bytes of MD5, big-endian."""
    digest = hashlib.new("md5", data, usedforsecurity=False).digest()
    return int.from_bytes(digest[:4], "big")


def fnv1a(data):
    """FNV-1a, 32 bits."""
    value = 2166136261
    for byte in data:
        value = (value ^ byte) * 16777619 % CIRCLE
    return value


def murmur3(data):
    """MurmurHash3 x86_32 with seed 0."""

    def rotate(value, bits):
        return (value << bits | value >> 32 - bits) % CIRCLE

    def scramble(block):
        return rotate(block * 0xCC9E2D51 % CIRCLE, 15) * 0x1B873593 % CIRCLE

    value = 0
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        value ^= scramble(int.from_bytes(data[at:at + 4], "little"))
        value = (rotate(value, 13) * 5 + 0xE6546B64) % CIRCLE
    value ^= scramble(int.from_bytes(data[whole:], "little"))
    value ^= len(data)
    value = (value ^ value >> 16) * 0x85EBCA6B % CIRCLE
    value = (value ^ value >> 13) * 0xC2B2AE35 % CIRCLE
    return value ^ value >> 16


def crc16(data):
    """CRC-16/XMODEM, as in Redis Cluster."""
    value = 0
    for byte in data:
        value ^= byte << 8
        for _ in range(8):
            value = (value << 1 ^ (0x1021 if value & 0x8000 else 0)) & 0xFFFF
    return value


HASHES = {"md5": md5, "fnv1a": fnv1a, "murmur3": murmur3, "crc16": crc16}


def tagged(data):
    """What of a key is hashed on a ring with hash tags."""
    opening = data.find(b"{")
    closing = data.find(b"}", opening + 1)
    if opening >= 0 and closing > opening + 1:
        return data[opening + 1:closing]
    return data


def key_position(key, hash_name="md5", hash_tags=False):
    """The position of a key: text, or an integer by its decimal text."""
    data = str(key).encode("utf-8")
    return HASHES[hash_name](tagged(data) if hash_tags else data)


# ---------- groups to a ring ----------

def point_count(vnodes, weight):
    """round(vnodes * weight), half away from zero."""
    product = decimal.Decimal(vnodes) * decimal.Decimal(weight)
    return int(product.to_integral_value(decimal.ROUND_HALF_UP))


class Group:
    """A group of a version: its points with their salts, a shard per slot."""

    def __init__(self, weight, shard_of_slot):
        self.weight = weight
        self.shard_of_slot = shard_of_slot
        self.points = []    # (position, salt), in the order they were taken

    @property
    def slots(self):
        return len(self.shard_of_slot)


class Version:
    """One version of a ring; copy.deepcopy() drafts the next one."""

    def __init__(self, vnodes=160, hash_name="md5", hash_tags=False):
        self.vnodes = vnodes
        self.hash_name = hash_name
        self.hash_tags = hash_tags
        self.groups = {}
        self.pins = {}      # position -> name of the group
        self._circle = None # all points ascending, made when routing

    # Editing, as the functions of the same names do it.

    def add_group(self, name, shards, slots=None, weight=1):
        slots = slots or len(shards)
        self.groups[name] = Group(
            weight, [shards[s * len(shards) // slots] for s in range(slots)])
        self._resize(name)

    def remove_group(self, name):
        del self.groups[name]
        self._circle = None

    def set_weight(self, name, weight):
        self.groups[name].weight = weight
        self._resize(name)

    def set_vnodes(self, vnodes):
        self.vnodes = vnodes
        for name in self._sorted(self.groups):
            self._resize(name)

    def assign_slots(self, name, slots, shard):
        for slot in slots:
            self.groups[name].shard_of_slot[slot] = shard

    def pin(self, position, name):
        self.pins[position] = name

    def _resize(self, name):
        """Appends points to a group, or drops some from the end."""
        self._circle = None
        group = self.groups[name]
        wanted = point_count(self.vnodes, group.weight)
        del group.points[wanted:]
        taken = {position for g in self.groups.values()
                 for position, _ in g.points}
        salt = group.points[-1][1] + 1 if group.points else 0
        while len(group.points) < wanted:
            candidate = f"{name}#{salt}".encode("utf-8")
            position = HASHES[self.hash_name](candidate)
            if position not in taken:
                taken.add(position)
                group.points.append((position, salt))
            salt += 1

    # Routing.

    def owner(self, position):
        """The group of a position: a pin, or the first point at or after."""
        if position in self.pins:
            return self.pins[position]
        if self._circle is None:
            self._circle = sorted((point, name)
                                  for name, g in self.groups.items()
                                  for point, _ in g.points)
        at = bisect.bisect_left(self._circle, (position, ""))
        return self._circle[at % len(self._circle)][1]

    def locate(self, key):
        """(position, group, slot, shard) of a key."""
        return self.locate_position(
            key_position(key, self.hash_name, self.hash_tags))

    def locate_position(self, position):
        name = self.owner(position)
        slot = position % self.groups[name].slots
        return position, name, slot, self.groups[name].shard_of_slot[slot]

    # The fingerprint.

    def canonical(self):
        """The canonical byte string."""
        out = [u32(1), name_bytes(self.hash_name), bytes([self.hash_tags]),
               u32(len(self.groups))]
        for name in self._sorted(self.groups):
            group = self.groups[name]
            out += [name_bytes(name), u32(group.slots),
                    u32(len(group.points))]
            out += [u32(position) for position, _ in group.points]
            shards = self._sorted(set(group.shard_of_slot))
            out.append(u32(len(shards)))
            for shard in shards:
                ranges = slot_ranges(group.shard_of_slot, shard)
                out += [name_bytes(shard), u32(len(ranges))]
                for low, high in ranges:
                    out += [u32(low), u32(high)]
        out.append(u32(len(self.pins)))
        for position in sorted(self.pins):
            out += [u32(position), name_bytes(self.pins[position])]
        return b"".join(out)

    def fingerprint(self):
        return hashlib.sha256(self.canonical()).hexdigest()

    @staticmethod
    def _sorted(names):
        return sorted(names, key=lambda name: name.encode("utf-8"))


def slot_ranges(shard_of_slot, shard):
    """The slots of a shard as ascending half-open ranges."""
    ranges = []
    for slot, holder in enumerate(shard_of_slot):
        if holder != shard:
            continue
        if ranges and ranges[-1][1] == slot:
            ranges[-1][1] = slot + 1
        else:
            ranges.append([slot, slot + 1])
    return ranges


def u32(number):
    return number.to_bytes(4, "big")


def name_bytes(name):
    data = name.encode("utf-8")
    return u32(len(data)) + data


# ---------- rings whose fingerprints never change ----------

def pinned_rings():
    """Five rings, by name, that between them use every part of the format."""
    plain = Version()
    for name in ("node-a", "node-b", "node-c"):
        plain.add_group(name, [name])

    blocks = Version(vnodes=40)
    for i in range(8):
        blocks.add_group(f"group-{i}", [f"db{2 * i}", f"db{2 * i + 1}"], 64)
    blocks.set_weight("group-3", "1.5")
    blocks.set_weight("group-5", "0.5")
    blocks.remove_group("group-6")
    blocks.assign_slots("group-0", [0, 1, 2, 7, 63], "db99")

    fixed = Version(vnodes=1, hash_name="crc16", hash_tags=True)
    fixed.add_group("all", ["redis-0", "redis-1", "redis-2"], 16384)

    pinned = Version(vnodes=16, hash_name="murmur3", hash_tags=True)
    pinned.add_group("Zürich", ["züri-1"])
    pinned.add_group("日本", ["東京", "大阪"], 3)
    pinned.add_group("home", ["vip"], 1, 0)
    pinned.pin(0, "home")
    pinned.pin(4294967295, "日本")
    pinned.pin(key_position("user:42", "murmur3"), "home")

    colliding = Version(hash_name="fnv1a")
    colliding.add_group("mid-1", ["m"])
    colliding.add_group("alpha-4", ["a"])
    colliding.add_group("Zeta-646", ["z"])
    colliding.set_vnodes(200)

    return {"plain": plain, "blocks": blocks, "fixed": fixed,
            "pinned": pinned, "colliding": colliding}


if __name__ == "__main__":
    for ring_name, version in pinned_rings().items():
        print(ring_name, version.fingerprint())
