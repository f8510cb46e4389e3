"""Numbers of the records in flight of a share partition."""

from __future__ import annotations

from brokerd.sharing.delivery import Acknowledgement, AcknowledgeType, RecordsInFlight, RecordState
from brokerd.sharing.in_flight import records_in_flight
from brokerd.sharing.share_partition import SharePartition
from tests.unit.sharing.test_share_partition import LOCK_MS, share_partition, take

RELEASE, REJECT, ACCEPT = AcknowledgeType.RELEASE, AcknowledgeType.REJECT, AcknowledgeType.ACCEPT


def acknowledge(partition: SharePartition, member: str, first: int, last: int, kind: AcknowledgeType) -> None:
    assert not partition.acknowledge(member, [Acknowledgement(first, last, (kind,))], 0, renew=False)


def test_records_are_counted_by_state_and_member() -> None:
    partition = share_partition(10, locks_max=40)
    assert records_in_flight(partition, 0) == RecordsInFlight({}, None, 0, 0, 0, 40)
    partition.dead_letters = True
    take(partition, "a", (10, 19), now=1_000)
    take(partition, "b", (20, 24), now=3_000)
    acknowledge(partition, "a", 10, 10, ACCEPT)
    acknowledge(partition, "a", 12, 14, RELEASE)
    acknowledge(partition, "b", 20, 21, REJECT)
    found = records_in_flight(partition, 6_000)
    assert found.acquired == {"a": 6, "b": 3}
    assert found.lock_ms == LOCK_MS - 5_000, "that of a, which fetched first"
    assert (found.redelivery, found.archiving) == (3, 2)
    assert found.in_flight == partition.end - partition.start == 14
    assert records_in_flight(partition, 10**9).lock_ms == 0, "the lock has ended, and nobody has released it yet"


def test_records_that_were_never_delivered_do_not_wait_for_another_delivery() -> None:
    partition = share_partition()
    take(partition, "a", (0, 9))
    partition.release("a")  # the end of the session gives the delivery back
    assert {run.state for run in partition.runs} == {RecordState.AVAILABLE}
    assert records_in_flight(partition, 0).redelivery == 0
