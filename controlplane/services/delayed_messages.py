"""Delayed messages that an operator looks up by key or cancels: permission, the tombstone in the front topic, its outcome, and the audit row.

Invariants: a tombstone cancels each pending record with its key at a lower offset in the partition; the preview has their number. The outcome says
"cancelled" only after the leader has confirmed it. Does not contain: pending records (`selectors.delayed_messages`).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import StrEnum
from typing import Unpack

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.core.exceptions import PermissionDenied

from brokerd.delivery.delayed_records import delivery_time
from brokerd.wire.records import Record
from controlplane.clients import record_range
from controlplane.clients.connection import NoResponse
from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.produce import RECORD_BYTES_MAX, NewRecord
from controlplane.selectors import delayed_messages as selectors
from controlplane.selectors.delayed_messages import PendingList
from controlplane.selectors.front_leaders import leaders_of
from controlplane.services import masking, records
from controlplane.services.common import Rejected, record_rejection
from controlplane.services.produce import audit_facts, permission_check, send_audited
from weir_common.phrases import sentence

User = AbstractBaseUser | AnonymousUser
VERB = AuditOperation.DELAYED_CANCEL
LOOK_UP_VERB = AuditOperation.DELAYED_LOOK_UP
COUNTED_MAX = selectors.ROWS_MAX
"""Maximum number of records with one key that a preview counts."""
CONFIRM_SECONDS = 3.0
"""Time limit for the leader to read the tombstone. It reads every 100 ms."""
POLL_SECONDS = 0.2


class CancelState(StrEnum):
    """`cancelled`: the leader confirms it. `due`: the delivery time has come; the record is delivered or cancelled. `refused`: no tombstone was
    written. `unknown`: the tombstone may have been written, or the leader did not respond."""

    CANCELLED = "cancelled"
    DUE = "due"
    REJECTED = "refused"
    UNKNOWN = "unknown"


CANCEL_TEXTS = {
    CancelState.CANCELLED: "The record is not delivered.",
    CancelState.DUE: "The delivery time has come. The record was delivered, or it was cancelled before.",
    CancelState.UNKNOWN: "It is unknown whether the record is cancelled. Look it up again.",
}


@dataclass(frozen=True, slots=True)
class CancelPreview:
    """The effect of a cancellation. `key`: as masking rules permit, None if this user must not read records. `same_key`: pending records that the
    tombstone cancels, this one included; `more`: there are more than were counted."""

    topic: str
    front_topic: str
    partition: int
    offset: int
    deliver_at_ms: int
    key: str | None
    same_key: int
    more: bool


@dataclass(frozen=True, slots=True)
class CancelResult:
    """`tombstone_offset`: in the front topic, None if it is unknown. `cancelled`: pending records with the key when the operator confirmed."""

    state: str
    detail: str
    cancelled: int
    tombstone_offset: int | None


@dataclass(frozen=True, slots=True)
class _Cancellable:
    preview: CancelPreview
    key: bytes


def look_up(
    user: User, topic: str, *, key: bytes | None = None, **requested: Unpack[selectors.PendingFilter]
) -> PendingList | None:
    """See `selectors.delayed_messages.look_up`. A look-up by key says whether a record has this key, so it needs the permission to read records, and
    a key that is not masked. Raises PermissionDenied and Rejected."""
    front = selectors.front_topic(topic)
    if key is not None and front is not None and (reason := _key_denied(user, topic, front)):
        record_rejection(user.get_username(), LOOK_UP_VERB, "records", front, Rejected(reason))
        raise PermissionDenied(reason)
    return selectors.look_up(topic, key=key, **requested)


def _key_denied(user: User, topic: str, front: str) -> str:
    if reason := records.read_denial(user, front):
        return reason
    hidden = any(masking.renderer_for(user, name).hides() for name in (topic, front))
    return records.LOOK_UP_MASKED if hidden else ""


def preview_cancel(user: User, topic: str, partition: int, offset: int) -> CancelPreview | None:
    """Return None if the topic has no delayed messages. Raises Rejected if there is nothing to cancel, or if this is unknown."""
    found = _find(user, topic, partition, offset)
    return None if found is None else found.preview


def cancel(user: User, topic: str, partition: int, offset: int, *, comment: str) -> CancelResult | None:
    """Write a tombstone with the record's key. None: the topic has no delayed messages. Raises PermissionDenied and Rejected."""
    requested: dict[str, object] = {"partition": partition, "offset": offset}
    with permission_check(user, VERB, topic, requested, comment):
        if not comment.strip():
            raise Rejected("Give a reason; it is recorded in the audit log.", "comment")
        found = _find(user, topic, partition, offset)
    if found is None:
        return None
    tombstone = NewRecord(key=found.key, partition=partition)
    front, count = found.preview.front_topic, found.preview.same_key
    requested |= audit_facts(front, tombstone, 1) | {"cancelled": count}
    written = send_audited(user, VERB, front, requested, comment, [tombstone])
    (placed,) = written.records
    if written.refused:
        return CancelResult(CancelState.REJECTED, placed.problem, 0, None)
    state = CancelState.UNKNOWN if written.unknown else _read_back(found)
    text = placed.problem or CANCEL_TEXTS[state]
    return CancelResult(state, text, count, placed.offset)


