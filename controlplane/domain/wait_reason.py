"""The reasons why a whole move waits: types, English texts, stored form.

Each reason has the number of its partitions, so that a list of moves need not read partitions. Does not contain: which reason a move has (`move_wait`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypedDict

from controlplane.domain.progress import StallCause


class WaitReason(StrEnum):
    """`QUEUED`: the brokers of the partition are busy with other copies, or the move has reached its limit of partitions in flight. `RETENTION`: the old
    replicas have records that retention deletes. `THROTTLE_REMOVAL`: all partitions have ended, and a throttle of the move is still set."""

    NO_SPACE = StallCause.NO_SPACE
    TARGET_DOWN = StallCause.TARGET_DOWN
    SOURCE_DOWN = StallCause.SOURCE_DOWN
    THROTTLE = StallCause.THROTTLE
    FETCH_ERROR = StallCause.FETCH_ERROR
    CONTROLLER = StallCause.CONTROLLER
    REJECTED = StallCause.REJECTED
    UNFIT = StallCause.UNFIT
    DEADLINE_PASSED = StallCause.DEADLINE_PASSED
    RETENTION = "retention"
    QUEUED = "queued"
    IN_SYNC = "in_sync"
    THROTTLE_REMOVAL = "throttle_removal"


STALLS = frozenset(StallCause) - {StallCause.WILL_NOT_FINISH}
"""The causes that stop a copy. A copy that will not finish continues."""

NEEDS_OPERATOR = frozenset(WaitReason(cause) for cause in STALLS)
"""The reasons that need an operator, or a broker that returns. The others end automatically."""

TEXTS: Mapping[WaitReason, str] = {
    WaitReason.NO_SPACE: "disk space on a target",
    WaitReason.TARGET_DOWN: "a target that is down",
    WaitReason.SOURCE_DOWN: "a leader",
    WaitReason.THROTTLE: "a higher throttle",
    WaitReason.FETCH_ERROR: "a target with fetch errors",
    WaitReason.CONTROLLER: "a controller",
    WaitReason.REJECTED: "an order that the controller rejects",
    WaitReason.UNFIT: "a retention limit of its topic",
    WaitReason.DEADLINE_PASSED: "deletion of old records: its deadline has passed",
    WaitReason.RETENTION: "retention",
    WaitReason.QUEUED: "its turn",
    WaitReason.IN_SYNC: "new replicas to be in sync",
    WaitReason.THROTTLE_REMOVAL: "removal of its throttle",
}
"""English texts, to be read after "waits for"."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A reason and the number of partitions that have it. The removal of a throttle has 0: it belongs to the whole move."""

    reason: WaitReason
    partitions: int


class WaitShape(TypedDict):
    """A `Wait` as JSON."""

    reason: str
    partitions: int


def to_json(waits: Iterable[Wait]) -> list[WaitShape]:
    return [{"reason": wait.reason.value, "partitions": wait.partitions} for wait in waits]


def from_json(shapes: Iterable[WaitShape]) -> tuple[Wait, ...]:
    """Raises ValueError for an unknown reason."""
    return tuple(Wait(WaitReason(shape["reason"]), shape["partitions"]) for shape in shapes)
