"""Producing and copying records for an operator: permission, rejections, and the audit row.

Invariants: an audit row is written before the first record is sent, and gets its outcome afterwards. It has the key, the sizes and the names of
headers, never a value. A copy needs the right to see the raw source. Does not contain: the producer (`controlplane.clients.producer`).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, PermissionsMixin
from django.core.exceptions import PermissionDenied

from brokerd.cluster.model import INTERNAL_TOPICS
from controlplane.clients import producer, record_range
from controlplane.clients.connection import NoResponse
from controlplane.clients.record_range import RecordRange
from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.formats import render
from controlplane.domain.masking import REPLACEMENT
from controlplane.domain.produce import (
    REQUEST_BYTES_MAX,
    CopyTimestamp,
    NewRecord,
    ProducedRecord,
    ProduceSummary,
    check_range,
    check_record,
)
from controlplane.domain.roles import Access, RoleResource
from controlplane.models import ObservedPartition
from controlplane.models.change import Outcome
from controlplane.services import masking, records
from controlplane.services.authorization import PERMISSION_FOR, permits
from controlplane.services.common import Rejected, finish_changes, record, record_rejection
from weir_common.phrases import sentence

User = AbstractBaseUser | AnonymousUser

PERMISSION = PERMISSION_FOR[Access.PRODUCE_RECORDS]
NEEDS_PERMISSION = (
    "Producing records needs the permission produce_records, or the role writer on this topic. An administrator grants it: "
    "manage.py produce_records USER, or Role bindings."
)
MASKED_SOURCE = (
    "Masking rules apply to the source topic for this user. Somebody who sees its raw records can copy them."
)
KEY_CHARS_MAX = 200
"""Maximum number of characters of a key in the audit log."""

PARTITIONS_NAMED_MAX = 20
"""Maximum number of partitions whose offsets the audit log names."""


@dataclass(frozen=True, slots=True)
class ProduceResult:
    """`written`, `refused`, `unknown`: numbers of records; unknown ones may have been written. `problems`: each reason once. `records`:
    partition and offset of each record, in the order of the request."""

    topic: str
    written: int
    refused: int
    unknown: int
    problems: list[str]
    records: list[ProducedRecord]


@dataclass(frozen=True, slots=True)
class CopyPreview:
    """The records that a copy would read. `records`: committed records in the range now; compaction and transactions leave offsets without a record.
    `start_offset`, `end_offset`: of the source's log. `complete` False: the range is larger than a copy can read; `records` is then a part."""

    source: str
    partition: int
    topic: str
    records: int
    bytes: int
    first_offset: int | None
    last_offset: int | None
    start_offset: int
    end_offset: int
    complete: bool


def produce_denial(user: User, topic: str) -> str:
    """Return the reason why this user may not produce to this topic; "" = producing is allowed."""
    if isinstance(user, PermissionsMixin) and user.has_perm(PERMISSION):
        return ""
    return "" if permits(user, Access.PRODUCE_RECORDS, RoleResource.TOPIC, topic) else NEEDS_PERMISSION


def produce_record(user: User, topic: str, new: NewRecord, *, count: int = 1, comment: str = "") -> ProduceResult:
    """Write one record `count` times. Raises PermissionDenied and Rejected. Brokers' rejections are in the result."""
    requested = audit_facts(topic, new, count)
    with permission_check(user, AuditOperation.RECORDS_PRODUCE, topic, requested, comment):
        check_record(new, check_target(topic, new.partition), count)
    return send_audited(user, AuditOperation.RECORDS_PRODUCE, topic, requested, comment, [new] * count)


def preview_copy(
    user: User, source: str, partition: int, first_offset: int, last_offset: int, *, topic: str
) -> CopyPreview:
    """Return the records that `copy_records` would copy, without copying. Raises PermissionDenied and Rejected."""
    requested = {"source": f"{source}-{partition}", "first_offset": first_offset, "last_offset": last_offset}
    with permission_check(user, AuditOperation.RECORDS_COPY, topic, requested):
        found = _read_source(user, source, partition, first_offset, last_offset, topic, None)
    offsets = [offset for offset, _ in found.records]
    return CopyPreview(
        source=source,
        partition=partition,
        topic=topic,
        records=len(offsets),
        bytes=sum(r.size for _, r in found.records),
        first_offset=offsets[0] if offsets else None,
        last_offset=offsets[-1] if offsets else None,
        start_offset=found.start_offset,
        end_offset=found.end_offset,
        complete=found.complete,
    )


