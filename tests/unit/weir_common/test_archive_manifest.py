"""The names of a manifest line are stored in manifest.jsonl, which outlives the program that wrote it."""

from __future__ import annotations

import json
from dataclasses import asdict

from weir_common.archive_manifest import ManifestLine

STORED = '{"batch": 3, "topic": "flights", "partition": 1, "first_offset": 10, "next_offset": 25, "rows": 14}'


def test_a_stored_line_is_read_and_written_unchanged() -> None:
    line = ManifestLine(**json.loads(STORED))
    assert (line.batch, line.topic, line.partition, line.first_offset, line.next_offset, line.rows) == (
        3,
        "flights",
        1,
        10,
        25,
        14,
    )
    assert json.dumps(asdict(line)) == STORED
