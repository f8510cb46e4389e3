"""Sequence numbers of routed batches are source offsets."""

from __future__ import annotations

from uuid import UUID

import pytest

from brokerd.delivery.route_producer import ROUTE_PRODUCERS, last_source_offset, route_batch, route_producer_id
from brokerd.wire import records
from brokerd.wire.records import Record


@pytest.mark.parametrize("last", [0, 5, 2**31 - 1, 2**31, 2**31 + 1, 5 * 2**31 + 17])
@pytest.mark.parametrize("count", [1, 3])
def test_the_last_sequence_number_gives_the_source_offset(last: int, count: int) -> None:
    found = [Record(last - 2 * (count - 1 - i), 0, b"k", b"v") for i in range(count)]
    data = route_batch(found, 77, last)
    header = records.check(data)[0][1]
    assert header.last_offset_delta == count - 1
    assert last_source_offset(header.producer_epoch, header.last_sequence) == last


def test_the_producer_id_is_that_of_every_leader_and_of_one_partition() -> None:
    ids = {route_producer_id(r, UUID(int=t), p) for r in ("a", "b") for t in (1, 2) for p in (0, 1)}
    assert len(ids) == 8 and all(ROUTE_PRODUCERS <= i < 2**63 for i in ids)
    assert route_producer_id("a", UUID(int=1), 0) in ids
