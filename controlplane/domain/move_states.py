"""States and other words of a move, as its rows, pages and REST have them. Does not contain: the values that decisions need (`move_types`)."""

from __future__ import annotations

from enum import IntEnum, StrEnum


class MoveState(StrEnum):
    PLANNED = "planned"
    APPROVED = "approved"
    RUNNING = "running"
    PAUSED = "paused"
    VERIFYING = "verifying"
    CANCELLING = "cancelling"
    ROLLING_BACK = "rolling_back"
    DONE = "done"
    CANCELLED = "cancelled"
    ROLLED_BACK = "rolled_back"
    FAILED = "failed"


class MoveMode(StrEnum):
    """`COPY`: the new replicas get all old data. `TAIL`: none of it (docs/safety.md section 8)."""

    COPY = "copy"
    TAIL = "tail"


class MoveOrigin(StrEnum):
    """The requester of a move. `CLIENT`: a Kafka client, by AlterPartitionReassignments."""

    OPERATOR = "operator"
    CLIENT = "client"


class Handover(StrEnum):
    """Time at which new replicas of mode `TAIL` join the ISR: after retention, or `EARLY`, while the old replicas keep the older records."""

    RETENTION = ""
    EARLY = "early"


class PartState(StrEnum):
    """State of one partition of a move. `SUBMITTED`, `BOOTSTRAPPING` and `TRUNCATING` are orders that the controller carries out."""

    WAITING = "waiting"
    SUBMITTED = "submitted"
    BOOTSTRAPPING = "bootstrapping"
    CATCHING_UP = "catching_up"
    READY = "ready"
    TRUNCATING = "truncating"
    COPYING = "copying"
    VERIFYING = "verifying"
    COMPARING = "comparing"
    DONE = "done"
    SKIPPED = "skipped"
    REVERTED = "reverted"
    REJECTED = "rejected"


class PartActivity(IntEnum):
    """Place of a partition in the list of its move. `BLOCKED`: rejected, or with a cause of a delay. `ACTIVE`: its replicas are being changed."""

    BLOCKED = 0
    ACTIVE = 1
    WAITING = 2
    ENDED = 3


class MoveVerb(StrEnum):
    """Operations on a move. `PROPOSE`: request the approval of another operator."""

    APPROVE = "approve"
    PROPOSE = "propose"
    START = "start"
    PAUSE = "pause"
    RESUME = "resume"
    THROTTLE = "throttle"
    SCHEDULE = "schedule"
    DELETE_RECORDS = "delete_records"
    CANCEL = "cancel"
    ROLL_BACK = "roll_back"


ORDER_STATES = (PartState.SUBMITTED, PartState.BOOTSTRAPPING, PartState.TRUNCATING)
"""States in which the controller has an order to carry out."""
IN_FLIGHT = (PartState.SUBMITTED, PartState.COPYING, PartState.VERIFYING, PartState.COMPARING)
TAIL_BUSY = (PartState.BOOTSTRAPPING, PartState.CATCHING_UP)
"""States of mode `tail` in which the new replicas are being created."""
TAIL = (*TAIL_BUSY, PartState.READY, PartState.TRUNCATING)
COPYING = (*IN_FLIGHT, *TAIL_BUSY)
"""States in which a partition uses the capacity of brokers."""
UNDER_WAY = (*IN_FLIGHT, *TAIL)
"""States in which the cluster may have been changed for the partition."""
ENDED = (PartState.DONE, PartState.SKIPPED, PartState.REVERTED, PartState.REJECTED)
FINAL = (MoveState.DONE, MoveState.CANCELLED, MoveState.ROLLED_BACK, MoveState.FAILED)
