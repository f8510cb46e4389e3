"""Moves between log directories: progress, and the reasons against one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controlplane.domain.log_dirs import (
    LogDirState,
    MoveProblem,
    ReportedLogDir,
    ReportedReplica,
    directory_moves,
    location,
    move_problem,
    needed_bytes,
)

A = ReportedLogDir(
    "/a",
    LogDirState.HEALTHY,
    1_000,
    100,
    (ReportedReplica("orders", 0, 80, 0, False), ReportedReplica("orders", 1, 60, 0, False)),
)
B = ReportedLogDir("/b", LogDirState.HEALTHY, 1_000, 100, (ReportedReplica("logs", 0, 10, 0, False),))
C = ReportedLogDir("/c", LogDirState.FAILED, None, None, ())
FUTURE = ReportedReplica("orders", 1, 15, 45, True)
MOVING = [A, replace(B, replicas=(*B.replicas, FUTURE)), C]


@pytest.mark.parametrize(
    ("dirs", "partition", "target", "expected"),
    [
        ([A, B, C], ("orders", 0), "/b", None),
        ([A, B, C], ("orders", 0), "/d", MoveProblem.UNKNOWN_DIRECTORY),
        ([A, B, C], ("orders", 0), "/c", MoveProblem.FAILED_DIRECTORY),
        ([A, B, C], ("orders", 7), "/b", MoveProblem.NO_REPLICA),
        ([A, B, C], ("orders", 0), "/a", MoveProblem.SAME_DIRECTORY),
        (MOVING, ("orders", 1), "/b", MoveProblem.ALREADY_MOVING),
        (MOVING, ("orders", 0), "/b", MoveProblem.NO_SPACE),
        ([A, replace(B, free_bytes=79)], ("orders", 0), "/b", MoveProblem.NO_SPACE),
        ([A, replace(B, free_bytes=80)], ("orders", 0), "/b", None),
        ([A, replace(B, free_bytes=None)], ("orders", 0), "/b", None),
    ],
)
def test_the_reasons_against_a_move(
    dirs: list[ReportedLogDir], partition: tuple[str, int], target: str, expected: MoveProblem | None
) -> None:
    assert move_problem(dirs, *partition, target) is expected


def test_progress_compares_the_copy_with_the_replica() -> None:
    assert directory_moves([A, B, C]) == []
    (move,) = directory_moves(MOVING)
    assert (move.topic, move.index, move.source, move.target) == ("orders", 1, "/a", "/b")
    assert (move.size_bytes, move.future_bytes, move.percent, move.lag_records) == (60, 15, 25.0, 45)
    assert needed_bytes(MOVING, "/b") == 45 and needed_bytes(MOVING, "/a") == 0
    assert replace(move, size_bytes=0).percent == 100.0 and replace(move, future_bytes=70).percent == 100.0


def test_a_copy_whose_replica_is_not_reported_has_no_source() -> None:
    (move,) = directory_moves([replace(B, replicas=(FUTURE,))])
    assert (move.source, move.size_bytes) == ("", 15)
    assert location(MOVING, "orders", 1) == (A, A.replicas[1]) and location([B], "orders", 1) is None
