"""A rolling restart: brokers restarted one after the other, as a durable job. Law: rows change by compare-and-set on (id, state, version) only;
one unfinished restart at a time is a constraint, not a check."""

from __future__ import annotations

from django.db import models


class RestartState(models.TextChoices):
    RUNNING = "running", "running"
    PAUSED = "paused", "paused"
    CANCELLING = "cancelling", "cancelling"
    DONE = "done", "done"
    CANCELLED = "cancelled", "cancelled"


WORKING = (RestartState.RUNNING, RestartState.PAUSED, RestartState.CANCELLING)


class StepState(models.TextChoices):
    WAITING = "waiting", "waiting"
    LEADERS_OFF = "leaders_off", "leaders off"
    RESTARTING = "restarting", "restarting"
    CATCHING_UP = "catching_up", "catching up"
    DONE = "done", "done"
    SKIPPED = "skipped", "skipped"


class RollingRestart(models.Model):
    """`by_house`: the house's supervisor restarts the processes; else an operator does when the job names the broker. `turn` is 1 while it is
    unfinished and null afterwards: two with 1 cannot be."""

    state = models.CharField(max_length=20, choices=RestartState.choices, default=RestartState.RUNNING, db_index=True)
    by_house = models.BooleanField()
    who = models.CharField(max_length=150)
    why = models.TextField(default="")
    note = models.TextField(default="")
    turn = models.PositiveSmallIntegerField(null=True, default=1, unique=True)
    version = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]


class RestartStep(models.Model):
    """One broker's turn. `incarnation`: its life before, which ends. `process`: what the supervisor is to end (pid and start time), so that no
    later process of that name is ended for it. `leads_before`: leadership had not been taken off it by somebody else."""

    restart = models.ForeignKey(RollingRestart, on_delete=models.CASCADE, related_name="steps")
    place = models.PositiveIntegerField()
    broker_id = models.IntegerField()
    state = models.CharField(max_length=20, choices=StepState.choices, default=StepState.WAITING)
    incarnation = models.BigIntegerField(null=True)
    process = models.JSONField(null=True)
    leads_before = models.BooleanField(default=True)
    note = models.TextField(default="")
    began_at = models.DateTimeField(null=True)
    asked_at = models.DateTimeField(null=True)
    back_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["restart_id", "place"]
        constraints = [models.UniqueConstraint(fields=["restart", "broker_id"], name="one_turn_per_broker")]
