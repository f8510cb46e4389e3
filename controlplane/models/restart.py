"""A rolling restart: brokers restarted one after the other, as a durable job. Rows change by compare-and-set on (id, state, version) only.
A constraint allows one unfinished restart at a time.
"""

from __future__ import annotations

from django.db import models

from controlplane.db.typed_json import TypedJSONField
from controlplane.domain.restart import ProcessIdentity, RestartState, StepState
from controlplane.models.choices import choices
from controlplane.models.phrase_field import phrase_field

WORKING = (RestartState.RUNNING, RestartState.PAUSED, RestartState.CANCELLING)


class RollingRestart(models.Model):
    """`by_supervisor`: the supervisor of the local cluster restarts the processes; otherwise an operator restarts each broker that the job names. `turn`
    is 1 while the restart is unfinished and null afterwards; it is unique, so two restarts cannot be unfinished."""

    state = models.CharField(
        max_length=20, choices=choices(RestartState), default=RestartState.RUNNING.value, db_index=True
    )
    by_supervisor = models.BooleanField(
        verbose_name="by supervisor", help_text="The supervisor of the local cluster restarts the processes."
    )
    actor = models.CharField(max_length=150)
    comment = models.TextField(default="")
    note = models.TextField(default="")
    note_phrase = phrase_field("the note")
    turn = models.PositiveSmallIntegerField(
        null=True, default=1, unique=True, help_text="1 while unfinished, then null: at most one restart is unfinished."
    )
    version = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"rolling restart {self.pk}"


class RestartStep(models.Model):
    """The step of one broker. `broker_epoch`: its registration before the restart. `process`: what the supervisor must end (pid and start time), so
    that no later process of that name is ended. `leads_before`: no other user had demoted the broker."""

    restart = models.ForeignKey(RollingRestart, on_delete=models.CASCADE, related_name="steps")
    place = models.PositiveIntegerField(help_text="Place in the order, from 0.")
    broker_id = models.IntegerField()
    state = models.CharField(max_length=20, choices=choices(StepState), default=StepState.WAITING.value)
    broker_epoch = models.BigIntegerField(
        null=True, verbose_name="broker epoch", help_text="Broker epoch before the restart."
    )
    process: models.Field[ProcessIdentity | None, ProcessIdentity | None] = TypedJSONField(
        ProcessIdentity, null=True, help_text="pid and start time of the process to end."
    )
    leads_before = models.BooleanField(default=True, help_text="The broker was not demoted before the restart.")
    note = models.TextField(default="")
    note_phrase = phrase_field("the note")
    began_at = models.DateTimeField(null=True)
    asked_at = models.DateTimeField(null=True)
    back_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["restart_id", "place"]
        constraints = [models.UniqueConstraint(fields=["restart", "broker_id"], name="one_turn_per_broker")]

    def __str__(self) -> str:
        return f"broker {self.broker_id} of rolling restart {self.restart_id}"
