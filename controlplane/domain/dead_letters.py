"""Dead letters: the cause in their headers, the filters of a list, and the record that is sent again. Pure.

The headers of consumers are the convention of docs/how-to/retry-and-dead-letters.md; those of share groups are Kafka's (KIP-1191). Invariants: a record
that is sent again starts with its first attempt, and has no header of a dead letter of a share group. Does not contain: reading, sending
(`services.dead_letters`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from brokerd.delivery.delayed_records import DELAY, DELIVER_AT
from brokerd.sharing import dead_letters as share
from brokerd.wire.records import Record
from controlplane.domain.produce import Header, NewRecord
from controlplane.domain.record_filter import Matcher, RecordFilters

COUNT, GROUP, SOURCE, ERROR = "x-retry-count", "x-retry-group", "x-retry-source", "x-retry-error"
RESENT = "x-retry-resent"
"""Header of a record that was sent again: the place of the dead letter, `topic-partition@offset`."""
DIGITS_MAX = 9
"""Maximum number of digits of a count. A longer number is not a count of attempts."""
OFFSET_DIGITS_MAX = 18
"""Maximum number of digits of an offset (below 2**63)."""
SHARE_HEADERS = frozenset((share.TOPIC, share.PARTITION, share.OFFSET, share.GROUP, share.DELIVERIES, share.MESSAGE))


class DeadLetterKind(StrEnum):
    """Writer of the dead letters of a topic: consumers by the convention of headers (`retry`), or brokers for share groups (`share_group`)."""

    RETRY = "retry"
    SHARE_GROUP = "share_group"


class ResendTarget(StrEnum):
    """`topic`: all groups receive the record. `retry`: only the group that failed processes it. That is the group in its header, or the share group that
    the dead letter names."""

    TOPIC = "topic"
    RETRY = "retry"


@dataclass(frozen=True, slots=True)
class DeadLetterCause:
    """The cause of a dead letter. A field is None if its header is missing or has another form. `source` is the original position of the record,
    `topic-partition@offset`. `attempts` is the number of attempts, or of deliveries in a share group."""

    group: str | None = None
    source: str | None = None
    attempts: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class DeadLetterFilters(RecordFilters):
    """`group` is the group whose attempts failed. `error_contains` is a part of the error. `source_begins` is a prefix of the original position."""

    group: str = ""
    error_contains: str = ""
    source_begins: str = ""

    def matcher(self) -> Matcher | None:
        tests: list[Matcher] = []
        if (first := RecordFilters.matcher(self)) is not None:
            tests.append(first)
        if self.group:
            name = self.group.encode()
            tests.append(lambda record: (GROUP, name) in record.headers or (share.GROUP, name) in record.headers)
        if self.error_contains:
            error = self.error_contains.encode()
            tests.append(lambda record: error in _value(record, ERROR) or error in _value(record, share.MESSAGE))
        if self.source_begins:
            source = self.source_begins.encode()
            tests.append(lambda record: _source(record).startswith(source))
        return (lambda record: all(test(record) for test in tests)) if tests else None


def _value(record: Record, name: str) -> bytes:
    return next((value or b"" for n, value in record.headers if n == name), b"")


def _source(record: Record) -> bytes:
    if topic := _value(record, share.TOPIC):
        return b"%b-%b@%b" % (topic, _value(record, share.PARTITION), _value(record, share.OFFSET))
    return _value(record, SOURCE)


def cause_of(headers: Mapping[str, str | None], kind: DeadLetterKind = DeadLetterKind.RETRY) -> DeadLetterCause:
    """Return the cause of a dead letter. `headers`: by name, as text; None: the value is null."""
    if kind is DeadLetterKind.SHARE_GROUP:
        failed = failed_record([(name, None if value is None else value.encode()) for name, value in headers.items()])
        source = None if failed is None else place_text(failed.topic, failed.partition, failed.offset)
        attempts = _number(headers.get(share.DELIVERIES), DIGITS_MAX)
        return DeadLetterCause(headers.get(share.GROUP), source, attempts, headers.get(share.MESSAGE))
    attempts = _number(headers.get(COUNT), DIGITS_MAX)
    return DeadLetterCause(headers.get(GROUP), headers.get(SOURCE), attempts, headers.get(ERROR))


def _number(text: str | None, digits_max: int) -> int | None:
    text = text or ""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= digits_max else None


@dataclass(frozen=True, slots=True)
class FailedRecord:
    """The record that a dead letter of a share group names."""

    topic: str
    partition: int
    offset: int


def failed_record(headers: Sequence[Header]) -> FailedRecord | None:
    """Return None if a header is missing or has another form. A producer with an ACL on the topic can write any headers."""
    texts = {name: _text(value) for name, value in headers if name in SHARE_HEADERS}
    topic, partition = texts.get(share.TOPIC), _number(texts.get(share.PARTITION), DIGITS_MAX)
    offset = _number(texts.get(share.OFFSET), OFFSET_DIGITS_MAX)
    return None if not topic or partition is None or offset is None else FailedRecord(topic, partition, offset)


def restore_failed_record(letter: NewRecord, original: NewRecord | None) -> NewRecord | None:
    """The failed record for a dead letter of a share group. `original`: what is at its place now; None: nothing. The original is preferred, because a dead
    letter with a copy of key and value lacks the record's headers. It is not used if it is another record (the topic was created again). None: neither
    exists."""
    copied = letter.key is not None or letter.value is not None
    if original is not None and (not copied or (original.key, original.value) == (letter.key, letter.value)):
        return original
    return replace(letter, headers=()) if copied else None


def retry_headers(letter: Sequence[Header]) -> tuple[Header, ...]:
    """The headers that the failed record of a dead letter of a share group needs in the retry topic, where only this group processes it. `letter`: the
    headers of the dead letter. Empty: it names no group, or no record."""
    failed = failed_record(letter)
    group = next((value for name, value in letter if name == share.GROUP), None)
    if failed is None or not group:
        return ()
    return ((GROUP, group), (SOURCE, place_text(failed.topic, failed.partition, failed.offset).encode()))


def with_headers(record: NewRecord, needed: Sequence[Header]) -> NewRecord:
    """The record for the retry topic. If it already has an original position, because it was retried before, the position is kept. The group is replaced."""
    present = {name for name, _ in record.headers}
    added = tuple((name, value) for name, value in needed if name == GROUP or name not in present)
    replaced = {GROUP} if added else set()
    return replace(record, headers=(*(h for h in record.headers if h[0] not in replaced), *added))


def place_text(topic: str, partition: int, offset: int) -> str:
    return f"{topic}-{partition}@{offset}"


def build_resent_record(letter: NewRecord, target: ResendTarget, place: str, partition: int | None) -> NewRecord:
    """The record that is sent again for the dead letter at `place`, into this partition of the target. Its timestamp is the time of the sending."""
    dropped = {COUNT, ERROR, DELAY, DELIVER_AT, RESENT, *SHARE_HEADERS}
    if target is ResendTarget.TOPIC:
        dropped.add(GROUP)  # other groups would skip the record
    kept: list[Header] = [(name, value) for name, value in letter.headers if name not in dropped]
    return replace(letter, headers=(*kept, (RESENT, place.encode())), partition=partition, timestamp_ms=None)


def has_group(letter: NewRecord) -> bool:
    """Return whether a consumer of the retry topic recognizes the record as its own."""
    return any(name == GROUP and value for name, value in letter.headers)


def editable_headers(headers: Sequence[Header]) -> tuple[str, list[Header]]:
    """(headers that are text, as lines `name: value`; the other headers, which an edit keeps unchanged)."""
    lines: list[str] = []
    kept: list[Header] = []
    for name, value in headers:
        text = _text(value)
        if (
            (value is not None and (text is None or "\n" in text or text != text.strip()))
            or ":" in name
            or not name.strip()
        ):
            kept.append((name, value))
        else:
            lines.append(name if text is None else f"{name}: {text}")
    return "\n".join(lines), kept


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None
