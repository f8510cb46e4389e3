"""The delivery time of a delayed record, from its headers. Pure.

`x-deliver-at-ms` is a time in Unix milliseconds, `x-delay-ms` a delay that counts from the append time. Both are decimal digits. A record
without such a header, with a key and without a value is a tombstone: it cancels the waiting records with its key. Does not contain: the log.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from enum import Enum

from brokerd.delivery.delay_schedule import DELAY_MS_MAX
from brokerd.wire.records import Record

DELIVER_AT, DELAY = "x-deliver-at-ms", "x-delay-ms"
DIGITS_MAX = 18
KEY_DIGEST_BYTES = 16
ERRORS_MAX = 10
"""Maximum number of record errors that are reported for one batch."""


class DelayProblem(Enum):
    """The reason why a record is not accepted. The value is the error message for the producer."""

    NO_TIME = f"a delayed record needs a header {DELIVER_AT} or {DELAY}"
    TWO_TIMES = f"a delayed record must have exactly one header {DELIVER_AT} or {DELAY}"
    NO_NUMBER = f"the value of {DELIVER_AT} or {DELAY} must be a number of milliseconds in decimal digits"
    TOO_FAR = f"the delivery time is more than {DELAY_MS_MAX} ms ahead"
    NO_KEY = "the topic is compacted, so a delayed record needs a key"


def delivery_time(record: Record, appended_ms: int) -> int | DelayProblem | None:
    """Unix milliseconds. None: the record is a tombstone, which cancels."""
    times = [(name, value) for name, value in record.headers if name in (DELIVER_AT, DELAY)]
    if not times:
        return None if record.key is not None and record.value is None else DelayProblem.NO_TIME
    if len(times) > 1:
        return DelayProblem.TWO_TIMES
    name, value = times[0]
    # `isdigit` of bytes is true for ASCII digits only.
    if value is None or not value.isdigit() or len(value) > DIGITS_MAX:
        return DelayProblem.NO_NUMBER
    at = int(value) + (appended_ms if name == DELAY else 0)
    return DelayProblem.TOO_FAR if at - appended_ms > DELAY_MS_MAX else at


def problems(records: Iterable[Record], appended_ms: int, *, keyed: bool) -> list[tuple[int, DelayProblem]]:
    """The first ERRORS_MAX invalid records of a batch: (index in the batch, problem). `keyed`: each record needs a key."""
    found: list[tuple[int, DelayProblem]] = []
    for i, record in enumerate(records):
        at = delivery_time(record, appended_ms)
        if isinstance(at, DelayProblem):
            found.append((i, at))
        elif keyed and record.key is None:
            found.append((i, DelayProblem.NO_KEY))
        if len(found) >= ERRORS_MAX:
            break
    return found


def key_digest(key: bytes | None) -> bytes:
    return b"" if key is None else hashlib.blake2b(key, digest_size=KEY_DIGEST_BYTES).digest()


def build_delivered_record(record: Record, position: int) -> Record:
    """The record as it is written to the topic. Its timestamp is the delivery time, because retention starts at the timestamp. `position` is the position in
    the batch."""
    at = delivery_time(record, record.timestamp)
    return record._replace(offset=position, timestamp=at if isinstance(at, int) else record.timestamp)
