"""Kinds and shapes of live updates for browsers. The cluster monitor sends them through the channel layer group "live".

A message on the layer is {"type": "live.update", "run": run, "seq": n, "kind": KIND, "data": {...}}; `seq` is one above the last message's in one
`run`. A page contains `live_selectors.latest()`. A socket that sees a gap calls `live_selectors.since(run, seq)`.
"""

from __future__ import annotations

from typing import Any, TypedDict

LIVE_GROUP = "live"
LIVE_TYPE = "live.update"

CLUSTER = "cluster"
"""The overview's figures: what `selectors.overview.overview().as_dict()` returns."""
BROKERS = "brokers"
"""{"brokers": [{"broker_id", "alive", "leaders", "replicas", "replicas_out_of_sync", "size_bytes", "total_bytes", "free_bytes",
"disk_alert", "answered", "cordoned", "leads", "replicas_on_disk"}]}: all brokers. Also the four rates of bytes
(`samples.BROKER_RATES`), where they are known."""
PARTITIONS = "partitions"
"""{"topic": name, "topic_id": id, "partitions": [{"index", "leader", "leader_epoch", "replicas", "isr", "adding", "removing",
"down", "min_isr", "start_offset", "end_offset", "size_bytes", "bytes_in_per_s", "bytes_out_per_s"}]}: only those that changed. `down`: replicas whose broker is down."""
TOPICS = "topics"
"""{"topics": [{"name", "partitions", "under_replicated", "under_min_isr", "offline", "reassigning", "not_preferred", "internal", "size_bytes",
"size_as_of_ms", "records", "records_per_s", "bytes_in_per_s", "bytes_out_per_s", "replication_bytes_in_per_s"}], "gone": [name]}."""
GROUPS = "groups"
"""{"groups": [{"group_id", "state", "member_count", "lag_records", "lag_ms_max", "lag_at_least", "status", "consumed_per_s",
"produced_per_s", "lost_records", "retention_partition", "retention_in_s", "retention_limit", "retention_at_most"}], "gone": [group_id]}: those
that changed."""
LAG = "lag"
"""{"group_id", "partitions": [{"topic", "index", "committed", "end_offset", "lag_records", "lag_ms", "lag_at_least", "status", "block",
"retention_in_s", "client_id"}]}."""
SHARE_GROUPS = "share_groups"
"""{"groups": [{"group_id", "state", "member_count", "lag_records", "partitions_unknown", "partitions": [{"topic", "index", "start_offset",
"lag_records"}]}], "gone": [group_id], "total": n}: those that changed, and the number of all."""
MESSAGES = "messages"
"""{"topics": [{"name", "half_undecided", "half_oldest_s", "half_expired", "half_checks", "delayed_pending", "delayed_overdue_s", "delayed_next_at",
"dead_letters"}]}: those that changed. A figure is null or
absent if the topic does not have it, and if it is unknown."""
MOVES = "moves"
"""{"moves": [{MOVE_KEYS}]}: those that changed."""
MOVE_KEYS = (
    "id",
    "state",
    "parts",
    "parts_ended",
    "parts_rejected",
    "bytes_total",
    "bytes_done",
    "bytes_per_s",
    "percent",
    "eta_s",
    "needs_bytes_per_s",
    "waits_for",
    "throttle_bytes_per_s",
    "producers_p99_ms",
    "note",
    "can",
)
"""Fields of a move's row (`selectors.moves.MoveRow`) in an update."""
CHANGES = "changes"
"""{"id": newest change id, "pending": n}."""
ARCHIVES = "archives"
"""{"jobs": [{"id", "state", "rows", "batches", "restarts", "pid", "heartbeat_at", "note"}]}: those that changed."""

OTHER_CLUSTERS = "other_clusters"
"""{"clusters": n}: the consoles of the other clusters were asked, after each round."""

KINDS = (
    CLUSTER,
    BROKERS,
    PARTITIONS,
    TOPICS,
    GROUPS,
    LAG,
    SHARE_GROUPS,
    MESSAGES,
    MOVES,
    CHANGES,
    ARCHIVES,
    OTHER_CLUSTERS,
)


class LiveUpdate(TypedDict):
    type: str
    run: str
    seq: int
    kind: str
    data: dict[str, Any]
