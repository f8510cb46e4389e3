"""What the observer saw. Law: only the observer writes here (features: the controller); no row carries a wish. Every row carries `observed_at`.

Topics are joined to the wanted rows by id without a foreign key: the log may know topics that the database does not (drift).
A figure that could not be read is null, never zero.
"""

from __future__ import annotations

from django.db import models


class Cluster(models.Model):
    """One row (pk 1). `observed_at` is when the observer last had read the metadata log to its head. `drift`: topics that differ between database and
    cluster, counted by the observer every few seconds, and not by each reader of a page; null = not counted yet."""

    cluster_id = models.CharField(max_length=100, default="")
    name = models.CharField(max_length=100, default="weir")
    controller_id = models.IntegerField(null=True)
    controller_epoch = models.BigIntegerField(null=True)
    metadata_seq = models.PositiveBigIntegerField(default=0)
    zookeeper_connected = models.BooleanField(null=True)
    observed_at = models.DateTimeField(null=True)
    sampled_at = models.DateTimeField(null=True)
    sample_note = models.TextField(default="")
    drift = models.PositiveIntegerField(null=True)


class Feature(models.Model):
    """What was finalised last in the metadata log, which alone decides it. Written by the acting controller, for the day when that log is lost."""

    name = models.CharField(max_length=100, primary_key=True)
    level = models.PositiveIntegerField()
    controller_epoch = models.PositiveBigIntegerField()


class Broker(models.Model):
    """Liveness, endpoint and dynamic configs from the metadata log, figures from the brokers. `size_bytes` is the sum of its replicas,
    `total_bytes` and `free_bytes` are of its directory with most room; `held` is how many replicas it says lie in its directories, `dirs_failed`
    names those of them that failed."""

    broker_id = models.IntegerField(primary_key=True)
    broker_uuid = models.CharField(max_length=100, default="")
    host = models.CharField(max_length=255)
    port = models.PositiveIntegerField()
    rack = models.CharField(max_length=255, null=True)
    failure_domain = models.CharField(max_length=255, null=True)
    incarnation = models.BigIntegerField()
    alive = models.BooleanField()
    leaders = models.PositiveIntegerField(default=0)
    replicas = models.PositiveIntegerField(default=0)
    replicas_out_of_sync = models.PositiveIntegerField(default=0)
    restart_blocked = models.PositiveIntegerField(default=0)
    restart_blockers = models.JSONField(default=list)
    configs = models.JSONField(default=dict)
    config_generation = models.PositiveBigIntegerField(default=0)
    size_bytes = models.BigIntegerField(null=True)
    total_bytes = models.BigIntegerField(null=True)
    free_bytes = models.BigIntegerField(null=True)
    held = models.PositiveIntegerField(null=True)
    dirs_failed = models.JSONField(default=list)
    answered = models.BooleanField(null=True)
    sampled_at = models.DateTimeField(null=True)
    observed_at = models.DateTimeField()

    class Meta:
        ordering = ["broker_id"]


class ObservedTopic(models.Model):
    """A topic of the metadata log, with the sums that lists sort by."""

    id = models.UUIDField(primary_key=True)
    name = models.CharField(max_length=249, db_index=True)
    generation = models.PositiveBigIntegerField()
    configs = models.JSONField(default=dict)
    partition_count = models.PositiveIntegerField()
    replication_factor = models.PositiveSmallIntegerField()
    ready = models.BooleanField()
    internal = models.BooleanField()
    under_replicated = models.PositiveIntegerField(default=0)
    under_min_isr = models.PositiveIntegerField(default=0)
    offline = models.PositiveIntegerField(default=0)
    reassigning = models.PositiveIntegerField(default=0)
    size_bytes = models.BigIntegerField(null=True)
    records = models.BigIntegerField(null=True)
    records_per_s = models.FloatField(null=True)
    observed_at = models.DateTimeField()

    class Meta:
        ordering = ["name"]


