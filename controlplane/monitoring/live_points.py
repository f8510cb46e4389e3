"""The points of charts in a live update. Recorded points: `controlplane.monitoring.history`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from controlplane.domain.history import HistorySubject
from controlplane.monitoring import live_events
from controlplane.monitoring.live_events import LiveUpdate

LIVE_METRICS = {
    HistorySubject.CLUSTER: (
        "records_per_s",
        "bytes_in_per_s",
        "bytes_out_per_s",
        "replication_bytes_in_per_s",
        "lag_records",
        "size_bytes",
        "under_replicated",
        "offline",
    ),
    HistorySubject.TOPIC: (
        "records_per_s",
        "bytes_in_per_s",
        "bytes_out_per_s",
        "size_bytes",
        "half_undecided",
        "half_oldest_s",
        "half_expired",
        "delayed_pending",
        "delayed_overdue_s",
        "dead_letters",
    ),
    HistorySubject.GROUP: ("lag_records", "lag_s", "consumed_per_s"),
    HistorySubject.SHARE_GROUP: ("lag_records", "lag_s", "member_count"),
    HistorySubject.BROKER: (
        "bytes_in_per_s",
        "bytes_out_per_s",
        "replication_bytes_in_per_s",
        "replication_bytes_out_per_s",
        "disk_used_bytes",
        "size_bytes",
        "replicas_in_sync",
        "replicas_out_of_sync",
        "leaders",
    ),
    HistorySubject.PARTITION: ("bytes_in_per_s", "bytes_out_per_s", "size_bytes", "replicas_in_sync"),
    HistorySubject.BROKER_API: (),
}
"""The metrics in live updates, by kind of subject. The chart of another metric ends with its last recorded value."""


def metrics(update: LiveUpdate) -> list[tuple[str, str, float]]:
    """(subject, metric, value) of everything in an update that a chart can draw."""
    return [
        (subject, name, values[name])
        for kind, subject, values in _values(update["kind"], update["data"])
        for name in LIVE_METRICS[kind]
        if values.get(name) is not None
    ]


def _values(kind: str, data: Mapping[str, Any]) -> Iterator[tuple[HistorySubject, str, Mapping[str, Any]]]:
    if kind == live_events.CLUSTER:
        yield HistorySubject.CLUSTER, "cluster", data
    elif kind in (live_events.TOPICS, live_events.MESSAGES):
        for t in data["topics"]:
            yield HistorySubject.TOPIC, f"topic:{t['name']}", t
    elif kind in (live_events.GROUPS, live_events.SHARE_GROUPS):
        of_group = HistorySubject.GROUP if kind == live_events.GROUPS else HistorySubject.SHARE_GROUP
        for g in data["groups"]:
            lag_ms = g.get("lag_ms_max")
            yield of_group, f"{of_group}:{g['group_id']}", {**g, "lag_s": None if lag_ms is None else lag_ms / 1000}
    elif kind == live_events.BROKERS:
        for b in data["brokers"]:
            yield HistorySubject.BROKER, f"broker:{b['broker_id']}", {**b, **_broker(b)}
    elif kind == live_events.PARTITIONS:
        for p in data["partitions"]:
            subject = f"partition:{data['topic']}:{p['index']}"
            yield HistorySubject.PARTITION, subject, {**p, "replicas_in_sync": len(p["isr"])}


def _broker(b: dict[str, Any]) -> dict[str, Any]:
    out = b["replicas_out_of_sync"]
    found = {"replicas_in_sync": b["replicas"] - out, "replicas_out_of_sync": out}
    if not b.get("answered"):
        return {**found, "size_bytes": None}  # the last known size is no new point
    if b.get("total_bytes") is not None and b.get("free_bytes") is not None:
        found["disk_used_bytes"] = b["total_bytes"] - b["free_bytes"]
    return found
