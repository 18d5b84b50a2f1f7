#!/usr/bin/python3
"""client.py: routes keys by the document of shardring.export_version, and shares
no code with the extension.  client.py DOCUMENT <KEYS, one a line, prints the
position, group, slot and shard of each, separated by tabs."""
import binascii, bisect, hashlib, json, struct, sys

def fnv1a(data):
    h = 2166136261
    for byte in data:
        h = (h ^ byte) * 16777619 & 0xFFFFFFFF
    return h

def murmur3(data):
    def mix(k):
        k = k * 0xCC9E2D51 & 0xFFFFFFFF
        return (k << 15 | k >> 17) * 0x1B873593 & 0xFFFFFFFF
    h, whole = 0, len(data) // 4 * 4
    for (k,) in struct.iter_unpack('<I', data[:whole]):
        h ^= mix(k)
        h = ((h << 13 | h >> 19) * 5 + 0xE6546B64) & 0xFFFFFFFF
    h ^= mix(int.from_bytes(data[whole:], 'little')) ^ len(data)
    h = (h ^ h >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    h = (h ^ h >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    return h ^ h >> 16

HASHES = {'md5': lambda data: int.from_bytes(hashlib.md5(data).digest()[:4], 'big'),
          'fnv1a': fnv1a, 'murmur3': murmur3, 'crc16': lambda data: binascii.crc_hqx(data, 0)}

class Ring:
    def __init__(self, document):
        if document['format'] != 1:
            raise ValueError('unknown format of document')
        self.version, self.hash = document['version'], HASHES[document['hash']]
        self.hash_tags = document['hash_tags']
        self.groups = {group['name']: group for group in document['groups']}
        self.pins = {pin['position']: pin['group'] for pin in document['pins']}
        points = sorted((p, g['name']) for g in document['groups'] for p in g['points'])
        self.points, self.owners = [p for p, _ in points], [name for _, name in points]

    def position(self, key):
        data = key.encode()
        start, end = data.find(b'{'), data.find(b'}', data.find(b'{') + 1)
        if self.hash_tags and start >= 0 and end > start + 1:
            data = data[start + 1:end]
        return self.hash(data)

    def locate(self, key):
        position = self.position(key)
        name = self.pins.get(position) or self.owners[
            bisect.bisect_left(self.points, position) % len(self.points)]
        slot = position % self.groups[name]['slots']
        return position, name, slot, next(
            holder['shard'] for holder in self.groups[name]['shards']
            if any(lo <= slot < hi for lo, hi in holder['slots']))

if __name__ == '__main__':
    if len(sys.argv) != 2:
        print('usage: client.py DOCUMENT <KEYS', file=sys.stderr)
        sys.exit(2)
    with open(sys.argv[1], encoding='utf-8') as file:
        ring = Ring(json.load(file))
    for line in open(0, encoding='utf-8', newline='\n'):
        print(*ring.locate(line.rstrip('\n')), sep='\t')