class Partition(models.Model):
    """One partition as the metadata log has it, and its offsets as its leader answered at `sampled_at`. `observers`
    hold copies from `tail_start` on that count for nothing; below `log_start_floor` everything was deleted by order. Records below
    `archive_start` are with `holders` (decision 036). `lagging`: what its leader counts of each copy that is out of sync, {broker as text:
    [its end, its start where that alone keeps it out, else -1]}, an end of -1 where it has asked for nothing yet. `in_trouble`: it has no leader or
    lacks a replica; kept as a column so that the list of troubles costs a page among 100,000 partitions."""

    topic = models.ForeignKey(ObservedTopic, on_delete=models.CASCADE, related_name="partitions")
    index = models.PositiveIntegerField()
    replicas = models.JSONField()
    isr = models.JSONField()
    elr = models.JSONField(default=list)
    last_isr = models.JSONField(default=list)
    adding = models.JSONField(default=list)
    removing = models.JSONField(default=list)
    observers = models.JSONField(default=list)
    tail_start = models.BigIntegerField(null=True)
    log_start_floor = models.BigIntegerField(null=True)
    archive_start = models.BigIntegerField(null=True)
    archive_epoch = models.IntegerField(null=True)
    holders = models.JSONField(default=list)
    lagging = models.JSONField(default=dict)
    leader = models.IntegerField(null=True)
    in_trouble = models.BooleanField(default=False, db_index=True)
    leader_epoch = models.IntegerField()
    partition_epoch = models.IntegerField()
    assignment_generation = models.PositiveBigIntegerField()
    start_offset = models.BigIntegerField(null=True)
    end_offset = models.BigIntegerField(null=True)
    size_bytes = models.BigIntegerField(null=True)
    sampled_at = models.DateTimeField(null=True)
    observed_at = models.DateTimeField()

    class Meta:
        ordering = ["topic_id", "index"]
        constraints = [models.UniqueConstraint(fields=["topic", "index"], name="one_row_per_partition")]


class Replica(models.Model):
    """One copy of a partition. `lag_records` and `size_bytes` are what its own broker answered; null = it did not. Topic and index are its
    partition's, kept here so that a page of one broker's replicas is read in order among hundreds of thousands."""

    partition = models.ForeignKey(Partition, on_delete=models.CASCADE, related_name="replica_rows")
    broker_id = models.IntegerField()
    topic_name = models.CharField(max_length=249, default="")
    index = models.PositiveIntegerField(default=0)
    in_isr = models.BooleanField()
    end_offset = models.BigIntegerField(null=True)
    size_bytes = models.BigIntegerField(null=True)
    lag_records = models.BigIntegerField(null=True)
    sampled_at = models.DateTimeField(null=True)
    observed_at = models.DateTimeField()

    class Meta:
        ordering = ["partition_id", "broker_id"]
        constraints = [models.UniqueConstraint(fields=["partition", "broker_id"], name="one_row_per_replica")]
        indexes = [models.Index(fields=["broker_id", "topic_name", "index"], name="replicas_of_a_broker")]


class ConsumerGroup(models.Model):
    """`lag_records` sums the partitions whose lag is known; `partitions_unknown` counts the others."""

    group_id = models.CharField(primary_key=True, max_length=255)
    state = models.CharField(max_length=40)
    protocol_type = models.CharField(max_length=100, default="")
    assignor = models.CharField(max_length=100, default="")
    coordinator = models.IntegerField(null=True)
    members = models.JSONField(default=list)
    member_count = models.PositiveIntegerField(default=0)
    lag_records = models.BigIntegerField(null=True)
    lag_ms_max = models.BigIntegerField(null=True)
    partitions_unknown = models.PositiveIntegerField(default=0)
    verdict = models.CharField(max_length=20, default="UNKNOWN")
    observed_at = models.DateTimeField()

    class Meta:
        ordering = ["group_id"]


class GroupPartition(models.Model):
    """A group's place in one partition. `lag_ms` is how long ago the record after the committed offset was the newest one."""

    group = models.ForeignKey(ConsumerGroup, on_delete=models.CASCADE, related_name="partitions")
    topic = models.CharField(max_length=249, db_index=True)
    index = models.PositiveIntegerField()
    committed = models.BigIntegerField(null=True)
    end_offset = models.BigIntegerField(null=True)
    lag_records = models.BigIntegerField(null=True)
    lag_ms = models.BigIntegerField(null=True)
    verdict = models.CharField(max_length=20, default="UNKNOWN")
    member_id = models.CharField(max_length=255, default="")
    client_id = models.CharField(max_length=255, default="")
    host = models.CharField(max_length=255, default="")
    observed_at = models.DateTimeField()

    class Meta:
        ordering = ["group_id", "topic", "index"]
        constraints = [models.UniqueConstraint(fields=["group", "topic", "index"], name="one_row_per_group_partition")]
