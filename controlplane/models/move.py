"""A move: a durable job that changes placement. Law: rows change by compare-and-set on (id, state, version) only; previous values are
written before the first effect; one active move per partition is a constraint, not a check."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import models


class MoveState(models.TextChoices):
    PLANNED = "planned", "planned"
    APPROVED = "approved", "approved"
    RUNNING = "running", "running"
    PAUSED = "paused", "paused"
    VERIFYING = "verifying", "verifying"
    CANCELLING = "cancelling", "cancelling"
    ROLLING_BACK = "rolling_back", "rolling back"
    DONE = "done", "done"
    CANCELLED = "cancelled", "cancelled"
    ROLLED_BACK = "rolled_back", "rolled back"
    FAILED = "failed", "failed"


FINISHED_STATES = (MoveState.DONE, MoveState.CANCELLED, MoveState.ROLLED_BACK, MoveState.FAILED)
WORKING_STATES = (
    MoveState.RUNNING,
    MoveState.PAUSED,
    MoveState.VERIFYING,
    MoveState.CANCELLING,
    MoveState.ROLLING_BACK,
)


class PartState(models.TextChoices):
    WAITING = "waiting", "waiting"
    ORDERED = "ordered", "ordered"
    SEEDING = "seeding", "seeding"
    FOLLOWING = "following", "following"
    READY = "ready", "ready"
    CUTTING = "cutting", "cutting"
    COPYING = "copying", "copying"
    VERIFYING = "verifying", "verifying"
    DONE = "done", "done"
    UNTOUCHED = "untouched", "untouched"
    PUT_BACK = "put_back", "put back"
    STUCK = "stuck", "stuck"


ORDER_STATES = (PartState.ORDERED, PartState.SEEDING, PartState.CUTTING)
"""Of parts that want something of the controller."""


class Move(models.Model):
    """`scope` says what was asked ({"kind": "drain", "broker": 2}, ...). `parts_in_flight_max` bounds copies at a time, `parts_per_broker_max`
    those that occupy one broker. `throttle_bytes_per_s` is per broker; None = none. `throttled`: it had one at some time, so that its end
    waits until none is left. `throttles_before`: the throttles in force when it started (topics and brokers by name, None = unset).

    `samples` are pace.Sample rows over its whole life; speed, end and `needs_bytes_per_s` (set: it will not finish with less) stem from them.
    `waits_for`: what all of its partitions wait for, as a phrase, where none goes on (`controlplane.waits`).
    `overrides`: safety refusals (sentences) that it goes against; it begins only once a second person has approved.
    `window` (see `controlplane.windows`): copies begin within it alone; None = always. `resumes_at`: when it opens next, while the move waits for
    that (approved, or paused by the window and not by a person).
    `adaptive`: {"cap", "floor"} in bytes/s, and what `services.speeds` has learned; its throttle then follows the producers' p99. None = fixed.
    `deadline_hours`: so long after its start retention is waited for (mode tail); then a cut is asked for. None = for ever.
    `handover`: "early" hands over (mode tail) as soon as the new copies are in step; the old replicas hold what is older. "" waits for retention.
    `waits`: what producers of the brokers it burdens waited while it copied: {"counts": the brokers' last histograms, "rows": [[Unix seconds, p99 in
    ms or null], ..]} (`services.speeds`).
    `sums`: of a finished move, what its partitions add up to (`services.sums`), so that a list of old moves costs its page; null = add them up.
    `step` counts what was done, `version` every write: a task that read an older version changes nothing.
    """

    mode = models.CharField(max_length=10, default="copy")
    origin = models.CharField(max_length=10, default="operator")
    scope = models.JSONField(default=dict)
    state = models.CharField(max_length=20, choices=MoveState.choices, default=MoveState.PLANNED, db_index=True)
    who = models.CharField(max_length=150)
    why = models.TextField(default="")
    parts_in_flight_max = models.PositiveIntegerField(default=8)
    parts_per_broker_max = models.PositiveIntegerField(default=4)
    throttle_bytes_per_s = models.PositiveBigIntegerField(null=True)
    throttled = models.BooleanField(default=False)
    throttles_before = models.JSONField(default=dict)
    samples = models.JSONField(default=list)
    bytes_per_s = models.FloatField(null=True)
    ends_in_s_min = models.FloatField(null=True)
    ends_in_s_max = models.FloatField(null=True)
    needs_bytes_per_s = models.PositiveBigIntegerField(null=True)
    waits_for = models.TextField(default="")
    sums = models.JSONField(null=True)
    step = models.PositiveIntegerField(default=0)
    version = models.PositiveIntegerField(default=0)
    note = models.TextField(default="")
    overrides = models.JSONField(default=list)
    window = models.JSONField(null=True)
    resumes_at = models.DateTimeField(null=True)
    adaptive = models.JSONField(null=True)
    deadline_hours = models.PositiveIntegerField(null=True)
    waits = models.JSONField(default=dict)
    handover = models.CharField(max_length=10, default="")
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]

    @property
    def deadline(self) -> datetime | None:
        """When a cut is asked for; None: never, or it has not begun."""
        if self.started_at is None or self.deadline_hours is None:
            return None
        return self.started_at + timedelta(hours=self.deadline_hours)


class MovePartition(models.Model):
    """One partition of a move. `before` holds the placement in order, leader and configs as they were when it was planned.

    `read_generation` is the assignment generation that the order in `wanted` is bound to; `wanted` is what the controller reads
    while state is one of ORDER_STATES (for what, says `tails.order`). `active` is true while the partition belongs to an unfinished move. `cause` is one of pace.CAUSES or "".

    Where old copies are to go, `wanted` is first every copy, old and new, then `replicas_to`: `compared` lies between ({"equal", "text", "first",
    "after", "upto", "bytes", "crc"}; null = not yet, or not asked for; "equal" null = so far, up to `after` of `upto`).

    Of a move without old data: new copies begin at `tail_start`, since `tail_at`; `cut_at`: an operator had everything below deleted.
    `hand_over_at`: it was handed over there, and the old replicas hold what lies below.
    """

    move = models.ForeignKey(Move, on_delete=models.CASCADE, related_name="parts")
    topic_id = models.UUIDField()
    topic_name = models.CharField(max_length=249)
    partition = models.PositiveIntegerField()
    before = models.JSONField()
    replicas_from = models.JSONField()
    replicas_to = models.JSONField()
    wanted = models.JSONField()
    read_generation = models.PositiveBigIntegerField()
    state = models.CharField(max_length=20, choices=PartState.choices, default=PartState.WAITING)
    active = models.BooleanField(default=True)
    bytes_total = models.BigIntegerField(null=True)
    bytes_done = models.BigIntegerField(null=True)
    samples = models.JSONField(default=list)
    bytes_per_s = models.FloatField(null=True)
    tail_start = models.BigIntegerField(null=True)
    tail_at = models.DateTimeField(null=True)
    cut_at = models.BigIntegerField(null=True)
    hand_over_at = models.BigIntegerField(null=True)
    cause = models.CharField(max_length=20, default="")
    progress_at = models.DateTimeField(null=True)
    ordered_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    note = models.TextField(default="")
    compared = models.JSONField(null=True)
    version = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["topic_name", "partition"]
        constraints = [
            models.UniqueConstraint(
                fields=["topic_id", "partition"],
                condition=models.Q(active=True),
                name="one_active_move_per_partition",
            ),
            models.UniqueConstraint(fields=["move", "topic_id", "partition"], name="one_row_per_move_and_partition"),
        ]
        indexes = [
            models.Index(fields=["move", "topic_name", "partition"], name="parts_of_a_move"),
            # All that `services.sums` groups by, in its order, and all that it adds up: it reads no row and sorts nothing.
            models.Index(
                fields=[
                    "move",
                    "state",
                    "cause",
                    "replicas_from",
                    "replicas_to",
                    "wanted",
                    "bytes_total",
                    "bytes_done",
                    "bytes_per_s",
                ],
                name="parts_as_sums",
            ),
            models.Index(fields=["state"], condition=models.Q(state__in=ORDER_STATES), name="parts_with_an_order"),
        ]


class MoveTransition(models.Model):
    """One change of a move's state: who and why, a person's or the worker's. Written with the change, never altered."""

    move = models.ForeignKey(Move, on_delete=models.CASCADE, related_name="transitions")
    at = models.DateTimeField(auto_now_add=True)
    state_from = models.CharField(max_length=20)
    state_to = models.CharField(max_length=20)
    who = models.CharField(max_length=150)
    why = models.TextField(default="")

    class Meta:
        ordering = ["id"]
