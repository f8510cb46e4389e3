"""Reasons why replicas are not in the ISR. The checks run in the order of a diagnosis: its broker, its log directory, its leader, and the leader's offsets.

Invariant: an unknown cause is reported as unknown. The leader's record of a replica's progress takes precedence over the replica's own report, which
may be older.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from controlplane.domain import page_phrases as texts
from controlplane.models import Broker, ObservedPartition, ReplicaDamageReport
from weir_common.phrases import Phrase, TranslatableText, number_of

UNREPORTED = -1
"""Value in place of an offset (`ObservedPartition.lagging`)."""


@dataclass(frozen=True, slots=True)
class ReportedReplicas:
    """Data about the partitions of a page. `disks`: reports of replicas in failed log directories, by (topic, partition, broker). `down`: brokers that
    are down. `responses`: the time of the last response of each broker."""

    brokers: Mapping[int, Broker]
    disks: Mapping[tuple[str, int, int], str]
    down: frozenset[int]
    responses: Mapping[int, datetime]


def load_reports(partitions: Sequence[ObservedPartition]) -> ReportedReplicas:
    """Return the data that explain the out-of-sync replicas of these partitions. Needs at most three queries, and only one if all replicas are in sync."""
    lives = list(Broker.objects.values_list("broker_id", "alive", "sampled_at")) if partitions else []
    down = frozenset(b for b, alive, _ in lives if not alive)
    responses = {b: at for b, _, at in lives if at is not None}
    if all(len(p.isr) >= len(p.replicas) and not p.holders for p in partitions):
        return ReportedReplicas({}, {}, down, responses)
    damage_reports = ReplicaDamageReport.objects.filter(
        ended_at__isnull=True,
        kind="disk",
        topic_id__in={p.topic_id for p in partitions if len(p.isr) < len(p.replicas)},
    )
    return ReportedReplicas(
        {b.broker_id: b for b in Broker.objects.all()},
        {(f.topic_name, f.partition, f.broker_id): f.detail for f in damage_reports},
        down,
        responses,
    )


def reason(p: ObservedPartition, broker_id: int, size_bytes: int | None, reports: ReportedReplicas) -> str:
    phrase = _reason(p, broker_id, size_bytes, reports)
    return TranslatableText.of(str(phrase).strip(), phrase)


def _reason(partition: ObservedPartition, broker_id: int, size_bytes: int | None, reports: ReportedReplicas) -> Phrase:
    broker = reports.brokers.get(broker_id)
    if broker is None:
        return Phrase(texts.NEVER_REGISTERED)
    if not broker.alive:
        return Phrase(texts.BROKER_DOWN)
    if (detail := reports.disks.get((partition.topic.name, partition.index, broker_id))) is not None:
        return Phrase(texts.LOG_DIRECTORY_FAILED, {"detail": detail})
    if partition.leader is None:
        return Phrase(texts.NO_LEADER)
    lacks = _lacks(partition, broker_id)
    if broker_id in partition.adding:
        return Phrase(texts.MOVE_IS_COPYING, {"lacks": lacks or ""})
    if lacks and broker.answered and size_bytes is None:
        return Phrase(texts.NO_REPLICA_REPORTED, {"lacks": lacks})
    return lacks or Phrase(texts.NOT_REPORTED_YET)


def _lacks(partition: ObservedPartition, broker_id: int) -> Phrase | None:
    """The lag by the leader's offsets; None where the leader has not reported it."""
    state = partition.lagging.get(str(broker_id))
    if state is None:
        return None
    end, start = state
    if end == UNREPORTED:
        return Phrase(texts.NO_FETCH, {"leader": str(partition.leader)})
    behind = max(0, (partition.end_offset or 0) - end)
    if behind:
        return number_of(behind, *texts.LACKS_RECORDS)
    if start != UNREPORTED:
        offsets = {"start": f"{start:,}", "leader_start": f"{partition.start_offset or 0:,}"}
        return Phrase(texts.START_ABOVE_LEADER, offsets)
    return Phrase(texts.JOINS_SOON)
