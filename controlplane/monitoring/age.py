"""The age of the displayed data, for the heartbeat of the WebSocket: one indexed read of one row. None means never."""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.selectors.alerts import SILENT_AGE_S
from controlplane.selectors.common import age_s, cluster_row


@dataclass(frozen=True, slots=True)
class DataAge:
    """`age_s`: seconds since the monitor last read the metadata log to its head. `zookeeper_away`: the monitor runs, but ZooKeeper does
    not answer. `samples_current`: brokers answer the monitor."""

    age_s: float | None
    zookeeper_away: bool
    samples_current: bool


def data_age() -> DataAge:
    row = cluster_row()
    heartbeat_age = age_s(row.heartbeat_at)
    runs = heartbeat_age is not None and heartbeat_age <= SILENT_AGE_S
    sample_age = age_s(row.sampled_at)
    current = sample_age is not None and sample_age <= SILENT_AGE_S
    return DataAge(age_s(row.observed_at), runs and row.zookeeper_connected is False, current)
