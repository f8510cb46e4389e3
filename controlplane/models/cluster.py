"""Observed state of the cluster. Only the monitor writes these rows (features: the controller). They contain no desired state. Every row has
`observed_at`.

Topics are joined to the rows of the desired state by id without a foreign key: the metadata log may contain topics that the database does
not have (drift). A value that could not be read is null, never zero.
"""

from __future__ import annotations

from django.db import models

from brokerd.cluster.broker_lives import DirectoryDoubt
from controlplane.domain.broker_metrics import StoredApi, StoredRejectedClient, StoredRejectedRequests
from controlplane.domain.cluster_events import ClusterEventKind
from controlplane.domain.lag import Block, LagStatus
from controlplane.domain.retention import Limit
from controlplane.domain.transactions import TransactionVerdict
from controlplane.models.choices import choices
from controlplane.models.phrase_field import phrase_field


class Cluster(models.Model):
    """One row (pk 1). `observed_at`: when the monitor last had read the metadata log to its end. `drift`: number of topics that differ between
    database and cluster, counted by the monitor every few seconds instead of by each page; null = not counted yet. `heartbeat_at`: when the monitor
    last wrote this row, also without ZooKeeper. `worker_polled_at`: when a worker last finished a poll of all rows, with a precision of some seconds.
    `spark_worker_polled_at`: the same for Spark jobs, which may have a worker of their own."""

    cluster_id = models.CharField(max_length=100, default="")
    name = models.CharField(max_length=100, default="weir")
    controller_id = models.IntegerField(null=True, help_text="Null: no active controller.")
    controller_epoch = models.BigIntegerField(null=True)
    metadata_seq = models.PositiveBigIntegerField(
        default=0, help_text="Last entry of the metadata log that the monitor has read."
    )
    zookeeper_connected = models.BooleanField(null=True)
    observed_at = models.DateTimeField(
        null=True, help_text="When the monitor last had read the metadata log to its end."
    )
    sampled_at = models.DateTimeField(null=True, help_text="When the brokers were last asked for their metrics.")
    heartbeat_at = models.DateTimeField(
        null=True, help_text="When the monitor last wrote this row, also without ZooKeeper."
    )
    worker_polled_at = models.DateTimeField(null=True, help_text="When a worker last finished a poll of all rows.")
    spark_worker_polled_at = models.DateTimeField(
        null=True, help_text="When a worker last finished a poll of Spark jobs."
    )
    sample_note = models.TextField(default="")
    drift = models.PositiveIntegerField(
        null=True, help_text="Number of topics that differ between database and cluster; null: not counted yet."
    )
    access_missing = models.PositiveIntegerField(
        null=True,
        help_text="ACLs, credentials, quotas and broker configs of the metadata log without a row, or with an older one; null: not counted yet.",
    )

    def __str__(self) -> str:
        return self.name


class ClusterEvent(models.Model):
    """A start or end of a broker, or an election, as the monitor observed it. Kept as long as ended alerts."""

    at = models.DateTimeField(db_index=True)
    kind = models.CharField(max_length=30, choices=choices(ClusterEventKind))
    subject = models.CharField(max_length=20, default="", help_text="Id of a broker or controller, or empty.")
    text = models.TextField()
    phrase = phrase_field("the text")

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return self.text


class Feature(models.Model):
    """The finalised feature level. The metadata log alone decides it. The active controller writes a copy here, for the case that the log is lost."""

    name = models.CharField(max_length=100, primary_key=True)
    level = models.PositiveIntegerField()
    controller_epoch = models.PositiveBigIntegerField()

    def __str__(self) -> str:
        return f"{self.name}={self.level}"


class BrokerQuerySet(models.QuerySet["Broker"]):
    def forget_responses(self) -> None:
        """Record that these brokers got no request since their registration changed."""
        self.update(answered=None)


