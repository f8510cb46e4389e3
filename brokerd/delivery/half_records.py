"""Half messages and decisions as records: headers, validation, and the records that the broker writes. Pure.

`x-half-id` names a message. A record with this header alone is a half message. With `x-half: commit` or `x-half: rollback` it is the decision about
the message with the id. Does not contain: which decision is the first (`half_messages`), the log.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from brokerd.delivery.half_messages import HalfDecision, HalfRejection
from brokerd.wire.records import Record

HALF_ID, DECISION, CHECK = "x-half-id", "x-half", "x-half-check"
ID_BYTES_MAX = 200
"""Maximum length of an id. Ids are in memory while their messages are undecided."""
ERRORS_MAX = 10
"""Maximum number of record errors of one batch that are reported."""


class HalfProblem(Enum):
    """The reason why a record is not accepted. The value is the error message for the producer."""

    NO_ID = f"a record of a half topic needs exactly one header {HALF_ID} of 1 to {ID_BYTES_MAX} bytes"
    NO_DECISION = f"a decision needs exactly one header {DECISION}, with the value commit or rollback"
    NO_KEY = "the topic is compacted, so a half message needs a key"


REJECTIONS = {
    HalfRejection.ID_IN_USE: f"this {HALF_ID} is already in use by another half message",
    HalfRejection.UNKNOWN_ID: (
        f"no half message with this {HALF_ID} is in this partition; write a decision with the key of its message, "
        "or to its partition"
    ),
    HalfRejection.ALREADY_COMMITTED: "the half message is already committed; the first decision counts",
    HalfRejection.ALREADY_ROLLED_BACK: "the half message is already rolled back; the first decision counts",
    HalfRejection.ALREADY_EXPIRED: "the half message has expired without a decision",
    HalfRejection.TOO_MANY: "the partition has too many undecided half messages; decide some of them first",
    HalfRejection.NOT_STABLE: (
        "an earlier record with this id is not replicated yet, or its transaction is ongoing; try again"
    ),
}
"""The error messages for producers."""
_DECISIONS = {b"commit": HalfDecision.COMMIT, b"rollback": HalfDecision.ROLLBACK}


@dataclass(frozen=True, slots=True)
class HalfRecord:
    """`decision` None: a half message."""

    half_id: bytes
    decision: HalfDecision | None


def half_record(record: Record, *, keyed: bool = False) -> HalfRecord | HalfProblem:
    """`keyed`: each half message needs a key."""
    ids = [value for name, value in record.headers if name == HALF_ID]
    if len(ids) != 1 or not ids[0] or len(ids[0]) > ID_BYTES_MAX:
        return HalfProblem.NO_ID
    decisions = [value for name, value in record.headers if name == DECISION]
    if not decisions:
        return HalfProblem.NO_KEY if keyed and record.key is None else HalfRecord(ids[0], None)
    decision = _DECISIONS.get(decisions[0] or b"")
    return HalfProblem.NO_DECISION if decision is None or len(decisions) > 1 else HalfRecord(ids[0], decision)


def build_delivered_record(record: Record, position: int, now_ms: int) -> Record:
    """The record as it is written to a target. Its timestamp is the time of the delivery, because retention of the target starts at the timestamp."""
    return record._replace(offset=position, timestamp=now_ms)


def build_check_record(record: Record, position: int, number: int, now_ms: int) -> Record:
    """The check that is sent to the producers of a half message: a copy of the message with the number of the check."""
    headers = tuple((name, value) for name, value in record.headers if name != CHECK)
    return record._replace(offset=position, timestamp=now_ms, headers=(*headers, (CHECK, b"%d" % number)))
