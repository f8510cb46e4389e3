"""Slices of a segment: whole first batches at any slice size, and damaged batches."""

from __future__ import annotations

import pytest

from brokerd.storage.disk import DiskFailed
from brokerd.storage.segment_slices import check_batch, read_slice
from brokerd.wire import records
from brokerd.wire.records import Record
from tests.unit.storage.test_log import append, open_log, sim


@pytest.mark.parametrize("slice_bytes", [1, 100, 250, 10_000])
def test_slices_have_whole_batches_until_the_end_of_the_segment(slice_bytes: int) -> None:
    disk = sim()
    log = open_log(disk)
    for i in range(5):
        append(log, bytearray(records.build([Record(0, 1, b"k", b"v" * 30 * i)])))
    segment = log.segments[0]
    position, offsets = 0, []
    while position < segment.size:
        data = read_slice(disk, segment.path, position, segment.size, slice_bytes)
        found = list(records.batches(data))
        assert found, "no progress"
        for at, header in found:
            check_batch(segment.path, position + at, data, at, header)
            offsets.append(header.base_offset)
        position += found[-1][0] + found[-1][1].size
    assert offsets == [0, 1, 2, 3, 4]


def test_a_damaged_batch_or_another_format_is_an_error() -> None:
    data = bytearray(records.build([Record(0, 1, b"k", b"v")]))
    path = open_log(sim()).segments[0].path
    for at, message in ((65, "position 7 is damaged"), (16, "position 7 is damaged")):
        changed = bytearray(data)
        changed[at] ^= 1
        with pytest.raises(DiskFailed, match=message):
            check_batch(path, 7, bytes(changed), 0, records.peek(changed))
    check_batch(path, 7, bytes(data), 0, records.peek(data))