def _find(user: User, topic: str, partition: int, offset: int) -> _Cancellable | None:
    front = selectors.front_topic(topic)
    if front is None:
        return None
    if partition not in leaders_of(front):
        raise Rejected(
            sentence("Partition {front}-{partition} does not exist.", front=front, partition=partition), "partition"
        )
    try:
        read = record_range.read_range(front, partition, offset, offset, RECORD_BYTES_MAX)
    except NoResponse as error:
        raise Rejected(
            sentence(
                "{front}-{partition} could not be read: {detail}. Try again when it has a leader.",
                front=front,
                partition=partition,
                detail=error,
            )
        ) from None
    if not read.records:
        raise Rejected(
            sentence(
                "{front}-{partition} has no record at offset {offset}: it was delivered or cancelled.",
                front=front,
                partition=partition,
                offset=offset,
            ),
            "offset",
        )
    record = read.records[0][1]
    at = delivery_time(
        Record(offset, record.timestamp_ms or 0, record.key, record.value, tuple(record.headers)),
        record.timestamp_ms or 0,
    )
    if not isinstance(at, int):
        raise Rejected(
            sentence("The record at offset {offset} has no delivery time; it is a cancellation.", offset=offset),
            "offset",
        )
    if record.key is None:
        raise Rejected("The record has no key. A record is cancelled by a tombstone with its key.", "offset")
    rows = _pending(topic, partition, record.key, at, at + 1).rows
    own = next((r for r in rows if r.offset == offset), None)
    if own is None:
        raise Rejected(
            sentence("The record at offset {offset} is not pending: it was delivered or cancelled.", offset=offset),
            "offset",
        )
    if own.cancelled:
        raise Rejected(sentence("The record at offset {offset} is cancelled already.", offset=offset), "offset")
    all_of_key = _pending(topic, partition, record.key, None, None)
    preview = CancelPreview(
        topic=topic,
        front_topic=front,
        partition=partition,
        offset=offset,
        deliver_at_ms=at,
        key=None if _key_denied(user, topic, front) else masking.renderer_for(user, front).key(record.key).text,
        same_key=sum(not r.cancelled for r in all_of_key.rows),
        more=not all_of_key.complete,
    )
    return _Cancellable(preview, record.key)


def _pending(topic: str, partition: int, key: bytes, from_ms: int | None, to_ms: int | None) -> PendingList:
    """Pending records with this key. Raises Rejected if the leader does not respond."""
    found = selectors.look_up(topic, key=key, partition=partition, from_ms=from_ms, to_ms=to_ms, limit=COUNTED_MAX)
    if found is None or found.missing:
        problem = found.missing[0].problem if found is not None else "the front topic was deleted."
        raise Rejected(
            sentence(
                "The delayed messages of {topic}-{partition} are unknown now: {problem}",
                topic=topic,
                partition=partition,
                problem=problem,
            )
        )
    return found


def _read_back(cancellable: _Cancellable) -> CancelState:
    """The state of the record at its leader, after the tombstone was acknowledged."""
    preview, until = cancellable.preview, time.monotonic() + CONFIRM_SECONDS
    while True:
        try:
            at = preview.deliver_at_ms
            rows = _pending(preview.topic, preview.partition, cancellable.key, at, at + 1).rows
        except Rejected:
            rows = None
        if rows is not None:
            own = next((r for r in rows if r.offset == preview.offset), None)
            if own is None:
                return CancelState.DUE
            if own.cancelled:
                return CancelState.CANCELLED
        if time.monotonic() >= until:
            return CancelState.UNKNOWN
        time.sleep(POLL_SECONDS)
