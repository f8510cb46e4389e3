"""Jobs of the worker: replica recoveries and archive jobs. The row is the queue. Tasks carry ids and change rows by compare-and-set on
(id, state, version).
"""

from __future__ import annotations

import uuid

from django.db import models

from controlplane.models.phrase_field import phrase_field


class RecoveryState(models.TextChoices):
    REQUESTED = "requested", "requested"
    RESET = "reset", "reset"
    COPYING = "copying", "copying"
    DONE = "done", "done"
    FAILED = "failed", "failed"


class ReplicaRecovery(models.Model):
    """A recovery: one replica is deleted and fetched again from its leader. `reset_seq`: the entry of the metadata log that orders it."""

    reset_id = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    topic_id = models.UUIDField()
    topic_name = models.CharField(max_length=249)
    partition = models.PositiveIntegerField()
    broker_id = models.IntegerField()
    state = models.CharField(max_length=20, choices=RecoveryState.choices, default=RecoveryState.REQUESTED)
    before = models.JSONField(default=dict)
    actor = models.CharField(max_length=150)
    comment = models.TextField(default="")
    reset_seq = models.PositiveBigIntegerField(
        null=True, help_text="Entry of the metadata log that orders the recovery."
    )
    controller_epoch = models.BigIntegerField(default=-1)
    bytes_total = models.BigIntegerField(null=True, help_text="Bytes to copy; null: unknown.")
    bytes_done = models.BigIntegerField(null=True, help_text="Bytes copied; null: unknown.")
    note = models.TextField(default="")
    note_phrase = phrase_field("the note")
    version = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["topic_id", "partition", "broker_id"],
                condition=models.Q(state__in=["requested", "reset", "copying"]),
                name="one_recovery_per_replica",
            )
        ]

    def __str__(self) -> str:
        return f"recovery {self.pk} of {self.topic_name}-{self.partition} on broker {self.broker_id}"


class DamageKind(models.TextChoices):
    CORRUPT = "corrupt", "corrupt segment"
    DISK = "disk", "failed disk"
    LOST = "lost", "lost replica"
    DIVERGED = "diverged", "diverged log"


class ReplicaDamageReport(models.Model):
    """Damage of a replica, as reported by its broker. `ended_at`: the broker no longer reports it (repaired, moved, or the broker restarted).
    `recovery`: the recovery of the replica, if any."""

    topic_id = models.UUIDField()
    topic_name = models.CharField(max_length=249)
    partition = models.PositiveIntegerField()
    broker_id = models.IntegerField()
    kind = models.CharField(max_length=20, choices=DamageKind.choices)
    detail = models.TextField(default="")
    recovery = models.ForeignKey(ReplicaRecovery, null=True, on_delete=models.SET_NULL, related_name="damage_reports")
    found_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, help_text="When its broker stopped reporting it; null: still reported.")

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["topic_id", "partition", "broker_id", "kind"],
                condition=models.Q(ended_at__isnull=True),
                name="one_open_damage_report_per_replica",
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind}: {self.topic_name}-{self.partition} on broker {self.broker_id}"


class ArchiveState(models.TextChoices):
    REQUESTED = "requested", "requested"
    RUNNING = "running", "running"
    STOPPING = "stopping", "stopping"
    STOPPED = "stopped", "stopped"
    FAILED = "failed", "failed"


class ArchiveJob(models.Model):
    """A Spark run that archives topics to Parquet in the lake. `heartbeat_at` is from its status file, `pid` is the pid of its process.

    `restarts` counts starts after the first one. The job fails after `driver_restarts.RESTARTS_MAX` restarts without a batch in between.
    """

    topics = models.JSONField()
    state = models.CharField(max_length=20, choices=ArchiveState.choices, default=ArchiveState.REQUESTED, db_index=True)
    actor = models.CharField(max_length=150)
    comment = models.TextField(default="")
    folder = models.CharField(max_length=500, default="", help_text="Directory of the job in the lake.")
    pid = models.IntegerField(null=True, verbose_name="process id")
    pid_started_at = models.FloatField(null=True, help_text="Unix seconds.")
    restarts = models.PositiveIntegerField(default=0, help_text="Starts after the first one.")
    restarts_in_a_row = models.PositiveIntegerField(default=0, help_text="Restarts without a batch in between.")
    next_start_at = models.DateTimeField(null=True)
    manifest_bytes_read = models.PositiveBigIntegerField(
        default=0, help_text="Bytes of the manifest that were read back."
    )
    rows = models.BigIntegerField(default=0, help_text="Rows written to the lake.")
    batches = models.PositiveIntegerField(default=0)
    status = models.JSONField(default=dict)
    heartbeat_at = models.DateTimeField(null=True, help_text="Time in the status file of the job.")
    note = models.TextField(default="")
    note_phrase = phrase_field("the note")
    version = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"archive job {self.pk}"


class ArchiveBatch(models.Model):
    """The records of one partition in a committed micro-batch: [first_offset, next_offset), `rows` rows."""

    job = models.ForeignKey(ArchiveJob, on_delete=models.CASCADE, related_name="written")
    batch = models.PositiveBigIntegerField()
    topic = models.CharField(max_length=249)
    partition = models.PositiveIntegerField()
    first_offset = models.BigIntegerField(help_text="First offset of the batch.")
    next_offset = models.BigIntegerField(help_text="Offset after the last one of the batch.")
    rows = models.BigIntegerField()
    read_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-batch", "topic", "partition"]
        constraints = [
            models.UniqueConstraint(fields=["job", "batch", "topic", "partition"], name="one_row_per_batch_partition")
        ]

    def __str__(self) -> str:
        return f"batch {self.batch} of archive job {self.job_id}: {self.topic}-{self.partition}"
