"""Numbers of the records in flight of a share partition, for operators. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from brokerd.sharing.delivery import RecordState
from brokerd.sharing.share_partition import SharePartition


@dataclass(frozen=True, slots=True)
class RecordsInFlight:
    """`acquired`: records by the member that holds them. `lock_ms`: ms until the first lock of them ends; None without one. `redelivery`: records that were
    delivered before and wait for another delivery. `archiving`: records that wait for their dead letters. `in_flight`: offsets from the first record whose
    delivery has not ended to the last delivered one; `in_flight_max`: their limit, above which no new record is delivered."""

    acquired: Mapping[str, int]
    lock_ms: int | None
    redelivery: int
    archiving: int
    in_flight: int
    in_flight_max: int


def records_in_flight(partition: SharePartition, now_ms: int) -> RecordsInFlight:
    """`now_ms`: monotonic ms."""
    acquired: Counter[str] = Counter()
    redelivery, ends_ms = 0, []
    for run in partition.runs:
        if run.state is RecordState.ACQUIRED:
            acquired[run.member] += run.size
            ends_ms.append(run.until_ms)
        elif run.state is RecordState.AVAILABLE and run.count:
            redelivery += run.size
    return RecordsInFlight(
        acquired=dict(acquired),
        lock_ms=max(0, min(ends_ms) - now_ms) if ends_ms else None,
        redelivery=redelivery,
        archiving=partition.archiving,
        in_flight=partition.end - partition.start,
        in_flight_max=partition.locks_max,
    )
