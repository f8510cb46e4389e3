"""Numbers of the records in flight of a share partition, for operators. Pure."""

from __future__ import annotations

from collections import Counter

from brokerd.sharing.delivery import RecordsInFlight, RecordState
from brokerd.sharing.share_partition import SharePartition


def is_full(partition: SharePartition) -> bool:
    """Return whether the limit of records in flight is reached, so that no new record is delivered."""
    return partition.end - partition.start >= partition.locks_max


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
