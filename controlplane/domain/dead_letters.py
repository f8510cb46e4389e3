"""Dead letters: the cause in their headers, the filters of a list, and the record that is sent again. Pure.

The headers are the convention of docs/how-to/retry-and-dead-letters.md. Invariant: a record that is sent again starts with its first attempt. Does not
contain: reading, sending (`services.dead_letters`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from brokerd.delivery.delayed_records import DELAY, DELIVER_AT
from brokerd.wire.records import Record
from controlplane.domain.produce import Header, NewRecord
from controlplane.domain.record_filter import Matcher, RecordFilters

COUNT, GROUP, SOURCE, ERROR = "x-retry-count", "x-retry-group", "x-retry-source", "x-retry-error"
RESENT = "x-retry-resent"
"""Of a record that was sent again: the place of the dead letter, `topic-partition@offset`."""
DIGITS_MAX = 9
"""Digits of a count. A longer one is no count of attempts."""


class ResendTarget(StrEnum):
    """`topic`: all groups receive the record. `retry`: only the group in its header does."""

    TOPIC = "topic"
    RETRY = "retry"


@dataclass(frozen=True, slots=True)
class DeadLetterCause:
    """None: the header is missing or has another form. `source`: the first place of the record, `topic-partition@offset`."""

    group: str | None = None
    source: str | None = None
    attempts: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class DeadLetterFilters(RecordFilters):
    """`group`: the group whose attempts failed. `error_contains`: part of the error. `source_begins`: the beginning of the first place."""

    group: str = ""
    error_contains: str = ""
    source_begins: str = ""

    def matcher(self) -> Matcher | None:
        tests: list[Matcher] = []
        if (first := RecordFilters.matcher(self)) is not None:
            tests.append(first)
        if self.group:
            group = (GROUP, self.group.encode())
            tests.append(lambda record: group in record.headers)
        if self.error_contains:
            error = self.error_contains.encode()
            tests.append(lambda record: error in _value(record, ERROR))
        if self.source_begins:
            source = self.source_begins.encode()
            tests.append(lambda record: _value(record, SOURCE).startswith(source))
        return (lambda record: all(test(record) for test in tests)) if tests else None


def _value(record: Record, name: str) -> bytes:
    return next((value or b"" for n, value in record.headers if n == name), b"")


def cause_of(headers: Mapping[str, str | None]) -> DeadLetterCause:
    """`headers`: as text."""
    count = headers.get(COUNT) or ""
    digits = count.isascii() and count.isdigit() and len(count) <= DIGITS_MAX
    return DeadLetterCause(headers.get(GROUP), headers.get(SOURCE), int(count) if digits else None, headers.get(ERROR))


def place_text(topic: str, partition: int, offset: int) -> str:
    return f"{topic}-{partition}@{offset}"


def resent(letter: NewRecord, target: ResendTarget, place: str, partition: int | None) -> NewRecord:
    """The record that is sent again for the dead letter at `place`, into this partition of the target. Its timestamp is the time of the sending."""
    dropped = {COUNT, ERROR, DELAY, DELIVER_AT, RESENT}
    if target is ResendTarget.TOPIC:
        dropped.add(GROUP)  # other groups would skip the record
    kept: list[Header] = [(name, value) for name, value in letter.headers if name not in dropped]
    return replace(letter, headers=(*kept, (RESENT, place.encode())), partition=partition, timestamp_ms=None)


def has_group(letter: NewRecord) -> bool:
    """Whether a consumer of the retry topic recognizes the record as its own."""
    return any(name == GROUP and value for name, value in letter.headers)


def editable_headers(headers: Sequence[Header]) -> tuple[str, list[Header]]:
    """(lines `name: value` of the headers that are text, the others, which an edit keeps)."""
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
