"""Reasons why replicas are not in the ISR. The checks run in the order of a diagnosis: its broker, its log directory, its leader, and the leader's offsets.

Invariant: an unknown cause is reported as unknown. The leader's record of a replica's progress takes precedence over the replica's own report, which
may be older.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controlplane.domain.text import count_text
from controlplane.models import Broker, ObservedPartition, ReplicaDamageReport

UNREPORTED = -1
"""Value in place of an offset (`ObservedPartition.lagging`)."""


@dataclass(frozen=True, slots=True)
class ReportedReplicas:
    """Data about the partitions of a page. `disks`: reports of replicas in failed log directories, by (topic, partition, broker)."""

    brokers: Mapping[int, Broker]
    disks: Mapping[tuple[str, int, int], str]
    down: frozenset[int] = frozenset()
    """Brokers that are down."""


def load_reports(partitions: Sequence[ObservedPartition]) -> ReportedReplicas:
    """Return the data that explain the out-of-sync replicas of these partitions. Needs at most three queries, and only one if all replicas are in sync."""
    down = (
        frozenset(Broker.objects.filter(alive=False).values_list("broker_id", flat=True)) if partitions else frozenset()
    )
    if all(len(p.isr) >= len(p.replicas) and not p.holders for p in partitions):
        return ReportedReplicas({}, {}, down)
    damage_reports = ReplicaDamageReport.objects.filter(
        ended_at__isnull=True,
        kind="disk",
        topic_id__in={p.topic_id for p in partitions if len(p.isr) < len(p.replicas)},
    )
    return ReportedReplicas(
        {b.broker_id: b for b in Broker.objects.all()},
        {(f.topic_name, f.partition, f.broker_id): f.detail for f in damage_reports},
        down,
    )


def reason(p: ObservedPartition, broker_id: int, size_bytes: int | None, reports: ReportedReplicas) -> str:
    broker = reports.brokers.get(broker_id)
    if broker is None:
        return "The broker has never registered."
    if not broker.alive:
        return "The broker is down."
    if (detail := reports.disks.get((p.topic.name, p.index, broker_id))) is not None:
        return f"The log directory has failed: {detail}."
    if p.leader is None:
        return "The partition has no leader to fetch from."
    lacks = _lacks(p, broker_id)
    if broker_id in p.adding:
        return f"A move is copying the replica to this broker. {lacks}"
    if lacks and broker.answered and size_bytes is None:
        return f"The broker reports no replica of this partition. {lacks}"
    return lacks or "The leader has not reported the replica's log end offset yet."


def _lacks(p: ObservedPartition, broker_id: int) -> str:
    """The lag by the leader's offsets; "" where the leader has not reported it."""
    state = p.lagging.get(str(broker_id))
    if state is None:
        return ""
    end, start = state
    if end == UNREPORTED:
        return f"The replica has sent no fetch request to broker {p.leader} since that broker became the leader: check its log, and the network between the two brokers."
    behind = max(0, (p.end_offset or 0) - end)
    if behind:
        return f"The replica lacks {count_text(behind, 'record')}: check whether the number decreases. If not, its disk, its network or a throttle is too slow, or it does not fetch."
    if start != UNREPORTED:
        return (
            f"The replica has all new records, but its log start offset {start:,} is above the leader's {p.start_offset or 0:,}. It joins the ISR after retention has deleted the leader's records below it; "
            "otherwise the controller has the replica replicated again after some minutes."
        )
    return "The replica has all records and joins the ISR with its next fetches. If it does not join, it has stopped fetching: check the broker's log."
