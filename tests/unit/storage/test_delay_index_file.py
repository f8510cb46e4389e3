"""A delay index file is opened with its segment. An unreadable file is invalid."""

from __future__ import annotations

import pytest

from brokerd.storage.delay_index import InvalidDelayIndex
from brokerd.storage.delay_index_file import open_delay_index
from brokerd.storage.disk import DiskFailed
from tests.unit.maintenance.test_delay_index_build import BUCKET_MS, build_index, log_with_closed_segment


def test_the_groups_are_read_from_the_file_of_the_name() -> None:
    disk, log = log_with_closed_segment()
    segment = log.segments[0]
    build_index(disk, log, segment)
    index = open_delay_index(disk, segment.path, segment.base_offset, segment.size, BUCKET_MS).index
    group = next(index.groups())
    assert len(index.records_of(group)) == group.records * 32
    disk.unlink(segment.path.with_suffix(".delayindex"))
    with pytest.raises(InvalidDelayIndex):
        index.records_of(group)


def test_a_missing_or_unreadable_file_is_invalid() -> None:
    disk, log = log_with_closed_segment()
    segment = log.segments[0]
    with pytest.raises(InvalidDelayIndex):
        open_delay_index(disk, segment.path, segment.base_offset, segment.size, BUCKET_MS)
    build_index(disk, log, segment)
    disk.fail_at = {disk.steps + i: DiskFailed("broken") for i in range(1, 9)}
    disk.reads_fail = True
    with pytest.raises(InvalidDelayIndex):
        open_delay_index(disk, segment.path, segment.base_offset, segment.size, BUCKET_MS)
