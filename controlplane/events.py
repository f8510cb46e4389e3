"""What is pushed to browsers: the kinds of live updates and their shapes. Law: names and shapes only; sent by the observer alone,
through the channel layer group "live". Read by the console's socket.

A message on the layer is {"type": "live.update", "run": run, "seq": n, "kind": KIND, "data": {...}}; `seq` grows by one per message of one
observer `run`. A page carries `selectors.live.latest()`; a socket that sees a gap asks `selectors.live.since(run, seq)`.
"""

from __future__ import annotations

from typing import Any, TypedDict

LIVE_GROUP = "live"
LIVE_TYPE = "live.update"

CLUSTER = "cluster"
"""The overview's figures: what `selectors.overview.overview().as_dict()` returns."""
BROKERS = "brokers"
"""{"brokers": [{"broker_id", "alive", "leaders", "replicas", "replicas_out_of_sync", "size_bytes", "answered", "cordoned", "leads",
"held"}]}: all brokers."""
PARTITIONS = "partitions"
"""{"topic": name, "topic_id": id, "partitions": [{"index", "leader", "leader_epoch", "replicas", "isr", "adding", "removing",
"start_offset", "end_offset", "size_bytes"}]}: only those that changed."""
TOPICS = "topics"
"""{"topics": [{"name", "under_replicated", "offline", "reassigning", "size_bytes", "records", "records_per_s"}], "gone": [name]}."""
GROUPS = "groups"
"""{"groups": [{"group_id", "state", "member_count", "lag_records", "lag_ms_max", "verdict"}], "gone": [group_id]}: those that changed."""
LAG = "lag"
"""{"group_id", "partitions": [{"topic", "index", "committed", "end_offset", "lag_records", "lag_ms", "verdict", "client_id"}]}."""
MOVES = "moves"
"""{"moves": [{"id", "state", "parts", "parts_ended", "parts_stuck", "bytes_total", "bytes_done", "bytes_per_s", "percent", "eta_s",
"needs_bytes_per_s", "waits_for", "throttle_bytes_per_s", "producers_p99_ms", "note", "can"}]}: those that changed."""
CHANGES = "changes"
"""{"id": newest change id, "pending": n}."""
ARCHIVES = "archives"
"""{"jobs": [{"id", "state", "rows", "batches", "heartbeat_at"}]}: those that changed."""

KINDS = (CLUSTER, BROKERS, PARTITIONS, TOPICS, GROUPS, LAG, MOVES, CHANGES, ARCHIVES)


class LiveUpdate(TypedDict):
    type: str
    run: str
    seq: int
    kind: str
    data: dict[str, Any]