class Broker(models.Model):
    """Liveness, endpoint and dynamic configs from the metadata log; values from the broker. `size_bytes`: sum of its replicas. `total_bytes` and
    `free_bytes`: of its log directory with the most free space. `replicas_on_disk`: number of replicas that it reports in its log directories.
    `dirs_failed`: names of its failed log directories, `dirs_hung`: those of them whose disk did not respond, `dirs_slow`: directories with a slow disk,
    `dir_probe_ms`: {directory: ms of the last probe, a small write}. `life`: id of its last registration. `tail_doubt`: why the broker may have lost records
    at that start; "" = no doubt."""

    broker_id = models.IntegerField(primary_key=True)
    broker_uuid = models.CharField(max_length=100, default="", verbose_name="broker UUID")
    host = models.CharField(max_length=255)
    port = models.PositiveIntegerField()
    rack = models.CharField(max_length=255, null=True)
    failure_domain = models.CharField(max_length=255, null=True)
    broker_epoch = models.BigIntegerField(verbose_name="broker epoch")
    alive = models.BooleanField()
    life = models.CharField(max_length=100, default="", verbose_name="registration id")
    tail_doubt = models.CharField(
        max_length=40, default="", blank=True, choices=choices(DirectoryDoubt), verbose_name="directory doubt"
    )
    leaders = models.PositiveIntegerField(default=0)
    replicas = models.PositiveIntegerField(default=0)
    replicas_out_of_sync = models.PositiveIntegerField(default=0)
    restart_blocked = models.PositiveIntegerField(default=0)
    restart_blockers = models.JSONField(default=list)
    configs = models.JSONField(default=dict)
    config_generation = models.PositiveBigIntegerField(default=0)
    size_bytes = models.BigIntegerField(null=True, help_text="Sum of its replicas, in bytes.")
    total_bytes = models.BigIntegerField(
        null=True, help_text="Size of its log directory with the most free space, in bytes."
    )
    free_bytes = models.BigIntegerField(null=True, help_text="Free space of that log directory, in bytes.")
    bytes_in_per_s = models.FloatField(null=True, help_text="Bytes per second that clients produce to it.")
    bytes_out_per_s = models.FloatField(null=True, help_text="Bytes per second that it sends to consumers.")
    replication_bytes_in_per_s = models.FloatField(
        null=True, help_text="Bytes per second that it copies as a follower."
    )
    replication_bytes_out_per_s = models.FloatField(null=True, help_text="Bytes per second that it sends to followers.")
    requests: models.Field[list[StoredApi], list[StoredApi]] = models.JSONField(
        default=list, help_text="Metrics of its requests by API; empty: not reported, or the broker did not answer."
    )
    refusals: models.Field[list[StoredRejectedRequests], list[StoredRejectedRequests]] = models.JSONField(
        default=list, help_text="Its rejected requests by reason; empty: none, or the broker did not answer."
    )
    refused_clients: models.Field[list[StoredRejectedClient], list[StoredRejectedClient]] = models.JSONField(
        default=list,
        help_text="Clients whose requests it rejects now, with their rates; empty: none, or the broker did not answer.",
    )
    replicas_on_disk = models.PositiveIntegerField(
        null=True,
        verbose_name="replicas reported",
        help_text="Number of replicas that the broker reports in its log directories.",
    )
    dirs_failed = models.JSONField(default=list, verbose_name="failed log directories")
    dirs_slow = models.JSONField(default=list, verbose_name="slow log directories")
    dirs_hung = models.JSONField(default=list, verbose_name="hung log directories")
    dir_probe_ms = models.JSONField(default=dict, verbose_name="probe times of log directories, ms")
    started_at = models.DateTimeField(null=True, help_text="Start of its process.")
    unclean_start = models.BooleanField(
        default=False, help_text="Whether its run before that start ended without a clean shutdown."
    )
    answered = models.BooleanField(null=True, help_text="Whether the broker answered the last request for its metrics.")
    sampled_at = models.DateTimeField(null=True)
    observed_at = models.DateTimeField()

    objects = BrokerQuerySet.as_manager()

    class Meta:
        ordering = ["broker_id"]

    def __str__(self) -> str:
        return f"broker {self.broker_id}"


