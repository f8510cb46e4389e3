"""Validates the records of a producer's batch: lengths, offset deltas, timestamps and keys, as Kafka's LogValidator.

A valid batch is readable by every consumer, its offsets are consecutive and its maximum timestamp is correct. Only batches of clients are
validated; followers fetch batches that their leader has validated. Pure: no clock, no I/O. Does not contain topic names or the log.
"""

from __future__ import annotations

from typing import NamedTuple

from brokerd.cluster.configs import TopicConfig
from brokerd.wire import records
from brokerd.wire.errors import ErrorCode
from brokerd.wire.record_columns import COPIED_BYTES_MAX
from brokerd.wire.record_walk import LONG_MAX, LONG_MIN, RECORD_ERRORS_MAX
from brokerd.wire.record_walks import COMPILED, INVALID, RUNS, Progress, walk
from brokerd.wire.records import TIMESTAMP_TYPE, BatchHeader, Buffer, UnpackBudget
from brokerd.wire.steps import RECORDS_PER_STEP, Steps


class Rules(NamedTuple):
    """Requirements of a topic. Timestamps between `timestamp_min` and `timestamp_max` are valid; with LogAppendTime all timestamps are valid."""

    keyed: bool = False
    timestamp_min: int = LONG_MIN
    timestamp_max: int = LONG_MAX


ANY, ANY_KEYED = Rules(), Rules(keyed=True)


def rules_of(config: TopicConfig, wall_ms: int) -> Rules:
    """The requirements of a topic with this configuration now."""
    if not config.bounds_timestamps:
        return ANY_KEYED if config.compacts else ANY
    before, after = config.timestamp_before_max_ms, config.timestamp_after_max_ms
    return Rules(
        config.compacts,
        LONG_MIN if before == LONG_MAX else max(LONG_MIN, wall_ms - before),
        min(LONG_MAX, wall_ms + after),
    )


class RecordError(NamedTuple):
    """A rejected record of a batch and the reason (KIP-467)."""

    batch_index: int
    message: str


class Rejection(NamedTuple):
    """The reason why a batch is rejected."""

    error: ErrorCode
    message: str
    record_errors: tuple[RecordError, ...] = ()


NO_KEY = "the record has no key; a topic with cleanup.policy=compact needs one"
OUT_OF_RANGE = (
    "the timestamp is too old (message.timestamp.before.max.ms) or too far ahead (message.timestamp.after.max.ms)"
)


STAMPED = Rejection(
    ErrorCode.INVALID_TIMESTAMP, "the batch has timestamp type LogAppendTime, which only brokers set; use CreateTime"
)


def validate_batch(
    buf: Buffer, pos: int, header: BatchHeader, rules: Rules, budget: UnpackBudget
) -> Steps[Rejection | int]:
    """Validate every record of the batch at `pos`, whose header and CRC are valid. Returns the maximum timestamp or a Rejection."""
    if header.attributes & TIMESTAMP_TYPE:
        return STAMPED
    try:
        if header.compression:  # an uncompressed batch is not larger than the request
            budget.begin_batch(header)
        inside = yield from records.decompress_records(buf, pos, header, budget)
    except records.TooMuch as e:
        return Rejection(ErrorCode.MESSAGE_TOO_LARGE, str(e))
    except records.CorruptBatch as e:
        # The CRC is valid, so a retry would send the same data: the error is not retriable.
        return Rejection(ErrorCode.INVALID_RECORD, str(e))
    copied = not COMPILED and len(inside) <= COPIED_BYTES_MAX
    walk = Walk(bytes(inside) if copied else inside, header, rules)
    while walk.step(RECORDS_PER_STEP):
        yield None
    return walk.result()


class Walk:
    """Validates the records of one batch in steps, so that other work can run in between."""

    __slots__ = ("_base", "_count", "_data", "_progress", "_rejected", "_rules")

    def __init__(self, data: Buffer, header: BatchHeader, rules: Rules) -> None:
        self._data, self._count, self._base, self._rules = data, header.record_count, header.base_timestamp, rules
        self._progress = Progress()
        self._rejected: Rejection | None = None

    @property
    def problem(self) -> str | None:
        """The reason why the records are malformed, or None."""
        return None if self._rejected is None else self._rejected.message

    def verdict(self) -> Rejection | int:
        """Validate all records. Returns the maximum timestamp or a Rejection."""
        while self.step(self._count):
            pass
        return self.result()

    def step(self, count: int) -> bool:
        """Validate `count` more records. False if no records are left."""
        data, progress = self._data, self._progress
        if self._rejected is not None or progress.i >= self._count:
            return False
        upto = min(self._count, progress.i + count)
        try:
            walk(data, upto, self._base, *self._rules, progress, RUNS)
        except INVALID as e:
            self._rejected = Rejection(ErrorCode.INVALID_RECORD, str(e))
        else:
            if progress.i >= self._count and progress.p != len(data):
                self._rejected = _left_over(len(data) - progress.p, self._count)
        return self._rejected is None and progress.i < self._count

    def result(self) -> Rejection | int:
        if self._rejected is not None:
            return self._rejected
        if self._progress.unkeyed is not None or self._progress.untimely is not None:
            return _rejection_of(self._progress, self._count)
        newest: int = self._progress.newest
        return newest


def _left_over(size: int, count: int) -> Rejection:
    return Rejection(
        ErrorCode.INVALID_RECORD, f"{size} bytes follow the last record; the batch header has record count {count}"
    )


def _rejection_of(progress: Progress, count: int) -> Rejection:
    """The Rejection for records that violate the rules of the topic."""
    unkeyed, untimely = progress.unkeyed or (), progress.untimely or ()
    named = [RecordError(i, NO_KEY) for i in unkeyed] + [RecordError(i, OUT_OF_RANGE) for i in untimely]
    # As in Kafka: one record with an invalid timestamp determines the error code of the batch.
    error = ErrorCode.INVALID_TIMESTAMP if untimely else ErrorCode.INVALID_RECORD
    reason = OUT_OF_RANGE if untimely else NO_KEY
    return Rejection(
        error, f"{len(named)} of {count} records were rejected: {reason}", tuple(sorted(named)[:RECORD_ERRORS_MAX])
    )
