"""Admission of a client's records to a front topic: delayed messages, half messages.

Does not contain: the rules of a record (`brokerd/delivery`), the append.
"""

from __future__ import annotations

from itertools import chain

from brokerd.apis.batch_inspection import Data, Headers
from brokerd.apis.produce_results import PartitionResult, ProducerRejection
from brokerd.cluster.image import Image
from brokerd.delivery.delayed_records import problems
from brokerd.delivery.half_front import HalfFront, NotAdmitted
from brokerd.delivery.half_records import HalfRecord
from brokerd.replication.replica import Replica
from brokerd.storage.batch_validation import RecordError
from brokerd.wire import records
from brokerd.wire.errors import ErrorCode

READING = PartitionResult(
    ErrorCode.NOT_LEADER_OR_FOLLOWER, "the new leader of this partition is still reading its half messages; retry"
)
"""Retriable."""


def _is_keyed(target: str, image: Image) -> bool:
    """Return whether records of the target topic need a key."""
    topic = image.topic_named(target)
    return topic is not None and "compact" in topic.configs.get("cleanup.policy", "")


def delay_problem(replica: Replica, data: Data, image: Image, wall_ms: int) -> PartitionResult | None:
    """The error if a record for a front topic has no valid delivery time."""
    found = problems(records.iterate(data), wall_ms, keyed=_is_keyed(replica.config.delay_topic, image))
    if not found:
        return None
    errors = tuple(RecordError(i, problem.value) for i, problem in found)
    return PartitionResult(ErrorCode.INVALID_RECORD, errors[0].message, record_errors=errors)


def half_admission(
    front: HalfFront | None, replica: Replica, data: Data, headers: Headers, image: Image
) -> PartitionResult | ProducerRejection | tuple[HalfRecord, ...]:
    """The half messages and decisions of a batch, or the reason why the batch may not be appended. The rejection of a deposed leader could be wrong, so the
    leadership is confirmed before a rejection is sent."""
    if front is None:
        return READING
    batches = (records.records_of(data, pos, header) for pos, header in headers)
    admitted = front.admit(
        chain.from_iterable(batches), headers[0][1], keyed=_is_keyed(replica.config.half_topic, image)
    )
    if not isinstance(admitted, NotAdmitted):
        return admitted
    errors = tuple(RecordError(i, message) for i, message in admitted.records)
    if admitted.retriable:
        return PartitionResult(ErrorCode.NOT_ENOUGH_REPLICAS, errors[0].message)
    return ProducerRejection(
        ErrorCode.INVALID_RECORD, errors[0].message, replica, replica.core.leader_epoch, record_errors=errors
    )
