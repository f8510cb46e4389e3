"""Records of transactional ids in Kafka's formats."""

from __future__ import annotations

from dataclasses import replace

import pytest

from brokerd.coordinator.transactions import records as formats
from brokerd.coordinator.transactions.transaction_events import (
    TransactionMachineState,
    TransactionMetadata,
)


def test_transaction_records_have_kafkas_format() -> None:
    assert formats.key("id") == b"\0\0\0\2id"
    ongoing = TransactionMetadata(7, 1, 10_000, TransactionMachineState.ONGOING, frozenset({("t", 3)}), 5, 6)
    assert formats.value(ongoing).hex() == (
        "000000000000000000070001000027100100000001000174000000010000000300000000000000060000000000000005"
    )
    assert formats.read_value(formats.value(ongoing)) == ongoing
    second = replace(ongoing, version=2, previous_producer_id=3, next_producer_id=4)
    assert formats.value(second)[:2] == b"\0\1" and formats.read_value(formats.value(second)) == second
    for bad in (b"", b"\0\7", formats.value(ongoing)[:-1]):
        with pytest.raises(ValueError):
            formats.read_value(bad)
    with pytest.raises(ValueError):
        formats.read_key(b"\0\0\0\7id")
