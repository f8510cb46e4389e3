"""Values of share partitions: which states are final, and which runs may be joined."""

from __future__ import annotations

from dataclasses import replace

from brokerd.sharing.delivery import OffsetRun, RecordState


def test_acknowledged_and_archived_records_are_never_delivered_again() -> None:
    assert {s for s in RecordState if s.final} == {RecordState.ACKNOWLEDGED, RecordState.ARCHIVED}
    assert [s.value for s in RecordState] == [0, 1, 2, 3, 4], "Kafka's numbers"


def test_only_runs_in_the_same_state_are_joined() -> None:
    run = OffsetRun(0, 4, RecordState.ACQUIRED, 2, "m", 9)
    assert run.size == 5
    assert run.same(replace(run, first=5, last=9))
    for other in (
        replace(run, state=RecordState.AVAILABLE),
        replace(run, count=3),
        replace(run, member="n"),
        replace(run, until_ms=10),
        replace(run, dirty=True),
        replace(run, rejected=True),
    ):
        assert not run.same(other)
