#!/bin/bash
#
# picture.sh
#	Makes extension/doc/ring.svg, the picture in the README: eight groups of 160
#	points, and what moves when a ninth joins.

# shellcheck source-path=SCRIPTDIR source=../harness.sh
. "$(dirname "${BASH_SOURCE[0]}")/../harness.sh"

install_missing server
make_root
start_cluster main
psql -X -q -A -t -v ON_ERROR_STOP=1 >"$WORK/ring.svg" <<'END'
CREATE EXTENSION shardring;
\o /dev/null
SELECT shardring.create_ring('orders');
SELECT shardring.add_group('orders', 'node-' || n, ARRAY['s' || n])
FROM generate_series(0, 7) AS n;
SELECT shardring.activate('orders'), shardring.draft_version('orders');
SELECT shardring.add_group('orders', 'node-8', ARRAY['s8']);
\o
SELECT rtrim(shardring.ring_svg('orders', 1, 2), E'\n');
END
cp "$WORK/ring.svg" "$TREE/extension/doc/ring.svg"
echo "extension/doc/ring.svg: $(wc -c <"$TREE/extension/doc/ring.svg") bytes"
