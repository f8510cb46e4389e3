"""Work of the worker: replica recoveries and archive jobs. Law: the row is the queue; tasks carry ids and change rows by
compare-and-set on (id, state, version)."""

from __future__ import annotations

import uuid

from django.db import models


class RecoveryState(models.TextChoices):
    ASKED = "asked", "asked"
    RESET = "reset", "reset"
    COPYING = "copying", "copying"
    DONE = "done", "done"
    FAILED = "failed", "failed"


class ReplicaRecovery(models.Model):
    """One replica thrown away and fetched anew. `reset_seq` is the metadata log entry that told the broker to."""

    reset_id = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    topic_id = models.UUIDField()
    topic_name = models.CharField(max_length=249)
    partition = models.PositiveIntegerField()
    broker_id = models.IntegerField()
    state = models.CharField(max_length=20, choices=RecoveryState.choices, default=RecoveryState.ASKED)
    before = models.JSONField(default=dict)
    who = models.CharField(max_length=150)
    why = models.TextField(default="")
    reset_seq = models.PositiveBigIntegerField(null=True)
    controller_epoch = models.BigIntegerField(default=-1)
    bytes_total = models.BigIntegerField(null=True)
    bytes_done = models.BigIntegerField(null=True)
    note = models.TextField(default="")
    version = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["topic_id", "partition", "broker_id"],
                condition=models.Q(state__in=["asked", "reset", "copying"]),
                name="one_recovery_per_replica",
            )
        ]


class FindingKind(models.TextChoices):
    CORRUPT = "corrupt", "corrupt segment"
    DISK = "disk", "failed disk"
    LOST = "lost", "lost copy"
    DIVERGED = "diverged", "diverged log"


class ReplicaFinding(models.Model):
    """What a broker told of a damaged copy of its own. `ended_at`: it tells so no more (mended, moved away, or the broker began a new life).
    `recovery`: what was done about it."""

    topic_id = models.UUIDField()
    topic_name = models.CharField(max_length=249)
    partition = models.PositiveIntegerField()
    broker_id = models.IntegerField()
    kind = models.CharField(max_length=20, choices=FindingKind.choices)
    detail = models.TextField(default="")
    recovery = models.ForeignKey(ReplicaRecovery, null=True, on_delete=models.SET_NULL, related_name="findings")
    found_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["topic_id", "partition", "broker_id", "kind"],
                condition=models.Q(ended_at__isnull=True),
                name="one_open_finding_per_replica",
            )
        ]


class ArchiveState(models.TextChoices):
    ASKED = "asked", "asked"
    RUNNING = "running", "running"
    STOPPING = "stopping", "stopping"
    STOPPED = "stopped", "stopped"
    FAILED = "failed", "failed"


class ArchiveJob(models.Model):
    """A Spark run that archives topics to Parquet in the lake. `heartbeat_at` is from its status file, `pid` of its process.

    `restarts` counts starts after the first one; past `spark.RESTARTS_MAX` without a batch in between the job fails.
    """

    topics = models.JSONField()
    state = models.CharField(max_length=20, choices=ArchiveState.choices, default=ArchiveState.ASKED, db_index=True)
    who = models.CharField(max_length=150)
    why = models.TextField(default="")
    folder = models.CharField(max_length=500, default="")
    pid = models.IntegerField(null=True)
    pid_started_at = models.FloatField(null=True)
    restarts = models.PositiveIntegerField(default=0)
    restarts_in_a_row = models.PositiveIntegerField(default=0)
    next_start_at = models.DateTimeField(null=True)
    manifest_bytes_read = models.PositiveBigIntegerField(default=0)
    rows = models.BigIntegerField(default=0)
    batches = models.PositiveIntegerField(default=0)
    status = models.JSONField(default=dict)
    heartbeat_at = models.DateTimeField(null=True)
    note = models.TextField(default="")
    version = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]


class ArchiveBatch(models.Model):
    """What one committed micro-batch wrote of one partition: [first_offset, next_offset), `rows` rows."""

    job = models.ForeignKey(ArchiveJob, on_delete=models.CASCADE, related_name="written")
    batch = models.PositiveBigIntegerField()
    topic = models.CharField(max_length=249)
    partition = models.PositiveIntegerField()
    first_offset = models.BigIntegerField()
    next_offset = models.BigIntegerField()
    rows = models.BigIntegerField()
    read_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-batch", "topic", "partition"]
        constraints = [
            models.UniqueConstraint(fields=["job", "batch", "topic", "partition"], name="one_row_per_batch_partition")
        ]
