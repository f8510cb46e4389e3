"""Which error a producer gets for records of a front topic."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from brokerd.apis import front_admission
from brokerd.apis.front_admission import READING
from brokerd.apis.produce_results import PartitionResult, ProducerRejection
from brokerd.delivery.half_front import NotAdmitted
from brokerd.delivery.half_messages import HalfDecision
from brokerd.delivery.half_records import HalfRecord
from brokerd.wire import records
from brokerd.wire.errors import ErrorCode
from brokerd.wire.records import Record

BATCH = bytearray(records.build([Record(0, 1_000, b"k", b"v", (("x-half-id", b"7"), ("x-half", b"commit")))]))
REPLICA: Any = SimpleNamespace(
    config=SimpleNamespace(half_topic="orders", delay_topic="orders"), core=SimpleNamespace(leader_epoch=4)
)


class FakeFront:
    def __init__(self, result: Any) -> None:
        self.result, self.keyed = result, False

    def admit(self, batch: Any, header: Any, *, keyed: bool) -> Any:
        assert [r.key for r in batch] == [b"k"]
        self.keyed = keyed
        return self.result


def admission(front: Any, policy: str = "delete") -> Any:
    topic = SimpleNamespace(configs={"cleanup.policy": policy})
    image: Any = SimpleNamespace(topic_named=lambda name: topic if name == "orders" else None)
    return front_admission.half_admission(front, REPLICA, BATCH, [(0, records.peek(BATCH))], image)


def test_a_leader_that_still_reads_gives_a_retriable_error() -> None:
    assert admission(None) is READING and READING.error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_admitted_records_are_returned_and_a_compacted_target_needs_keys() -> None:
    front = FakeFront((HalfRecord(b"7", HalfDecision.COMMIT),))
    assert admission(front) == front.result and not front.keyed
    admission(front, "compact,delete")
    assert front.keyed


def test_a_final_rejection_names_the_records_and_is_confirmed_first() -> None:
    rejection = admission(FakeFront(NotAdmitted(((0, "already committed"),), retriable=False)))
    assert isinstance(rejection, ProducerRejection) and rejection.leader_epoch == 4
    assert (rejection.error, rejection.message) == (ErrorCode.INVALID_RECORD, "already committed")
    assert rejection.record_errors == ((0, "already committed"),)


def test_a_retriable_rejection_is_sent_at_once() -> None:
    rejection = admission(FakeFront(NotAdmitted(((0, "not replicated"),), retriable=True)))
    assert rejection == PartitionResult(ErrorCode.NOT_ENOUGH_REPLICAS, "not replicated")


def test_a_delayed_record_without_a_time_is_named() -> None:
    image: Any = SimpleNamespace(topic_named=lambda name: None)
    found = front_admission.delay_problem(REPLICA, BATCH, image, 1_000)
    assert found is not None and found.error is ErrorCode.INVALID_RECORD and found.record_errors[0].batch_index == 0
