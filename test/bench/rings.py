"""rings.py: makes the rings that are measured."""


def make_ring(session, ring, groups, vnodes, slots=1, shards=None):
    """An active ring of equal groups, one shard a slot unless said.  The points
    are made at the end and all at once: quicker than group by group."""
    session.run(f'''
        DO $$
        BEGIN
            PERFORM shardring.create_ring('{ring}', 1);
            FOR i IN 0 .. {groups - 1} LOOP
                PERFORM shardring.add_group('{ring}', 'node-' || i,
                    ARRAY(SELECT 'shard-' || i || '-' || s
                          FROM generate_series(1, {shards or slots}) AS s),
                    {slots});
            END LOOP;
            PERFORM shardring.set_vnodes('{ring}', {vnodes});
            PERFORM shardring.activate('{ring}');
        END
        $$''')


def make_next(session, ring):
    """Version 2, with one group more, sealed."""
    session.run(f'''
        DO $$
        BEGIN
            PERFORM shardring.draft_version('{ring}');
            PERFORM shardring.add_group('{ring}', 'node-new',
                ARRAY['shard-new'],
                (SELECT max(g.slots) FROM shardring.shard_group AS g
                 WHERE g.ring = '{ring}'));
            PERFORM shardring.seal('{ring}');
        END
        $$''')


def copy_versions(session, ring, count):
    """Versions 2 to count, each equal to version 1; the last one is active.  A
    fingerprint does not depend on the number."""
    _copy_rows(session, 'ring', 'i', f"ring = '{ring}' AND version = 1",
               2, count)
    session.run(f'''
        UPDATE shardring.ring
        SET active_version = {count}, last_version = {count}
        WHERE ring = '{ring}' ''')


def copy_ring(session, ring, low, high):
    """Copies of a ring, with all its versions, under its name and a number from
    low to high.  Nor does a fingerprint depend on the name."""
    session.run(f'''
        INSERT INTO shardring.ring
        SELECT ring || '-' || i, {_columns(session, 'ring', 1)}
        FROM shardring.ring, generate_series({low}, {high}) AS i
        WHERE ring = '{ring}' ''')
    _copy_rows(session, "ring || '-' || i", 'version', f"ring = '{ring}'",
               low, high)


def _copy_rows(session, ring, version, condition, low, high):
    """The triggers that protect sealed versions stay asleep meanwhile."""
    session.run('SET session_replication_role = replica')
    for table in 'ring_version', 'shard_group', 'shard_map', 'shard_pin':
        session.run(f'''
            INSERT INTO shardring.{table}
            SELECT {ring}, {version}, {_columns(session, table, 2)}
            FROM shardring.{table}, generate_series({low}, {high}) AS i
            WHERE {condition}''')
        session.run(f'ANALYZE shardring.{table}')
    session.run('SET session_replication_role = origin')


def _columns(session, table, after):
    return ', '.join(session.run(f'''
        SELECT attname FROM pg_attribute
        WHERE attrelid = 'shardring.{table}'::regclass AND attnum > {after}
            AND NOT attisdropped
        ORDER BY attnum'''))
