"""Offset reset of a consumer group: the offset of each partition before and after the reset, and later changes. Pure.

Invariants: an offset that a reset computes is within [log start offset, log end offset]. Only an undo is not limited: it restores exactly what was
committed. A partition with a problem is not changed. Does not contain: the request and its result as values (`offset_reset_types`), requests to brokers
(`clients.group_offsets`), rows (`services.offset_resets`), input in text form (`offset_input`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from controlplane.domain.errors import Rejected
from controlplane.domain.log_ends import RecordAge
from controlplane.domain.offset_reset_types import (
    OFFSET_MAX,
    RESET_PARTITIONS_MAX,
    CommittedOffset,
    Key,
    LimitedBy,
    LogRange,
    OffsetDifference,
    PartitionReset,
    ReportedDifference,
    ResetSpec,
    ResetTarget,
    ResetTotals,
    RowProblem,
)
from weir_common.phrases import sentence


@dataclass(frozen=True, slots=True)
class OffsetsRead:
    """The state of the cluster that a reset needs. `leaders`: the leader of each partition that exists, -1 = none. `logs`: partitions whose leader
    responded. `unstable`: an open transaction has written an offset. `at_time`: partitions with a record at or after the time. `source`: offsets of
    the source group. `saved`: offsets before the undone reset, None = none."""

    committed: Mapping[Key, CommittedOffset]
    leaders: Mapping[Key, int]
    logs: Mapping[Key, LogRange]
    unstable: Collection[Key] = ()
    at_time: Mapping[Key, int] = field(default_factory=dict)
    source: Mapping[Key, CommittedOffset] = field(default_factory=dict)
    saved: Mapping[Key, CommittedOffset | None] = field(default_factory=dict)


def check(spec: ResetSpec) -> None:
    """Raises Rejected with the field of a missing or invalid value."""
    if spec.target is ResetTarget.TIME and (spec.time_ms is None or spec.time_ms < 0):
        raise Rejected("A reset to a time needs a time.", "time_ms")
    if spec.target is ResetTarget.OFFSET and (spec.offset is None or not 0 <= spec.offset <= OFFSET_MAX):
        raise Rejected("A reset to an offset needs an offset of 0 or more.", "offset")
    if spec.target is ResetTarget.SHIFT and (not spec.shift or abs(spec.shift) > OFFSET_MAX):
        raise Rejected("A shift needs a number of records other than 0; a negative number shifts back.", "shift")
    if spec.target is ResetTarget.GROUP and not spec.source_group:
        raise Rejected("Name the group whose offsets are copied.", "source_group")
    if spec.target is ResetTarget.FILE:
        if not spec.offsets:
            raise Rejected("The list of offsets is empty.", "offsets")
        if any(not 0 <= o <= OFFSET_MAX for o in spec.offsets.values()):
            raise Rejected("An offset is 0 or more.", "offsets")
    if spec.target is ResetTarget.DELETE and not (spec.topics or spec.partitions):
        raise Rejected("Name the topics whose offsets are deleted.", "topics")
    if spec.target is ResetTarget.UNDO and spec.undone is None:
        raise Rejected("Name the reset that is undone.", "undone")
    if any(index < 0 for _, index in spec.partitions):
        raise Rejected("A partition is 0 or more.", "partitions")


def select_partitions(
    spec: ResetSpec,
    committed: Iterable[Key],
    leaders: Iterable[Key],
    named: Iterable[Key] = (),
) -> list[Key]:
    """The partitions of a reset, in order. `leaders`: existing partitions of the requested topics. `named`: partitions of the source group or the
    undone reset. Raises Rejected above RESET_PARTITIONS_MAX, and without any partition."""
    match spec.target:
        case ResetTarget.FILE:
            given = set(spec.offsets)
        case ResetTarget.GROUP | ResetTarget.UNDO:
            given = set(named)
        case _:
            given = set(committed)
    chosen = given
    if spec.topics or spec.partitions:
        topics, single = set(spec.topics), set(spec.partitions)
        chosen = {k for k in (*leaders, *given) if k[0] in topics} | single
        if spec.target in (ResetTarget.FILE, ResetTarget.UNDO):
            chosen &= given
        elif spec.target in (ResetTarget.GROUP, ResetTarget.DELETE):
            chosen = (chosen & given) | single
    if not chosen:
        raise Rejected("No partition matches: the group has no committed offsets there, or the topics do not exist.")
    if len(chosen) > RESET_PARTITIONS_MAX:
        raise Rejected(
            sentence(
                "{count} partitions; one reset has at most {max}. Name fewer topics.",
                count=f"{len(chosen):,}",
                max=f"{RESET_PARTITIONS_MAX:,}",
            )
        )
    return sorted(chosen)


def plan(
    spec: ResetSpec, keys: Iterable[Key], offsets_read: OffsetsRead, age: Callable[[Key, int], RecordAge | None]
) -> list[PartitionReset]:
    """Return the offset of each partition before and after the reset. `age(key, offset)`: age of the record at this offset, None = unknown."""
    return [_row(spec, key, offsets_read, age) for key in keys]


def _row(
    spec: ResetSpec, key: Key, offsets_read: OffsetsRead, age: Callable[[Key, int], RecordAge | None]
) -> PartitionReset:
    topic, index = key
    now, log = offsets_read.committed.get(key), offsets_read.logs.get(key)
    start, end = (log.start, log.end) if log is not None else (None, None)
    lost = max(0, log.start - now.offset) if log is not None and now is not None else 0
    problem = _problem(spec, key, offsets_read)
    if problem is not None:
        return PartitionReset(topic, index, now, now, start, end, problem=problem, lost=lost)
    if spec.target is ResetTarget.DELETE:
        return PartitionReset(topic, index, now, None, start, end, lost=lost)
    limited = LimitedBy.NO
    if spec.target is ResetTarget.UNDO:
        after = offsets_read.saved[key]
    else:
        assert log is not None
        requested = _requested_offset(spec, key, offsets_read, log)
        bounded = min(max(requested, log.start), log.end)
        if bounded != requested:
            limited = LimitedBy.LOG_START if bounded > requested else LimitedBy.LOG_END
        # An equal offset keeps its leader epoch and metadata: nothing is committed.
        after = now if now is not None and now.offset == bounded else CommittedOffset(bounded)
    replayed, skipped = _records(now, after, log)
    span, at_least = _span(key, now, after, age)
    return PartitionReset(topic, index, now, after, start, end, limited, None, replayed, skipped, lost, span, at_least)


def _problem(spec: ResetSpec, key: Key, offsets_read: OffsetsRead) -> RowProblem | None:
    if key in offsets_read.unstable:
        return RowProblem.OPEN_TRANSACTION
    if spec.target is ResetTarget.DELETE:
        return None if key in offsets_read.committed else RowProblem.NO_COMMITTED_OFFSET
    if key not in offsets_read.leaders:
        return RowProblem.NO_PARTITION
    if spec.target is ResetTarget.UNDO:
        return None
    if key not in offsets_read.logs:
        return RowProblem.NO_LEADER
    if spec.target is ResetTarget.SHIFT and key not in offsets_read.committed:
        return RowProblem.NO_COMMITTED_OFFSET
    if spec.target is ResetTarget.GROUP and key not in offsets_read.source:
        return RowProblem.NO_SOURCE_OFFSET
    return None


def _requested_offset(spec: ResetSpec, key: Key, offsets_read: OffsetsRead, log: LogRange) -> int:
    """The requested offset, without the limits of the log."""
    match spec.target:
        case ResetTarget.EARLIEST:
            return log.start
        case ResetTarget.TIME:
            return offsets_read.at_time.get(key, log.end)
        case ResetTarget.OFFSET:
            assert spec.offset is not None
            return spec.offset
        case ResetTarget.SHIFT:
            return offsets_read.committed[key].offset + (spec.shift or 0)
        case ResetTarget.GROUP:
            return offsets_read.source[key].offset
        case ResetTarget.FILE:
            return spec.offsets[key]
        case _:
            return log.end


def _records(
    now: CommittedOffset | None, after: CommittedOffset | None, log: LogRange | None
) -> tuple[int | None, int | None]:
    """(replayed, skipped). Records below the log start offset are deleted, so they are neither replayed nor skipped."""
    if now is None or after is None:
        return None, None
    first, last = now.offset, after.offset
    if log is not None:
        first, last = (min(max(o, log.start), log.end) for o in (first, last))
    return max(0, first - last), max(0, last - first)


def _span(
    key: Key, now: CommittedOffset | None, after: CommittedOffset | None, age: Callable[[Key, int], RecordAge | None]
) -> tuple[int | None, bool]:
    if now is None or after is None:
        return None, False
    if now.offset == after.offset:
        return 0, False
    older, newer = age(key, min(now.offset, after.offset)), age(key, max(now.offset, after.offset))
    if older is None or newer is None or newer.at_least:
        return None, False
    return max(0, older.ms - newer.ms), older.at_least


def with_spans_of(undone: Iterable[PartitionReset], rows: Iterable[PartitionReset]) -> list[PartitionReset]:
    """The rows of an undo, with the times of the undone reset between the same two offsets. Computed again, they would differ: the log end was the time of
    that preview, and the age of a record is a difference to now."""
    known = {r.key: r for r in undone if r.span_ms is not None}
    return [
        replace(row, span_ms=known[row.key].span_ms, span_at_least=known[row.key].span_at_least)
        if row.key in known and _offsets(row) == _offsets(known[row.key])[::-1]
        else row
        for row in rows
    ]


def _offsets(row: PartitionReset) -> tuple[int | None, int | None]:
    return (None if row.now is None else row.now.offset), (None if row.after is None else row.after.offset)


def totals(rows: Collection[PartitionReset]) -> ResetTotals:
    return ResetTotals(
        partitions=len(rows),
        changes=sum(r.changes for r in rows),
        problems=sum(r.problem is not None for r in rows),
        replayed=sum(r.replayed or 0 for r in rows),
        skipped=sum(r.skipped or 0 for r in rows),
        overtaken=sum(r.overtaken for r in rows),
        limited=sum(r.limited is not LimitedBy.NO for r in rows),
    )


def differences(rows: Iterable[PartitionReset], committed: Mapping[Key, CommittedOffset]) -> list[OffsetDifference]:
    """Committed offsets that differ from the preview, for partitions that the reset changes."""
    return [
        OffsetDifference(r.topic, r.partition, r.now, committed.get(r.key))
        for r in rows
        if r.changes and committed.get(r.key) != r.now
    ]


def report_differences(rows: Iterable[OffsetDifference]) -> tuple[ReportedDifference, ...]:
    return tuple(
        ReportedDifference(
            d.topic,
            d.partition,
            None if d.expected is None else d.expected.offset,
            None if d.found is None else d.found.offset,
        )
        for d in rows
    )


def not_applied(rows: Iterable[PartitionReset], committed: Mapping[Key, CommittedOffset]) -> list[OffsetDifference]:
    """Committed offsets that differ from the offsets that the reset wrote."""
    return [
        OffsetDifference(r.topic, r.partition, r.after, committed.get(r.key))
        for r in rows
        if r.changes and committed.get(r.key) != r.after
    ]


def rows_outside_log(rows: Iterable[PartitionReset], logs: Mapping[Key, LogRange]) -> list[PartitionReset]:
    """Partitions whose new offset is no longer in the log: retention deleted its records since the preview, or the log was truncated."""
    return [
        r
        for r in rows
        if r.changes
        and r.after is not None
        and (log := logs.get(r.key)) is not None
        and not log.start <= r.after.offset <= log.end
    ]
