"""The result of an offset reset: selected partitions, offsets, limits of the log, values, differences."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.domain import offset_reset as core
from controlplane.domain.errors import Rejected
from controlplane.domain.log_ends import RecordAge
from controlplane.domain.offset_reset import OffsetsRead
from controlplane.domain.offset_reset_json import rows_from_json, rows_to_json
from controlplane.domain.offset_reset_types import (
    OFFSET_MAX,
    RESET_PARTITIONS_MAX,
    CommittedOffset,
    Key,
    LimitedBy,
    LogRange,
    PartitionReset,
    ResetSpec,
    ResetTarget,
    RowProblem,
)

A: Key = ("a", 0)
B: Key = ("a", 1)
C: Key = ("b", 0)


def unknown_age(key: Key, offset: int) -> RecordAge | None:
    return None


def partition_reset(
    spec: ResetSpec,
    now: int | None = 50,
    log: tuple[int, int] | None = (10, 100),
    age: Callable[[Key, int], RecordAge | None] = unknown_age,
    **more: Any,
) -> PartitionReset:
    """The reset of partition A."""
    read = OffsetsRead(
        committed={} if now is None else {A: CommittedOffset(now, 3, "m")},
        leaders={A: 1},
        logs={} if log is None else {A: LogRange(*log)},
        **more,
    )
    (row,) = core.plan(spec, [A], read, age)
    return row


@pytest.mark.parametrize(
    ("spec", "more", "after", "limited"),
    [
        (ResetSpec(ResetTarget.EARLIEST), {}, 10, LimitedBy.NO),
        (ResetSpec(ResetTarget.LATEST), {}, 100, LimitedBy.NO),
        (ResetSpec(ResetTarget.OFFSET, offset=60), {}, 60, LimitedBy.NO),
        (ResetSpec(ResetTarget.OFFSET, offset=9), {}, 10, LimitedBy.LOG_START),
        (ResetSpec(ResetTarget.OFFSET, offset=101), {}, 100, LimitedBy.LOG_END),
        (ResetSpec(ResetTarget.SHIFT, shift=-5), {}, 45, LimitedBy.NO),
        (ResetSpec(ResetTarget.SHIFT, shift=-500), {}, 10, LimitedBy.LOG_START),
        (ResetSpec(ResetTarget.TIME, time_ms=7), {"at_time": {A: 33}}, 33, LimitedBy.NO),
        (ResetSpec(ResetTarget.TIME, time_ms=7), {}, 100, LimitedBy.NO),  # no record at or after the time
        (
            ResetSpec(ResetTarget.GROUP, source_group="g"),
            {"source": {A: CommittedOffset(70, 9, "x")}},
            70,
            LimitedBy.NO,
        ),
        (ResetSpec(ResetTarget.FILE, offsets={A: 5}), {}, 10, LimitedBy.LOG_START),
    ],
)
def test_the_new_offset(spec: ResetSpec, more: dict[str, Any], after: int, limited: LimitedBy) -> None:
    row = partition_reset(spec, **more)
    assert (row.after, row.limited, row.problem) == (CommittedOffset(after), limited, None)


def test_an_equal_offset_keeps_epoch_and_metadata_and_changes_nothing() -> None:
    row = partition_reset(ResetSpec(ResetTarget.OFFSET, offset=50))
    assert row.after == CommittedOffset(50, 3, "m") and not row.changes


def test_replayed_skipped_and_overtaken() -> None:
    back = partition_reset(ResetSpec(ResetTarget.EARLIEST))
    assert (back.replayed, back.skipped, back.lost, back.overtaken) == (40, 0, 0, False)
    forward = partition_reset(ResetSpec(ResetTarget.LATEST))
    assert (forward.replayed, forward.skipped) == (0, 50)
    late = partition_reset(ResetSpec(ResetTarget.LATEST), now=4)
    assert (late.replayed, late.skipped, late.lost, late.overtaken) == (0, 90, 6, True)
    truncated = partition_reset(ResetSpec(ResetTarget.EARLIEST), now=130)  # an unclean election lost records
    assert (truncated.replayed, truncated.skipped) == (90, 0)
    first = partition_reset(ResetSpec(ResetTarget.EARLIEST), now=None)
    assert (first.replayed, first.skipped, first.changes) == (None, None, True)


def test_the_time_between_the_offsets_is_a_lower_bound_where_history_ends() -> None:
    ages = {10: RecordAge(9_000, at_least=True), 50: RecordAge(4_000), 100: RecordAge(0)}
    assert partition_reset(ResetSpec(ResetTarget.LATEST), age=lambda k, o: ages[o]).span_ms == 4_000
    back = partition_reset(ResetSpec(ResetTarget.EARLIEST), age=lambda k, o: ages[o])
    assert (back.span_ms, back.span_at_least) == (5_000, True)
    ages[50] = RecordAge(9_000, at_least=True)  # both are older than the history, so the time between them is unknown
    assert partition_reset(ResetSpec(ResetTarget.EARLIEST), age=lambda k, o: ages[o]).span_ms is None


@pytest.mark.parametrize(
    ("spec", "options", "problem"),
    [
        (ResetSpec(ResetTarget.EARLIEST), {"log": None}, RowProblem.NO_LEADER),
        (ResetSpec(ResetTarget.SHIFT, shift=1), {"now": None}, RowProblem.NO_COMMITTED_OFFSET),
        (ResetSpec(ResetTarget.GROUP, source_group="g"), {}, RowProblem.NO_SOURCE_OFFSET),
        (ResetSpec(ResetTarget.EARLIEST), {"unstable": {A}}, RowProblem.OPEN_TRANSACTION),
        (ResetSpec(ResetTarget.DELETE, topics=("a",)), {"now": None}, RowProblem.NO_COMMITTED_OFFSET),
    ],
)
def test_a_partition_with_a_problem_is_not_changed(
    spec: ResetSpec, options: dict[str, Any], problem: RowProblem
) -> None:
    row = partition_reset(spec, **options)
    assert row.problem is problem and not row.changes and row.after == row.now


def test_a_partition_that_does_not_exist() -> None:
    (row,) = core.plan(ResetSpec(ResetTarget.EARLIEST), [A], OffsetsRead({}, {}, {}), unknown_age)
    assert row.problem is RowProblem.NO_PARTITION


def test_a_deletion_needs_no_topic() -> None:
    read = OffsetsRead({A: CommittedOffset(5)}, {}, {})
    (row,) = core.plan(ResetSpec(ResetTarget.DELETE, topics=("a",)), [A], read, unknown_age)
    assert row.changes and row.after is None and row.problem is None


def test_an_undo_restores_exactly_and_is_not_limited() -> None:
    saved = CommittedOffset(4, 2, "old")
    row = partition_reset(ResetSpec(ResetTarget.UNDO, undone=1), saved={A: saved})
    assert row.after == saved and row.limited is LimitedBy.NO
    gone = partition_reset(ResetSpec(ResetTarget.UNDO, undone=1), saved={A: None})
    assert gone.after is None and gone.changes


def test_an_undo_shows_the_time_of_its_reset() -> None:
    """The second computation had another time: the log end of the first preview is a record with an age in the second one."""
    there = PartitionReset("a", 0, CommittedOffset(10), CommittedOffset(50), span_ms=9_000, span_at_least=True)
    back = replace(there, now=there.after, after=there.now, span_ms=12_000, span_at_least=False)
    (row,) = core.with_spans_of([there], [back])
    assert (row.span_ms, row.span_at_least, row.now, row.after) == (9_000, True, back.now, back.after)
    moved = replace(back, now=CommittedOffset(60))
    other = replace(back, partition=1)
    unknown = replace(there, span_ms=None)
    assert core.with_spans_of([there], [moved, other]) == [moved, other], "other offsets, another partition"
    assert core.with_spans_of([unknown], [back]) == [back]


def test_partitions_are_selected() -> None:
    leaders, committed = [A, B, C], [A, C]
    assert core.select_partitions(ResetSpec(ResetTarget.EARLIEST), committed, leaders) == [A, C]
    assert core.select_partitions(ResetSpec(ResetTarget.EARLIEST, topics=("a",)), committed, leaders) == [A, B]
    assert core.select_partitions(ResetSpec(ResetTarget.EARLIEST, partitions=(("z", 4),)), committed, leaders) == [
        ("z", 4)
    ]
    file = ResetSpec(ResetTarget.FILE, offsets={B: 1, C: 2})
    assert core.select_partitions(file, committed, leaders) == [B, C]
    assert core.select_partitions(replace(file, topics=("b",)), committed, leaders) == [C]
    copied = ResetSpec(ResetTarget.GROUP, source_group="g")
    assert core.select_partitions(copied, committed, leaders, named=[B]) == [B]
    assert core.select_partitions(replace(copied, topics=("a",), partitions=(C,)), committed, leaders, named=[B]) == [
        B,
        C,
    ]
    assert core.select_partitions(ResetSpec(ResetTarget.DELETE, topics=("a",)), committed, leaders) == [A]
    assert core.select_partitions(ResetSpec(ResetTarget.UNDO, undone=1), committed, leaders, named=[B]) == [B]
    with pytest.raises(Rejected, match="No partition"):
        core.select_partitions(ResetSpec(ResetTarget.EARLIEST), [], leaders)
    with pytest.raises(Rejected, match="at most"):
        core.select_partitions(ResetSpec(ResetTarget.LATEST), [("w", i) for i in range(RESET_PARTITIONS_MAX + 1)], [])


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (ResetSpec(ResetTarget.TIME), "time_ms"),
        (ResetSpec(ResetTarget.OFFSET), "offset"),
        (ResetSpec(ResetTarget.OFFSET, offset=-1), "offset"),
        (ResetSpec(ResetTarget.SHIFT), "shift"),
        (ResetSpec(ResetTarget.SHIFT, shift=0), "shift"),
        (ResetSpec(ResetTarget.GROUP), "source_group"),
        (ResetSpec(ResetTarget.FILE), "offsets"),
        (ResetSpec(ResetTarget.FILE, offsets={A: -1}), "offsets"),
        (ResetSpec(ResetTarget.DELETE), "topics"),
        (ResetSpec(ResetTarget.UNDO), "undone"),
        (ResetSpec(ResetTarget.EARLIEST, partitions=(("a", -1),)), "partitions"),
    ],
)
def test_a_missing_or_invalid_value_is_rejected_with_its_field(spec: ResetSpec, field: str) -> None:
    with pytest.raises(Rejected) as found:
        core.check(spec)
    assert found.value.field == field


def test_differences_since_the_preview_and_after_the_write() -> None:
    row = partition_reset(ResetSpec(ResetTarget.EARLIEST))
    same = partition_reset(ResetSpec(ResetTarget.OFFSET, offset=50))
    now, after = CommittedOffset(50, 3, "m"), CommittedOffset(10)
    assert core.differences([row], {A: now}) == [] and core.not_applied([row], {A: after}) == []
    for found in (CommittedOffset(50, 4, "m"), CommittedOffset(50, 3, "n"), None):
        committed = {} if found is None else {A: found}
        assert [d.found for d in core.differences([row], committed)] == [found]
        assert [d.expected for d in core.not_applied([row], committed)] == [after]
    assert core.differences([same], {}) == [], "a partition that the reset does not change"


def test_an_offset_that_left_the_log_is_found() -> None:
    row = partition_reset(ResetSpec(ResetTarget.EARLIEST))
    assert core.rows_outside_log([row], {A: LogRange(10, 100)}) == []
    assert core.rows_outside_log([row], {A: LogRange(11, 100)}) == [row]
    assert core.rows_outside_log([row], {}) == []


OFFSETS = st.integers(0, 1000)
COMMITTED = st.none() | st.builds(CommittedOffset, OFFSETS, st.integers(-1, 9), st.none() | st.text(max_size=3))


@given(
    now=COMMITTED,
    ends=st.tuples(OFFSETS, OFFSETS).map(sorted),
    spec=st.one_of(
        st.sampled_from([ResetSpec(ResetTarget.EARLIEST), ResetSpec(ResetTarget.LATEST)]),
        st.builds(ResetSpec, st.just(ResetTarget.OFFSET), offset=st.integers(0, OFFSET_MAX)),
        st.builds(ResetSpec, st.just(ResetTarget.SHIFT), shift=st.integers(-2000, 2000).filter(bool)),
        st.builds(ResetSpec, st.just(ResetTarget.FILE), offsets=st.fixed_dictionaries({A: OFFSETS})),
        st.builds(ResetSpec, st.just(ResetTarget.TIME), time_ms=OFFSETS),
    ),
    at_time=st.dictionaries(st.just(A), OFFSETS),
)
def test_every_new_offset_is_in_the_log_and_the_metrics_add_up(
    now: CommittedOffset | None, ends: list[int], spec: ResetSpec, at_time: dict[Key, int]
) -> None:
    core.check(spec)
    start, end = ends
    read = OffsetsRead({} if now is None else {A: now}, {A: 1}, {A: LogRange(start, end)}, at_time=at_time)
    rows = core.plan(spec, [A], read, unknown_age)
    (row,) = rows
    assert rows_from_json(json.loads(json.dumps(rows_to_json(rows)))) == tuple(rows)
    assert ResetSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec
    if row.problem:
        assert not row.changes
        return
    assert row.after is not None and start <= row.after.offset <= end
    if now is not None:
        assert row.replayed is not None and row.skipped is not None
        read_from = min(max(now.offset, start), end)
        assert read_from - row.replayed + row.skipped == row.after.offset
        assert not (row.replayed and row.skipped)
        assert row.lost == max(0, start - now.offset)
    after = {r.key: r.after for r in rows if r.after is not None}
    assert core.not_applied(rows, after) == []
    assert core.totals(rows).changes == int(row.changes)