class ObservedTopic(models.Model):
    """A topic of the metadata log, with the sums that lists sort by. `size_as_of`: time of the oldest size in `size_bytes`, if a size is not from
    the current leader of its partition; null = all are current."""

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
    not_preferred = models.PositiveIntegerField(
        default=0, help_text="Partitions with a leader that is not their preferred replica."
    )
    size_bytes = models.BigIntegerField(null=True, help_text="Bytes on the leaders of all partitions.")
    size_as_of = models.DateTimeField(
        null=True, help_text="Time of the oldest size, if a size is not from the current leader; null: all are current."
    )
    records = models.BigIntegerField(null=True)
    records_per_s = models.FloatField(null=True, help_text="Records per second, over all partitions.")
    bytes_in_per_s = models.FloatField(
        null=True, help_text="Bytes per second that clients produce, over all partitions."
    )
    bytes_out_per_s = models.FloatField(
        null=True, help_text="Bytes per second that are sent to consumers, over all partitions."
    )
    replication_bytes_in_per_s = models.FloatField(
        null=True, help_text="Bytes per second that followers copy, over all partitions."
    )
    observed_at = models.DateTimeField()

    class Meta:
        ordering = ["name"]
        permissions = [
            ("read_records", "May read records of topics"),
            ("produce_records", "May produce records to topics"),
        ]

    def __str__(self) -> str:
        return self.name


class ObservedPartition(models.Model):
    """A partition as in the metadata log, with the offsets that its leader reported at `sampled_at`. `observers` have replicas outside the ISR that
    start at `tail_start`. All records below `log_start_floor` were deleted by an operator. Records below `archive_start` are stored on the
    brokers `holders` (decision 036). `lagging`: values of the leader about each replica out of sync, {broker as text: [its log end offset, its
    start offset if that alone keeps it out, else -1]}; a log end offset of -1: no fetch yet. `in_trouble`: the partition has no leader or lacks
    a replica; `leader_not_preferred`: it has a leader, and that is not its first replica. Both are columns so that a list of such partitions costs one
    page among 100,000 partitions."""

    topic = models.ForeignKey(ObservedTopic, on_delete=models.CASCADE, related_name="partitions")
    index = models.PositiveIntegerField()
    replicas = models.JSONField()
    isr = models.JSONField(verbose_name="ISR")
    elr = models.JSONField(default=list, verbose_name="ELR")
    last_isr = models.JSONField(default=list)
    adding = models.JSONField(default=list)
    removing = models.JSONField(default=list)
    observers = models.JSONField(default=list)
    voters = models.JSONField(
        default=list, help_text="Replicas that vote about the leader. Only with majority acknowledgements."
    )
    tail_start = models.BigIntegerField(null=True)
    log_start_floor = models.BigIntegerField(null=True)
    archive_start = models.BigIntegerField(null=True, verbose_name="hand-over offset")
    archive_epoch = models.IntegerField(null=True, verbose_name="hand-over epoch")
    holders = models.JSONField(default=list, verbose_name="history replicas")
    lagging = models.JSONField(
        default=dict, help_text="Broker id to [log end offset, blocking start offset] of each replica out of sync."
    )
    leader = models.IntegerField(null=True)
    in_trouble = models.BooleanField(
        default=False, db_index=True, help_text="The partition has no leader or lacks a replica."
    )
    leader_not_preferred = models.BooleanField(
        default=False, db_index=True, help_text="The leader is not the preferred replica."
    )
    leader_epoch = models.IntegerField()
    partition_epoch = models.IntegerField()
    assignment_generation = models.PositiveBigIntegerField()
    start_offset = models.BigIntegerField(null=True)
    end_offset = models.BigIntegerField(null=True)
    size_bytes = models.BigIntegerField(null=True, help_text="Bytes on the leader.")
    bytes_in_per_s = models.FloatField(null=True, help_text="Bytes per second that clients produce.")
    bytes_out_per_s = models.FloatField(null=True, help_text="Bytes per second that are sent to consumers.")
    sampled_at = models.DateTimeField(null=True)
    observed_at = models.DateTimeField()

    class Meta:
        ordering = ["topic_id", "index"]
        constraints = [models.UniqueConstraint(fields=["topic", "index"], name="one_row_per_partition")]

    def __str__(self) -> str:
        return f"{self.topic_id}-{self.index}"


