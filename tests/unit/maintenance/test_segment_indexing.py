"""Index files of closed segments, whatever their kind: a segment that cannot have one is tried again later. More is in `test_key_indexing`."""

from __future__ import annotations

from brokerd.maintenance.segment_indexing import RETRY_MS, ROUND_MS_MIN
from tests.unit.maintenance.test_delay_indexing import front_world
from tests.unit.storage.test_log import append


def test_a_segment_that_cannot_have_an_index_is_tried_again_later() -> None:
    w = front_world()
    file = w.log.segments[0].file
    byte = file.pread(1, 100)
    file.pwrite(bytes([byte[0] ^ 1]), 100)
    found = w.work()
    assert not found[0] and all(found[1:]), "the other segments have one"
    tries = w.indexing.bytes_read
    w.work()
    assert w.indexing.bytes_read == tries
    file.pwrite(byte, 100)
    w.mono_ms += RETRY_MS
    assert all(w.work())


def test_a_truncation_during_the_build_discards_it() -> None:
    w = front_world()
    w.mono_ms += ROUND_MS_MIN
    w.indexing.tick(w.now())
    w.log.truncate_to(w.log.segments[1].base_offset + 1)
    for _ in range(40):
        append(w.log)
    w.stable = 0
    assert not any(w.work())
