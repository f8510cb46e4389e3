"""Log directories as their broker reports them, and the conditions for a move of a replica between two of them.

Does not contain: requests (`controlplane.clients.log_dirs`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class LogDirState(StrEnum):
    """failed: the broker has taken the directory offline, and its replicas with it. hung: the same, because the disk does not respond. slow: the disk
    answers late, and the directory is served."""

    HEALTHY = "healthy"
    SLOW = "slow"
    HUNG = "hung"
    FAILED = "failed"

    @property
    def served(self) -> bool:
        return self in (LogDirState.HEALTHY, LogDirState.SLOW)


@dataclass(frozen=True, slots=True)
class ReportedReplica:
    """A replica in a directory. `future` marks the copy of a running move. `lag_records` is the number of records behind the leader, or for a future replica
    behind the current replica; None = unknown."""

    topic: str
    index: int
    size_bytes: int
    lag_records: int | None
    future: bool

    @property
    def partition(self) -> tuple[str, int]:
        return self.topic, self.index


@dataclass(frozen=True, slots=True)
class ReportedLogDir:
    """`total_bytes` and `free_bytes` are those of the file system, None = unknown. A failed directory reports neither sizes nor replicas. `probe_ms` is the
    duration of the last probe (a small write), None = unknown."""

    path: str
    state: LogDirState
    total_bytes: int | None
    free_bytes: int | None
    replicas: tuple[ReportedReplica, ...]
    probe_ms: int | None = None


@dataclass(frozen=True, slots=True)
class DirectoryMove:
    """A replica that is copied to another directory of its broker. `future_bytes`: copied so far."""

    topic: str
    index: int
    source: str
    target: str
    size_bytes: int
    future_bytes: int
    lag_records: int | None

    @property
    def percent(self) -> float:
        return 100.0 if self.size_bytes <= 0 else min(100.0, 100 * self.future_bytes / self.size_bytes)


class MoveProblem(StrEnum):
    """The reason why a replica cannot move to a directory."""

    UNKNOWN_DIRECTORY = "unknown_directory"
    FAILED_DIRECTORY = "failed_directory"
    NO_REPLICA = "no_replica"
    SAME_DIRECTORY = "same_directory"
    ALREADY_MOVING = "already_moving"
    NO_SPACE = "no_space"


def directory_moves(dirs: Sequence[ReportedLogDir]) -> list[DirectoryMove]:
    """The running moves, in the order of the partitions."""
    current = {r.partition: (d.path, r) for d in dirs for r in d.replicas if not r.future}
    found = []
    for directory in dirs:
        for future in (r for r in directory.replicas if r.future):
            source, replica = current.get(future.partition, ("", None))
            size = future.size_bytes if replica is None else replica.size_bytes
            found.append(
                DirectoryMove(
                    topic=future.topic,
                    index=future.index,
                    source=source,
                    target=directory.path,
                    size_bytes=size,
                    future_bytes=future.size_bytes,
                    lag_records=future.lag_records,
                )
            )
    return sorted(found, key=lambda move: (move.topic, move.index))


def location(dirs: Sequence[ReportedLogDir], topic: str, index: int) -> tuple[ReportedLogDir, ReportedReplica] | None:
    """The directory of a replica, and the replica."""
    return next(((d, r) for d in dirs for r in d.replicas if not r.future and r.partition == (topic, index)), None)


def needed_bytes(dirs: Sequence[ReportedLogDir], target: str) -> int:
    """Bytes that running moves will still write to a directory."""
    return sum(max(0, m.size_bytes - m.future_bytes) for m in directory_moves(dirs) if m.target == target)


def move_problem(dirs: Sequence[ReportedLogDir], topic: str, index: int, target: str) -> MoveProblem | None:
    """Return None if the replica can move to `target`. Unknown free space is no problem: the broker rejects a copy that it cannot write."""
    chosen = next((d for d in dirs if d.path == target), None)
    found = location(dirs, topic, index)
    if chosen is None:
        return MoveProblem.UNKNOWN_DIRECTORY
    if not chosen.state.served:
        return MoveProblem.FAILED_DIRECTORY
    if found is None:
        return MoveProblem.NO_REPLICA
    if any((m.topic, m.index) == (topic, index) for m in directory_moves(dirs)):
        return MoveProblem.ALREADY_MOVING
    directory, replica = found
    if directory is chosen:
        return MoveProblem.SAME_DIRECTORY
    if chosen.free_bytes is not None and chosen.free_bytes - needed_bytes(dirs, target) < replica.size_bytes:
        return MoveProblem.NO_SPACE
    return None