class ObservedReplica(models.Model):
    """One replica of a partition. `lag_records` and `size_bytes` are from its own broker; null = no response. Topic and index are those of the
    partition. They are repeated here so that one page of a broker's replicas is read in order among hundreds of thousands."""

    partition = models.ForeignKey(ObservedPartition, on_delete=models.CASCADE, related_name="replica_rows")
    broker_id = models.IntegerField()
    topic_name = models.CharField(max_length=249, default="")
    index = models.PositiveIntegerField(default=0)
    in_isr = models.BooleanField()
    end_offset = models.BigIntegerField(null=True)
    size_bytes = models.BigIntegerField(null=True, help_text="Bytes, as its broker reported; null: no response.")
    lag_records = models.BigIntegerField(null=True, help_text="Records behind the leader; null: no response.")
    sampled_at = models.DateTimeField(null=True)
    observed_at = models.DateTimeField()

    class Meta:
        ordering = ["partition_id", "broker_id"]
        constraints = [models.UniqueConstraint(fields=["partition", "broker_id"], name="one_row_per_replica")]
        indexes = [
            models.Index(fields=["broker_id", "topic_name", "index"], name="replicas_of_a_broker"),
            # Has all columns of this order: without it a page of the largest replicas reads every row of the broker.
            models.Index(fields=["broker_id", "-size_bytes", "index"], name="replicas_by_size"),
        ]

    def __str__(self) -> str:
        return f"{self.topic_name}-{self.index} on broker {self.broker_id}"


class RemoteSize(models.Model):
    """Sizes of a partition with tiered storage, in bytes, as its leader reports them. `remote_bytes`: finished copies. `local_only_bytes`: local records
    without a copy. `copying_bytes`: the segment that is being copied, 0 = none. `read_bytes_per_s`: read from the store for consumers; null = unknown.
    `local_start_offset`: the first offset of the leader's local log; null = unknown."""

    partition = models.OneToOneField(
        ObservedPartition, on_delete=models.CASCADE, primary_key=True, related_name="remote_size"
    )
    remote_bytes = models.BigIntegerField(help_text="Finished copies, in bytes.")
    local_only_bytes = models.BigIntegerField(help_text="Local records without a copy, in bytes.")
    copying_bytes = models.BigIntegerField(help_text="The segment that is being copied, in bytes; 0: none.")
    read_bytes_per_s = models.FloatField(
        null=True, help_text="Bytes per second that are read from the store for consumers; null: unknown."
    )
    local_start_offset = models.BigIntegerField(
        null=True, help_text="First offset of the leader's local log; null: unknown."
    )
    sampled_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"remote size of partition {self.partition_id}"


class LogEnds(models.Model):
    """History of a partition's log end offset, from the oldest unread record on. It preserves lag in time over a restart. `observed`:
    [[milliseconds, end], ...] (`log_ends.LogEndHistory.to_stored`)."""

    partition = models.OneToOneField(ObservedPartition, on_delete=models.CASCADE, primary_key=True)
    observed = models.JSONField(default=list, help_text="[[Unix milliseconds, log end offset], ...], the oldest first.")

    def __str__(self) -> str:
        return f"log ends of partition {self.partition_id}"


