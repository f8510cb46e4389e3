"""A move: a durable job that changes placement. Invariants: rows change by compare-and-set on (id, state, version) only. Previous values are
written before the first effect. A constraint allows one active move per partition.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from django.db import models

from controlplane.db import codec
from controlplane.db.typed_json import TypedJSONField
from controlplane.domain import scope as scopes
from controlplane.domain import wait_reason
from controlplane.domain import window as windows
from controlplane.domain.compare import StoredComparison
from controlplane.domain.move_states import (
    FINAL,
    ORDER_STATES,
    Handover,
    MoveMode,
    MoveOrigin,
    MoveState,
    PartState,
)
from controlplane.domain.move_types import PlacementBefore
from controlplane.domain.progress import MoveTotals, Samples, StallCause, from_json, to_json
from controlplane.domain.scope import Scope
from controlplane.domain.throttle import Adaptive, ProducerLatency, ThrottlesBefore
from controlplane.domain.wait_reason import Wait
from controlplane.domain.window import Window
from controlplane.models.choices import choices
from controlplane.models.phrase_field import phrase_field
from weir_common.json_values import JsonObject
from weir_common.phrases import phrase_to_json, texts_from_json, texts_to_json, with_phrase

__all__ = [
    "FINISHED_STATES",
    "ORDER_STATES",
    "WORKING_STATES",
    "Move",
    "MovePartition",
    "MoveState",
    "MoveTransition",
    "PartState",
]


FINISHED_STATES = FINAL
WORKING_STATES = (
    MoveState.RUNNING,
    MoveState.PAUSED,
    MoveState.VERIFYING,
    MoveState.CANCELLING,
    MoveState.ROLLING_BACK,
)


class Move(models.Model):
    """`scope` is the request, as typed values (`controlplane.domain.scope`). `parts_in_flight_max` limits concurrent copies, `parts_per_broker_max`
    those that use one broker. `throttle_bytes_per_s` is per broker; None = none. `throttled`: the move had a throttle at some time, so its end
    waits until none is left. `throttles_before`: the throttles in force at its start (by topic and broker).

    `samples`: progress.Sample rows of the whole move. Rate, ETA and `needs_bytes_per_s` (set: it cannot finish below this rate) derive from them.
    `waits_for`: what the move waits for, if none of its partitions progresses (`controlplane.domain.move_wait`).
    `overrides`: safety rules (sentences) that the move overrides. It starts only after a second user has approved it.
    `window` (see `controlplane.domain.window`): copies start only within it; None = always. `resumes_at`: its next opening, while the move waits
    for it (approved, or paused by the window and not by a user).
    `adaptive`: the throttle follows the p99 of producers (`services.adaptive_throttle`). None = fixed.
    `deadline_hours`: hours after the start for which the move waits for retention (mode tail); then it requests a deletion. None = no limit.
    `handover`: "early" hands over (mode tail) as soon as the new replicas are in step; the old replicas keep the older records. "" waits for
    retention.
    `producer_latency`: latency of producers of the used brokers during the copy (`services.adaptive_throttle`).
    `sums`: totals over the partitions of a finished move (`services.move_totals`), so that a list of old moves costs one page; null = not stored yet.
    `step` counts the steps, `version` every write: a task that read an older version changes nothing.
    """

    mode = models.CharField(max_length=10, default=MoveMode.COPY.value, choices=choices(MoveMode))
    origin = models.CharField(max_length=10, default=MoveOrigin.OPERATOR.value, choices=choices(MoveOrigin))
    scope: models.Field[Scope, Scope] = TypedJSONField(
        load=scopes.parse, dump=scopes.to_json, default=scopes.PartitionsScope
    )
    state = models.CharField(max_length=20, choices=choices(MoveState), default=MoveState.PLANNED.value, db_index=True)
    actor = models.CharField(max_length=150)
    comment = models.TextField(default="")
    parts_in_flight_max = models.PositiveIntegerField(default=8, help_text="Concurrent copies of the move.")
    parts_per_broker_max = models.PositiveIntegerField(default=4, help_text="Concurrent copies that use one broker.")
    throttle_bytes_per_s = models.PositiveBigIntegerField(
        null=True, verbose_name="throttle", help_text="Bytes per second and broker; null: no throttle."
    )
    throttled = models.BooleanField(default=False, help_text="The move had a throttle at some time.")
    throttles_before: models.Field[ThrottlesBefore, ThrottlesBefore] = TypedJSONField(
        ThrottlesBefore, default=ThrottlesBefore
    )
    samples: models.Field[Samples, Samples] = TypedJSONField(load=from_json, dump=to_json, default=tuple)
    bytes_per_s = models.FloatField(null=True, verbose_name="rate", help_text="Bytes per second.")
    ends_in_s_min = models.FloatField(null=True, help_text="Seconds, estimated.")
    ends_in_s_max = models.FloatField(null=True, help_text="Seconds, estimated.")
    needs_bytes_per_s = models.PositiveBigIntegerField(
        null=True, help_text="Bytes per second and broker below which the move cannot finish; null: it can."
    )
    waits_for: models.Field[tuple[Wait, ...], tuple[Wait, ...]] = TypedJSONField(
        load=wait_reason.from_json, dump=wait_reason.to_json, default=tuple
    )
    sums: models.Field[MoveTotals | None, MoveTotals | None] = TypedJSONField(MoveTotals, null=True)
    step = models.PositiveIntegerField(default=0, help_text="Number of steps of the worker.")
    version = models.PositiveIntegerField(default=0, help_text="Number of writes, for compare-and-set.")
    note = models.TextField(default="")
    note_phrase = phrase_field("the note")
    overrides: models.Field[tuple[str, ...], tuple[str, ...]] = TypedJSONField(
        load=texts_from_json,
        dump=texts_to_json,
        default=tuple,
        help_text="Violated safety rules that the move overrides, as sentences.",
    )
    window: models.Field[Window | None, Window | None] = TypedJSONField(
        load=windows.read, dump=windows.to_json, null=True
    )
    resumes_at = models.DateTimeField(null=True, help_text="Next opening of the window, while the move waits for it.")
    adaptive: models.Field[Adaptive | None, Adaptive | None] = TypedJSONField(Adaptive, null=True)
    deadline_hours = models.PositiveIntegerField(
        null=True,
        verbose_name="deadline",
        help_text="Hours after the start that the move waits for retention; null: no limit.",
    )
    producer_latency: models.Field[ProducerLatency, ProducerLatency] = TypedJSONField(
        ProducerLatency, default=ProducerLatency
    )
    handover = models.CharField(max_length=10, default="", blank=True, choices=choices(Handover))
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"move {self.pk}"

    @property
    def deadline(self) -> datetime | None:
        """Time at which the deletion of old records is due; None: never, or the move has not started."""
        if self.started_at is None or self.deadline_hours is None:
            return None
        return self.started_at + timedelta(hours=self.deadline_hours)


def _read_comparison(stored: JsonObject) -> StoredComparison:
    phrase = stored.get("phrase", {})
    found = codec.decode(StoredComparison, {name: value for name, value in stored.items() if name != "phrase"})
    assert isinstance(found, StoredComparison) and isinstance(phrase, dict)
    return replace(found, text=with_phrase(found.text, phrase))


def _comparison_json(value: StoredComparison) -> JsonObject:
    """With the phrase of the text, for other languages. Raises TypeError."""
    if not isinstance(value, StoredComparison):
        raise TypeError(f"{value!r} is not a StoredComparison")
    stored = codec.encode(value)
    assert isinstance(stored, dict)
    phrase = phrase_to_json(value.text)
    return stored | ({"phrase": phrase} if phrase else {})


class MovePartition(models.Model):
    """One partition of a move. `before`: the placement at planning time.

    `read_generation`: the assignment generation that the order in `desired_replicas` is bound to. The controller reads `desired_replicas` while the
    state is one of ORDER_STATES (`tail.order` gives the order). `active`: the partition belongs to an unfinished move. `cause`: a
    progress.StallCause or "".

    If old replicas are removed, `desired_replicas` is first the old and new replicas together, then `replicas_to`. `compared` is the comparison in
    between (null = not yet or not requested; `equal` null = equal so far, up to `after` of `upto`).

    In mode tail, new replicas start at `tail_start`, since `tail_at`. `delete_below`: an operator deleted all records below this offset.
    `hand_over_at`: the hand-over offset; the old replicas keep the records below it.
    """

    move = models.ForeignKey(Move, on_delete=models.CASCADE, related_name="parts")
    topic_id = models.UUIDField()
    topic_name = models.CharField(max_length=249)
    partition = models.PositiveIntegerField()
    before: models.Field[PlacementBefore, PlacementBefore] = TypedJSONField(PlacementBefore)
    replicas_from = models.JSONField()
    replicas_to = models.JSONField()
    desired_replicas = models.JSONField()
    read_generation = models.PositiveBigIntegerField(help_text="Assignment generation that the order is bound to.")
    state = models.CharField(max_length=20, choices=choices(PartState), default=PartState.WAITING.value)
    active = models.BooleanField(default=True, help_text="The partition belongs to an unfinished move.")
    bytes_total = models.BigIntegerField(null=True, help_text="Bytes to copy; null: unknown.")
    bytes_done = models.BigIntegerField(null=True, help_text="Bytes copied; null: unknown.")
    samples: models.Field[Samples, Samples] = TypedJSONField(load=from_json, dump=to_json, default=tuple)
    bytes_per_s = models.FloatField(null=True, verbose_name="rate", help_text="Bytes per second.")
    tail_start = models.BigIntegerField(null=True, help_text="First offset of the new replicas (mode tail).")
    tail_at = models.DateTimeField(null=True)
    delete_below = models.BigIntegerField(null=True, help_text="An operator deleted all records below this offset.")
    hand_over_at = models.BigIntegerField(
        null=True, help_text="Hand-over offset; the old replicas keep the records below it."
    )
    cause = models.CharField(max_length=20, default="", blank=True, choices=choices(StallCause))
    progress_at = models.DateTimeField(null=True)
    submitted_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    note = models.TextField(default="")
    note_phrase = phrase_field("the note")
    compared: models.Field[StoredComparison | None, StoredComparison | None] = TypedJSONField(
        load=_read_comparison, dump=_comparison_json, null=True
    )
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
            # All columns that `services.move_totals` groups by, in its order, and all that it sums: the query reads no row and sorts nothing.
            models.Index(
                fields=[
                    "move",
                    "state",
                    "cause",
                    "replicas_from",
                    "replicas_to",
                    "desired_replicas",
                    "bytes_total",
                    "bytes_done",
                    "bytes_per_s",
                ],
                name="parts_as_sums",
            ),
            models.Index(
                fields=["state"],
                condition=models.Q(state__in=[s.value for s in ORDER_STATES]),
                name="parts_with_an_order",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.topic_name}-{self.partition} of move {self.move_id}"


class MoveTransition(models.Model):
    """One change of the state of a move, by a user or the worker. Written in the transaction of the change, never altered."""

    move = models.ForeignKey(Move, on_delete=models.CASCADE, related_name="transitions")
    at = models.DateTimeField(auto_now_add=True)
    state_from = models.CharField(max_length=20, choices=choices(MoveState))
    state_to = models.CharField(max_length=20, choices=choices(MoveState))
    actor = models.CharField(max_length=150)
    comment = models.TextField(default="")
    comment_phrase = phrase_field("a comment of the worker")

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"move {self.move_id}: {self.state_from} to {self.state_to}"
