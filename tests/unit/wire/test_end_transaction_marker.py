"""The bytes of a transaction marker are Kafka's: key (version, type), value (version, coordinator epoch)."""

from __future__ import annotations

import pytest

from brokerd.wire import records
from brokerd.wire.end_transaction_marker import Marker, marker, marker_of
from brokerd.wire.records import Record


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_is_a_transactional_control_batch(commit: bool) -> None:
    data = marker(7, 3, Marker(commit, 9), 1_000)
    ((pos, header),) = records.batches(data)
    assert header.is_control and header.is_transactional and header.record_count == 1
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, -1)
    (record,) = records.records_of(data, pos, header)
    assert record.key == bytes([0, 0, 0, commit]) and record.value == bytes([0, 0, 0, 0, 0, 9])
    assert marker_of(data, pos, header) == Marker(commit, 9)


@pytest.mark.parametrize("key", [b"", b"\0\0\0\2", b"\0\0"])
def test_another_control_record_is_no_transaction_marker(key: bytes) -> None:
    data = records.build([Record(0, 1, key, b"\0" * 6)], producer_id=7, producer_epoch=0, control=True)
    assert marker_of(data, 0, records.peek(data)) is None
