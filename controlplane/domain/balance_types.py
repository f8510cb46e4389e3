"""Values of a rebalance proposal: goals, loads, changes, notes, and why a goal is not reached. Does not contain: the algorithms."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from weir_common.phrases import Phrase


class Goal(StrEnum):
    """Goals of a rebalance proposal, in the default order."""

    RACK = "rack"
    DISK = "disk"
    REPLICAS = "replicas"
    LEADERS = "leaders"
    TRAFFIC = "traffic"

    @property
    def counts_violations(self) -> bool:
        """Its metric is a number of violations. That of the other goals is a deviation from the mean."""
        return self is Goal.RACK


GOALS = tuple(Goal)
COUNTED = (Goal.DISK, Goal.REPLICAS, Goal.LEADERS, Goal.TRAFFIC)
LED = (Goal.LEADERS, Goal.TRAFFIC)
"""Goals that change the order of replicas only, which copies no data."""
TOLERANCE_DEFAULT = 0.1
"""Allowed deviation from the mean, as a fraction. A closer fit moves much data for little gain."""


class Obstacle(StrEnum):
    """Reason why a goal is not reached: what most of the changes that would bring it closer are rejected for."""

    TOO_FEW_BROKERS = "too_few_brokers"
    SEARCH_LIMIT = "search_limit"
    FAILURE_DOMAIN = "failure_domain"
    RACK = "rack"
    DISK_SPACE = "disk_space"
    EARLIER_GOAL = "earlier_goal"
    NOT_IN_SYNC = "not_in_sync"
    GAIN_TOO_SMALL = "gain_too_small"
    PARTITIONS_FIXED = "partitions_fixed"
    NO_SHARED_REPLICA = "no_shared_replica"
    INDIVISIBLE = "indivisible"


OBSTACLE_TEXTS: dict[Obstacle, tuple[str, str]] = {
    Obstacle.TOO_FEW_BROKERS: (
        "Fewer than two brokers are alive and not cordoned.",
        "Start a broker, or uncordon one.",
    ),
    Obstacle.SEARCH_LIMIT: (
        "The search reached its limit before it found all changes.",
        "Run this proposal, then compute the next one.",
    ),
    Obstacle.FAILURE_DOMAIN: (
        "The changes that would help would place two replicas of a partition in one failure domain.",
        "Add a broker to another failure domain.",
    ),
    Obstacle.RACK: (
        "The changes that would help would place more replicas of a partition in one rack.",
        "Add a broker to the rack of the brokers with the highest load.",
    ),
    Obstacle.DISK_SPACE: (
        "The brokers with a low load do not have enough free disk space for the replicas.",
        "Add disk space, or reduce the retention of the largest topics.",
    ),
    Obstacle.EARLIER_GOAL: (
        "The changes that would help would make an earlier goal worse.",
        "Give this goal a higher priority, or raise the tolerance.",
    ),
    Obstacle.NOT_IN_SYNC: (
        "The replicas that would become the preferred leaders are not in sync.",
        "Wait until the replicas are in sync, then compute the proposal again.",
    ),
    Obstacle.GAIN_TOO_SMALL: (
        "The changes that would help would copy more than ten times the bytes of their gain.",
        "Accept this placement, or add partitions to the largest topics.",
    ),
    Obstacle.PARTITIONS_FIXED: (
        "The partitions of the brokers with a high load are being reassigned or are offline.",
        "Wait for the reassignments, or start the brokers of the offline partitions.",
    ),
    Obstacle.NO_SHARED_REPLICA: (
        "The brokers with a low load have no replicas of the partitions that brokers with a high load lead.",
        "Give the goal replicas a higher priority, or increase the replication factor.",
    ),
    Obstacle.INDIVISIBLE: (
        "Single partitions are too large: no move and no swap of two replicas makes two brokers more even.",
        "Add partitions to the largest topics, or raise the tolerance.",
    ),
}
"""Text of each reason, and advice."""


class NoteCode(StrEnum):
    """Partitions and brokers that a proposal cannot change, or of which it does not know all."""

    TOO_FEW_BROKERS = "too_few_brokers"
    SIZES_UNKNOWN = "sizes_unknown"
    PARTITIONS_FIXED = "partitions_fixed"
    BROKERS_CLOSED = "brokers_closed"
    """Down or cordoned."""


NOTE_TEXTS: dict[NoteCode, tuple[str, str]] = {
    NoteCode.TOO_FEW_BROKERS: (
        "{count} broker is alive and not cordoned: a rebalance needs two.",
        "{count} brokers are alive and not cordoned: a rebalance needs two.",
    ),
    NoteCode.SIZES_UNKNOWN: (
        "The size of {count} partition is unknown and counts as 0.",
        "The sizes of {count} partitions are unknown and count as 0.",
    ),
    NoteCode.PARTITIONS_FIXED: (
        "{count} partition is being reassigned or offline and stays unchanged.",
        "{count} partitions are being reassigned or offline and stay unchanged.",
    ),
    NoteCode.BROKERS_CLOSED: (
        "Broker {brokers} is down or cordoned: it gets no replicas and keeps its own.",
        "Brokers {brokers} are down or cordoned: they get no replicas and keep their own.",
    ),
}
"""Text of each code, for one and for another `count`."""


@dataclass(frozen=True, slots=True)
class Note:
    """`count`: the number of partitions or brokers. `brokers`: the ids of these brokers, empty for other codes. `text`: the English text."""

    code: NoteCode
    count: int
    brokers: tuple[int, ...]
    text: str

    @classmethod
    def of(cls, code: NoteCode, count: int, brokers: tuple[int, ...] = ()) -> Note:
        return cls(code, count, brokers, str(_note_phrase(code, count, brokers)))

    @property
    def phrase(self) -> Phrase:
        """The text, for a translation."""
        return _note_phrase(self.code, self.count, self.brokers)


def _note_phrase(code: NoteCode, count: int, brokers: tuple[int, ...]) -> Phrase:
    one, many = NOTE_TEXTS[code]
    return Phrase(one, {"count": f"{count:,}", "brokers": [str(b) for b in brokers]}, many, count)


@dataclass(frozen=True, slots=True)
class Load:
    """Load of one broker: replicas, leaders (first in the replica list), bytes of its replicas, records per second that it leads."""

    broker_id: int
    replicas: int
    leaders: int
    bytes: int
    records_per_s: float


@dataclass(frozen=True, slots=True)
class GoalResult:
    """Deviation over the brokers that accept replicas: the largest distance from the mean in per cent, before and after. For `rack`: number of
    partitions that share a rack unnecessarily. `reached`: all brokers are within the bounds afterwards. Otherwise `obstacle` is the code of
    the reason, `reason` its text, and `advice` says what would help."""

    goal: Goal
    before: float
    after: float
    reached: bool
    obstacle: Obstacle | None = None
    reason: str = ""
    advice: str = ""


@dataclass(frozen=True, slots=True)
class PlacementChange:
    """`replicas_to` is in order, the preferred leader first. A new order of the same brokers copies no data."""

    topic: str
    partition: int
    replicas_from: tuple[int, ...]
    replicas_to: tuple[int, ...]
    size_bytes: int | None

    @property
    def copies(self) -> int:
        return len(set(self.replicas_to) - set(self.replicas_from))


@dataclass(frozen=True, slots=True)
class Balance:
    changes: tuple[PlacementChange, ...]
    before: tuple[Load, ...]
    after: tuple[Load, ...]
    goals: tuple[GoalResult, ...]
    notes: tuple[Note, ...]

    @property
    def bytes_to_copy(self) -> int:
        """Bytes of the new replicas, of partitions with a known size."""
        return sum((c.size_bytes or 0) * c.copies for c in self.changes)
