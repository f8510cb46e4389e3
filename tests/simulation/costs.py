"""Observes the product while a world runs: the cost of decompression on a broker's event loop, and states that appear in no log line and no record.

The world charges requests and flushes itself (`network`, `cluster`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from brokerd.replication import follower_log
from brokerd.wire import records
from tests.simulation.world import World

RECORD_US = 4
"""Microseconds per record: a look-up by time over a million records took 4.3 s of CPU."""


@contextmanager
def decompression_jobs(world: World, record_us: int = RECORD_US) -> Iterator[None]:
    whole = records.records_of

    def iterate_and_spend(
        buf: Any, pos: int, header: records.BatchHeader, room: Any = None
    ) -> Iterator[records.Record]:
        world.spend(header.record_count * record_us)
        return whole(buf, pos, header, room)

    records.records_of = iterate_and_spend
    try:
        yield
    finally:
        records.records_of = whole


LACKS_EPOCH = "follower lacks the epoch its leader names"
"""Rule R3 in the sense of KIP-279."""


@contextmanager
def count_comparisons(world: World) -> Iterator[None]:
    whole = follower_log.truncation_point

    def looked_at(
        local_end_of_epoch: Callable[[int], tuple[int, int]], log_end: int, epoch: int, end_offset: int
    ) -> int:
        if 0 <= local_end_of_epoch(epoch)[0] < epoch:
            world.reached[LACKS_EPOCH] += 1
        return whole(local_end_of_epoch, log_end, epoch, end_offset)

    follower_log.truncation_point = looked_at
    try:
        yield
    finally:
        follower_log.truncation_point = whole