def copy_records(
    user: User,
    source: str,
    partition: int,
    first_offset: int,
    last_offset: int,
    *,
    topic: str,
    to_partition: int | None = None,
    timestamp: CopyTimestamp = CopyTimestamp.ORIGINAL,
    comment: str = "",
) -> ProduceResult:
    """Write the records of an offset range again, with key, value and headers, into `topic`. Raises PermissionDenied and Rejected."""
    requested = {"source": f"{source}-{partition}", "first_offset": first_offset, "last_offset": last_offset}
    requested |= {"partition": to_partition, "timestamp": timestamp.value}
    with permission_check(user, AuditOperation.RECORDS_COPY, topic, requested, comment):
        found = _read_source(user, source, partition, first_offset, last_offset, topic, to_partition)
        if not found.complete:
            raise Rejected(
                sentence(
                    "The range is too large: only {count} records could be read. Copy a smaller range of offsets.",
                    count=len(found.records),
                )
            )
        if not found.records:
            raise Rejected("The range has no records. Retention or compaction may have removed them.", "first_offset")
    keep = timestamp is CopyTimestamp.ORIGINAL
    copies = [
        NewRecord(r.key, r.value, r.headers, to_partition, r.timestamp_ms if keep else None) for _, r in found.records
    ]
    return send_audited(user, AuditOperation.RECORDS_COPY, topic, requested | {"records": len(copies)}, comment, copies)


def _read_source(
    user: User, source: str, partition: int, first: int, last: int, topic: str, to_partition: int | None
) -> RecordRange:
    if reason := records.read_denial(user, source):
        raise PermissionDenied(reason)
    if masking.rules_for(user, source):
        raise PermissionDenied(MASKED_SOURCE)
    check_record(NewRecord(partition=to_partition), check_target(topic, to_partition))
    check_range(first, last)
    if not ObservedPartition.objects.filter(topic__name=source, index=partition).exists():
        raise Rejected(
            sentence("Partition {source}-{partition} does not exist.", source=source, partition=partition),
            "source_partition",
        )
    try:
        return record_range.read_range(source, partition, first, last, REQUEST_BYTES_MAX)
    except NoResponse as error:
        raise Rejected(
            sentence(
                "{source}-{partition} could not be read: {detail}. Try again when it has a leader.",
                source=source,
                partition=partition,
                detail=error,
            )
        ) from None


def check_target(topic: str, partition: int | None) -> int:
    """The number of partitions of the topic. Raises Rejected for a topic or partition that cannot be written."""
    if topic in INTERNAL_TOPICS:
        raise Rejected(sentence("{topic} is an internal topic. Only brokers write to it.", topic=topic), "topic")
    leaders = dict(ObservedPartition.objects.filter(topic__name=topic).values_list("index", "leader"))
    if not leaders:
        raise Rejected(sentence("There is no topic {topic}.", topic=repr(topic)), "topic")
    offline = sorted(index for index, leader in leaders.items() if leader is None or leader < 0)
    if partition in offline or len(offline) == len(leaders):
        if partition in offline:
            name = f"{topic}-{partition}"
            raise Rejected(sentence("Partition {name} has no leader. Start the brokers of its replicas.", name=name))
        raise Rejected(sentence("Topic {name} has no leader. Start the brokers of its replicas.", name=topic))
    return len(leaders)


@contextmanager
def permission_check(
    user: User, verb: AuditOperation, topic: str, requested: Mapping[str, object], comment: str = ""
) -> Iterator[None]:
    """Checks the permission. A rejection, of the permission or inside the block, is in the audit log."""
    try:
        if reason := produce_denial(user, topic):
            raise PermissionDenied(reason)
        yield
    except (PermissionDenied, Rejected) as error:
        rejected = Rejected(str(error))
        record_rejection(user.get_username(), verb, "records", topic[:255], rejected, comment=comment, after=requested)
        raise


def send_audited(
    user: User,
    verb: AuditOperation,
    topic: str,
    requested: Mapping[str, object],
    comment: str,
    batch: Sequence[NewRecord],
) -> ProduceResult:
    """Write the records between the audit row and its outcome."""
    object_id = f"produce-{uuid.uuid4().hex}"
    record(user.get_username(), verb, "records", topic, comment=comment, after=requested, object_id=object_id)
    written = producer.produce(topic, batch)
    summary = ProduceSummary.of(written)
    outcome = Outcome.CONFIRMED if summary.written else Outcome.REJECTED
    finish_changes(object_id, None, Outcome.UNKNOWN if summary.unknown else outcome, _detail(summary, written))
    return ProduceResult(topic, summary.written, summary.refused, summary.unknown, summary.problems, written)


def _detail(summary: ProduceSummary, written: Sequence[ProducedRecord]) -> str:
    """Return a text with the offsets of the written records of each partition, and with the reason for records that were not written."""
    offsets: dict[int, list[int]] = {}
    for r in written:
        if not r.problem and r.partition is not None and r.offset is not None:
            offsets.setdefault(r.partition, []).append(r.offset)
    places = [f"partition {p}: offsets {min(o)} to {max(o)}" for p, o in sorted(offsets.items())[:PARTITIONS_NAMED_MAX]]
    return " ".join([f"{summary.written} written.", *(f"{place}." for place in places), *summary.problems])


def audit_facts(topic: str, new: NewRecord, count: int) -> dict[str, object]:
    """The audit row's facts of a new record: the key, sizes and names of headers. Never a value."""
    key = render(new.key).text if new.key is not None else None
    if key is not None:
        key = REPLACEMENT if masking.key_is_masked(topic) else key[:KEY_CHARS_MAX]
    return {
        "records": count,
        "partition": new.partition,
        "key": key,
        "key_bytes": len(new.key or b""),
        "value_bytes": None if new.value is None else len(new.value),
        "headers": [name for name, _ in new.headers],
    }
