"""Spark jobs and their runs. The row of a run is the queue: tasks carry its id and change it by compare-and-set on (id, state, version)."""

from __future__ import annotations

from django.db import models

from controlplane.models.phrase_field import phrase_field
from weir_common.spark_jobs import KINDS


class SparkRunState(models.TextChoices):
    REQUESTED = "requested", "requested"
    RUNNING = "running", "running"
    STOPPING = "stopping", "stopping"
    FINISHED = "finished", "finished"
    STOPPED = "stopped", "stopped"
    FAILED = "failed", "failed"


ACTIVE_STATES = (SparkRunState.REQUESTED, SparkRunState.RUNNING, SparkRunState.STOPPING)


def kind_choices() -> list[tuple[str, str]]:
    """(name, title) of each kind of job. A function, so that a new kind needs no migration."""
    return [(kind.name, kind.title) for kind in KINDS.values()]


class SparkJob(models.Model):
    """The work of a run: a kind of `weir_common.spark_jobs`, its parameters, and when. `deleted_at`: the job is hidden, its runs remain.
    `version`: number of changes by operators. Runs do not change it."""

    name = models.CharField(max_length=100)
    kind = models.CharField(max_length=40, choices=kind_choices, db_index=True)
    parameters = models.JSONField(default=dict)
    schedule = models.CharField(max_length=100, default="", help_text="Cron expression in UTC; empty for none.")
    next_run_at = models.DateTimeField(null=True, db_index=True)
    actor = models.CharField(max_length=150)
    comment = models.TextField(default="")
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)
    deleted_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["name"], condition=models.Q(deleted_at__isnull=True), name="one_spark_job_per_name"
            )
        ]

    def __str__(self) -> str:
        return f"Spark job {self.name}"


class SparkRun(models.Model):
    """One run of a job. `parameters` are those of its start. `status` is the driver's status file, `restarts` counts starts after the first one."""

    job = models.ForeignKey(SparkJob, on_delete=models.CASCADE, related_name="runs")
    state = models.CharField(
        max_length=20, choices=SparkRunState.choices, default=SparkRunState.REQUESTED, db_index=True
    )
    parameters = models.JSONField(default=dict)
    actor = models.CharField(max_length=150)
    pid = models.IntegerField(null=True, verbose_name="process id")
    pid_started_at = models.FloatField(null=True, help_text="Unix seconds.")
    restarts = models.PositiveIntegerField(default=0, help_text="Starts after the first one.")
    restarts_in_a_row = models.PositiveIntegerField(default=0, help_text="Restarts without progress in between.")
    next_start_at = models.DateTimeField(null=True)
    progress = models.BigIntegerField(default=0, help_text="Batches or steps that the driver has finished.")
    status = models.JSONField(default=dict)
    heartbeat_at = models.DateTimeField(null=True, help_text="Time of the status file.")
    note = models.TextField(default="")
    note_phrase = phrase_field("the note")
    version = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["job"],
                condition=models.Q(state__in=[s.value for s in ACTIVE_STATES]),
                name="one_active_run_per_spark_job",
            )
        ]

    def __str__(self) -> str:
        return f"run {self.pk} of Spark job {self.job_id}"
