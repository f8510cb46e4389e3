"""Types of the data of live updates (`live_events`), as the monitor publishes them and as the console reads them. They have JSON types only.

Does not contain: the values of the cluster, whose shape is `selectors.overview.Overview`.
"""

from __future__ import annotations

from typing import NotRequired, TypedDict

from controlplane.domain.wait_reason import WaitShape
from weir_common.json_values import JsonObject


class ByteRates(TypedDict, total=False):
    """Bytes per second. A rate is absent or null while it is unknown."""

    bytes_in_per_s: float | None
    bytes_out_per_s: float | None
    replication_bytes_in_per_s: float | None
    replication_bytes_out_per_s: float | None


class BrokerShape(ByteRates):
    """`size_as_of_ms`: the last response of a broker that does not respond now, Unix ms. None: its values are current."""

    broker_id: int
    alive: bool
    leaders: int
    replicas: int
    replicas_out_of_sync: int
    size_bytes: int | None
    answered: bool | None
    total_bytes: NotRequired[int | None]
    free_bytes: NotRequired[int | None]
    disk_alert: NotRequired[str]
    cordoned: NotRequired[bool]
    leads: NotRequired[bool]
    replicas_on_disk: NotRequired[int | None]
    dirs_failed: NotRequired[list[str]]
    dirs_slow: NotRequired[list[str]]
    started_ms: NotRequired[int | None]
    size_as_of_ms: NotRequired[int | None]


class BrokersUpdate(TypedDict):
    """All brokers."""

    brokers: list[BrokerShape]


class PartitionShape(TypedDict):
    """`down`: replicas whose broker is down."""

    index: int
    leader: int | None
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    adding: list[int]
    removing: list[int]
    down: list[int]
    min_isr: int
    start_offset: int | None
    end_offset: int | None
    size_bytes: int | None
    bytes_in_per_s: NotRequired[float | None]
    bytes_out_per_s: NotRequired[float | None]


class PartitionsUpdate(TypedDict):
    """Partitions of one topic that changed."""

    topic: str
    topic_id: str
    partitions: list[PartitionShape]


class TopicShape(ByteRates):
    name: str
    under_replicated: int
    under_min_isr: int
    offline: int
    reassigning: int
    not_preferred: int
    size_bytes: int | None
    size_as_of_ms: int | None
    records: int | None
    records_per_s: float | None
    partitions: NotRequired[int]
    internal: NotRequired[bool]


class TopicsUpdate(TypedDict):
    """Topics that changed, and the names of deleted topics."""

    topics: list[TopicShape]
    gone: NotRequired[list[str]]


class GroupShape(TypedDict):
    """`lag_at_least`: the lag in time is a lower bound. `retention_at_most`: the time until retention deletes unread records is an upper bound."""

    group_id: str
    state: str
    member_count: int
    lag_records: int | None
    lag_ms_max: int | None
    lag_at_least: bool
    status: str
    consumed_per_s: float | None
    produced_per_s: float | None
    lost_records: NotRequired[int]
    retention_partition: str
    retention_in_s: float | None
    retention_limit: str
    retention_at_most: bool


class GroupsUpdate(TypedDict):
    """Groups that changed, and the ids of deleted groups. `statuses_changed`: one of them has another lag status than before, so lists by status change."""

    groups: list[GroupShape]
    statuses_changed: bool
    gone: NotRequired[list[str]]


class PartitionLagShape(TypedDict):
    """`committed`: null if the group has committed no offset. `block`: why no consumer can read the partition, or ""."""

    topic: str
    index: int
    committed: int | None
    end_offset: int | None
    lag_records: int | None
    lag_ms: int | None
    lag_at_least: bool
    status: str
    block: str
    retention_in_s: float | None
    client_id: str


class LagUpdate(TypedDict):
    """All partitions of one group."""

    group_id: str
    partitions: list[PartitionLagShape]


class SharePartitionShape(TypedDict):
    topic: str
    index: int
    start_offset: int | None
    lag_records: int | None
    lag_ms: int | None
    lag_at_least: bool
    status: str
    block: str


class ShareGroupShape(TypedDict):
    """`lag_at_least`: the lag in time is a lower bound. `status`: `controlplane.domain.lag.LagStatus`."""

    group_id: str
    state: str
    member_count: int
    lag_records: int | None
    lag_ms_max: int | None
    lag_at_least: bool
    status: str
    partitions_unknown: int
    partitions: list[SharePartitionShape]


class ShareGroupsUpdate(TypedDict):
    """Share groups that changed, the ids of deleted ones, and the number of all."""

    groups: list[ShareGroupShape]
    gone: list[str]
    total: int


class TopicMessagesShape(TypedDict):
    """Metrics of half messages, delayed messages and dead letters of a topic. A value is absent or null if the topic does not have it, or if it is unknown.
    `delayed_late`: overdue beyond the alert threshold."""

    name: str
    half_checks: int | None
    delayed_next_at: str | None
    half_undecided: NotRequired[int | None]
    half_oldest_s: NotRequired[float | None]
    half_expired: NotRequired[int | None]
    delayed_pending: NotRequired[int | None]
    delayed_overdue_s: NotRequired[float | None]
    delayed_late: NotRequired[bool]
    dead_letters: NotRequired[int | None]


class MessagesUpdate(TypedDict):
    """Topics whose values changed."""

    topics: list[TopicMessagesShape]


class MoveShape(TypedDict):
    """Fields of `selectors.moves.MoveRow`. `eta_s`: (soonest, latest) in seconds. `note_phrase`: as stored (`domain.phrases`)."""

    id: int
    state: str
    parts: int
    parts_ended: int
    parts_rejected: int
    bytes_total: int | None
    bytes_done: int | None
    bytes_per_s: float | None
    percent: float | None
    eta_s: tuple[float, float] | None
    needs_bytes_per_s: int | None
    waits_for: list[WaitShape]
    throttle_bytes_per_s: int | None
    producers_p99_ms: float | None
    note: str
    note_phrase: JsonObject
    can: list[str]


class MovesUpdate(TypedDict):
    """Moves that changed. `listed`: one of them is new, or has another state or another cause of waiting, so lists of moves and of their alerts change. Progress
    changes cells only."""

    moves: list[MoveShape]
    listed: bool


class ChangesUpdate(TypedDict):
    """Id of the newest change, and the number of pending changes."""

    id: int
    pending: int


class ArchiveShape(TypedDict):
    """`heartbeat_at`: ISO 8601; null: the driver has not reported yet."""

    id: int
    state: str
    rows: int
    batches: int
    restarts: int
    pid: int | None
    heartbeat_at: str | None
    note: str


class ArchivesUpdate(TypedDict):
    """Archive jobs that changed."""

    jobs: list[ArchiveShape]


class OtherClustersUpdate(TypedDict):
    """Number of other clusters. It is sent after each round of requests to their consoles."""

    clusters: int