class ConsumerGroup(models.Model):
    """`lag_records` and the rates (records per second) are sums over partitions with a known lag; `partitions_unknown` counts the others.
    `lag_at_least`: `lag_ms_max` is a lower bound. `status`: `controlplane.domain.lag.LagStatus`. `lost_records`: records deleted unread within the
    last minutes. `retention_*`: the partition whose unread records are deleted first, in how many seconds, and by which config, at the current
    rates; `retention_at_most`: it may be earlier. `track`: all partitions combined, in the form that a new process continues from
    (`lag.Track`)."""

    group_id = models.CharField(primary_key=True, max_length=255)
    state = models.CharField(max_length=40)
    protocol_type = models.CharField(max_length=100, default="")
    assignor = models.CharField(max_length=100, default="")
    coordinator = models.IntegerField(null=True)
    members = models.JSONField(default=list)
    member_count = models.PositiveIntegerField(default=0)
    lag_records = models.BigIntegerField(null=True, help_text="Records, over partitions with a known lag.")
    lag_ms_max = models.BigIntegerField(null=True, help_text="Milliseconds: age of the oldest unread record.")
    lag_at_least = models.BooleanField(default=False, help_text="The lag in time is a lower bound.")
    partitions_unknown = models.PositiveIntegerField(default=0)
    status = models.CharField(max_length=20, default="unknown", choices=choices(LagStatus))
    consumed_per_s = models.FloatField(null=True, help_text="Records per second.")
    produced_per_s = models.FloatField(null=True, help_text="Records per second.")
    lost_records = models.BigIntegerField(default=0, help_text="Records deleted unread within the last minutes.")
    retention_partition = models.CharField(max_length=270, default="")
    retention_in_s = models.FloatField(null=True, help_text="Seconds until retention deletes unread records.")
    retention_limit = models.CharField(max_length=20, default="", blank=True, choices=choices(Limit))
    retention_at_most = models.BooleanField(default=False, help_text="The deletion may occur earlier.")
    track = models.JSONField(default=dict)
    observed_at = models.DateTimeField()

    class Meta:
        ordering = ["group_id"]

    def __str__(self) -> str:
        return self.group_id


class GroupPartition(models.Model):
    """The offset of a group in one partition. `lag_ms`: age of the first unread record; `lag_at_least`: it may be older. `status` and `block`:
    `controlplane.domain.lag`. `track`: the form that a new process continues from (`lag.Track`)."""

    group = models.ForeignKey(ConsumerGroup, on_delete=models.CASCADE, related_name="partitions")
    topic = models.CharField(max_length=249, db_index=True)
    index = models.PositiveIntegerField()
    committed = models.BigIntegerField(null=True)
    end_offset = models.BigIntegerField(null=True)
    lag_records = models.BigIntegerField(null=True, help_text="Records; null: unknown.")
    lag_ms = models.BigIntegerField(null=True, help_text="Milliseconds: age of the first unread record.")
    lag_at_least = models.BooleanField(default=False, help_text="The lag in time is a lower bound.")
    status = models.CharField(max_length=20, default="unknown", choices=choices(LagStatus))
    block = models.CharField(max_length=20, default="", blank=True, choices=choices(Block))
    consumed_per_s = models.FloatField(null=True, help_text="Records per second.")
    produced_per_s = models.FloatField(null=True, help_text="Records per second.")
    retention_in_s = models.FloatField(null=True, help_text="Seconds until retention deletes unread records.")
    retention_limit = models.CharField(max_length=20, default="", blank=True, choices=choices(Limit))
    track = models.JSONField(default=dict)
    member_id = models.CharField(max_length=255, default="")
    client_id = models.CharField(max_length=255, default="")
    host = models.CharField(max_length=255, default="")
    observed_at = models.DateTimeField()

    class Meta:
        ordering = ["group_id", "topic", "index"]
        constraints = [models.UniqueConstraint(fields=["group", "topic", "index"], name="one_row_per_group_partition")]

    def __str__(self) -> str:
        return f"{self.group_id}: {self.topic}-{self.index}"


class HangingTransaction(models.Model):
    """A transaction that is open in a partition and that no coordinator will end. `found_at`: by the first search that found it, `checked_at`: by the
    last one. `transactional_id` empty: no coordinator knows the producer."""

    topic = models.CharField(max_length=249)
    partition = models.PositiveIntegerField()
    producer_id = models.BigIntegerField()
    start_offset = models.BigIntegerField()
    transactional_id = models.TextField(default="", blank=True)
    verdict = models.CharField(max_length=20, choices=choices(TransactionVerdict))
    found_at = models.DateTimeField(auto_now_add=True)
    checked_at = models.DateTimeField()

    class Meta:
        ordering = ["topic", "partition", "start_offset"]
        constraints = [
            models.UniqueConstraint(
                fields=["topic", "partition", "producer_id", "start_offset"], name="one_row_per_hanging_transaction"
            )
        ]

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}@{self.start_offset}"
