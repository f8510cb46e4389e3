"""Partitions with each of their replicas. Invariants: a list reads the rows of one page, not of the whole cluster. An out-of-sync replica has a
cause, if it is known."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import F, Q, QuerySet, prefetch_related_objects
from django_filters import rest_framework as filters

from brokerd.cluster import majority
from brokerd.cluster.majority_config import has_majority_acks
from brokerd.cluster.model import REPLACED, effective_min_insync, replicas_owed
from controlplane.models import ObservedPartition, ObservedReplica, ObservedTopic
from controlplane.selectors import out_of_sync
from controlplane.selectors.common import NumberFilter, RowFilter, StateFilter, age_s
from controlplane.selectors.paging import Page, PageStart, paginate, within
from controlplane.selectors.shared_rows import read_shared
from controlplane.selectors.topic_configs import cluster_defaults, min_insync
from controlplane.selectors.visibility import visible

PARTITIONS_EXAMINED_MAX = 1_000
"""Maximum number of partitions read from the first topics in trouble. A database cannot compare the length of an ISR, which is not a column of its own."""


@dataclass(frozen=True, slots=True)
class ReplicaOf:
    """`alive`: its broker is up. `out_of_sync_reason`: why the replica is not in the ISR; empty for an in-sync one. `end_offset` and `lag_records` of an
    out-of-sync replica are those that its leader has recorded, where known."""

    broker_id: int
    alive: bool
    in_isr: bool
    is_leader: bool
    end_offset: int | None
    lag_records: int | None
    size_bytes: int | None
    out_of_sync_reason: str


@dataclass(frozen=True, slots=True)
class MajorityVote:
    """The rules of a partition with majority acknowledgements: `quorum` of `voters` replicas must have a record before it is acknowledged. Without
    a leader, `electors_needed` of the brokers `electors` must report the end of their logs. `electors_down`: those of them that are down."""

    voters: int
    quorum: int
    electors_needed: int
    electors: list[int]
    electors_down: list[int]


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """`archive_start`, `holders`: records below that offset are read from those brokers (an early hand-over); None and [] where the replicas have all
    records. `holders_down`: those of them that are down. `down`: replicas whose broker is down. `min_isr`: the effective minimum of in-sync replicas.
    `state`: offline, under_min_isr, under_replicated, moving or in_sync. `electable`: without a leader, the replicas of which the first live one becomes
    the leader; empty if no replica is known to have all records, and with majority acknowledgements. `sample_age_s`: time since the last response of the
    leader, or without a leader of one of the last in-sync replicas. `majority`: None for a partition without majority acknowledgements."""

    topic: str
    index: int
    leader: int | None
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    elr: list[int]
    adding: list[int]
    removing: list[int]
    assignment_generation: int
    archive_start: int | None
    holders: list[int]
    holders_down: list[int]
    start_offset: int | None
    end_offset: int | None
    records: int | None
    size_bytes: int | None
    bytes_in_per_s: float | None
    bytes_out_per_s: float | None
    replica_rows: list[ReplicaOf]
    down: list[int]
    min_isr: int
    state: str
    electable: list[int]
    sample_age_s: float | None
    majority: MajorityVote | None

    @property
    def has_live_replica(self) -> bool:
        """Without one, no election is possible, not even an unclean one."""
        return len(self.down) < len(self.replicas)

    @property
    def is_under_min_isr(self) -> bool:
        return self.leader is not None and len(self.isr) < self.min_isr


PARTITION_COLUMNS = {
    "index": "index",
    "leader": "leader",
    "size_bytes": "size_bytes",
    "bytes_in_per_s": "bytes_in_per_s",
    "bytes_out_per_s": "bytes_out_per_s",
    "end_offset": "end_offset",
    "topic": "topic__name",
}


class PartitionFilter(RowFilter):
    state = StateFilter(
        {
            "problems": Q(in_trouble=True),
            "offline": Q(leader__isnull=True),
            "moving": ~Q(adding=[], removing=[]),
        },
        help_text="problems: offline, under min.insync.replicas or under-replicated. moving: with a reassignment.",
    )
    topic = filters.CharFilter(field_name="topic__name")
    broker = NumberFilter(field_name="replica_rows__broker_id", help_text="Partitions with a replica on it.")


def partition_list(
    topic: str = "",
    *,
    sort: str = "index",
    page: PageStart = 1,
    per_page: int = 100,
    state: str = "",
    broker: int | None = None,
) -> Page[PartitionRow]:
    """Partitions of one topic ("" = of all). `state`: "", problems, offline, moving."""
    rows = PartitionFilter.rows(ObservedPartition.objects.all(), topic=topic, broker=broker, state=state)
    return partition_page(rows, sort="topic" if sort == "index" and not topic else sort, page=page, per_page=per_page)


def partition_page(
    rows: QuerySet[ObservedPartition], *, sort: str, page: PageStart, per_page: int, query: str = ""
) -> Page[PartitionRow]:
    return paginate(
        rows.select_related("topic").prefetch_related("replica_rows"),
        _partition_rows,
        page=page,
        per_page=per_page,
        sort=sort,
        columns=PARTITION_COLUMNS,
        tie="index",
    )


def in_trouble(partitions_max: int) -> Page[PartitionRow]:
    """The first `partitions_max` partitions with a problem, and the number of all. Order: without a leader, below min.insync.replicas, under-replicated; within
    each, users' topics before internal topics. Only the first topics with such partitions are searched: with a broker down, half of all partitions
    would be sorted for a few rows."""
    return read_shared("partitions in trouble", lambda: _in_trouble(partitions_max), partitions_max)


def _in_trouble(partitions_max: int) -> Page[PartitionRow]:
    total = visible(ObservedPartition.objects.filter(in_trouble=True)).count()
    found: dict[int, ObservedPartition] = {}
    defaults = cluster_defaults()
    for topics, states in (
        (Q(offline__gt=0), {"offline"}),
        (Q(under_min_isr__gt=0), {"under_min_isr"}),
        (Q(under_replicated__gt=F("offline")), {"under_min_isr", "under_replicated"}),
    ):
        if len(found) >= partitions_max:
            break
        ids = list(
            visible(ObservedTopic.objects.filter(topics))
            .order_by("internal", "name")
            .values_list("pk", flat=True)[:partitions_max]
        )
        rows = ObservedPartition.objects.filter(in_trouble=True, topic_id__in=ids).select_related("topic")
        # Read in parts: most of the time the first ones suffice.
        for p in rows.order_by("topic__internal", "topic__name", "index")[:PARTITIONS_EXAMINED_MAX].iterator(
            chunk_size=2 * partitions_max
        ):
            if p.pk not in found and _state(p, defaults) in states:
                found[p.pk] = p
            if len(found) == partitions_max:
                break
    chosen = list(found.values())
    prefetch_related_objects(chosen, "replica_rows")
    return Page(_partition_rows(chosen), total, within(total, 1, partitions_max), "topic", "")


def partition_row(topic: str, index: int) -> PartitionRow | None:
    row = (
        visible(ObservedPartition.objects.filter(topic__name=topic, index=index))
        .select_related("topic")
        .prefetch_related("replica_rows")
        .first()
    )
    return None if row is None else _partition_rows([row])[0]


def partition_state(
    leader: int | None,
    replicas: Sequence[int],
    isr: Sequence[int],
    adding: Sequence[int],
    removing: Sequence[int],
    min_isr: int = 1,
) -> str:
    """The worst condition of a partition, as one word: offline, under_min_isr, under_replicated, moving or in_sync. `min_isr`: the effective
    minimum."""
    if leader is None:
        return "offline"
    if len(isr) < min_isr:
        return "under_min_isr"
    if len(isr) < replicas_owed(replicas, adding, removing):
        return "under_replicated"
    return "moving" if adding or removing else "in_sync"


def _min_isr(p: ObservedPartition, defaults: Mapping[str, str]) -> int:
    configs = p.topic.configs
    placed = p.replicas, p.adding, p.removing
    return effective_min_insync(min_insync(configs, defaults), *placed, majority=has_majority_acks(configs))


def _state(p: ObservedPartition, defaults: Mapping[str, str]) -> str:
    return partition_state(p.leader, p.replicas, p.isr, p.adding, p.removing, _min_isr(p, defaults))


def _partition_rows(partitions: Sequence[ObservedPartition]) -> list[PartitionRow]:
    known = out_of_sync.load_reports(partitions)
    defaults = cluster_defaults() if partitions else {}
    return [_partition_row(p, known, defaults) for p in partitions]


def _partition_row(
    partition: ObservedPartition, reports: out_of_sync.ReportedReplicas, defaults: Mapping[str, str]
) -> PartitionRow:
    replicas = {r.broker_id: r for r in partition.replica_rows.all()}
    return PartitionRow(
        topic=partition.topic.name,
        index=partition.index,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        replicas=partition.replicas,
        isr=partition.isr,
        elr=partition.elr,
        adding=partition.adding,
        removing=partition.removing,
        assignment_generation=partition.assignment_generation,
        archive_start=partition.archive_start,
        holders=partition.holders,
        holders_down=[b for b in partition.holders if b not in reports.brokers or not reports.brokers[b].alive],
        start_offset=partition.start_offset,
        end_offset=partition.end_offset,
        records=None
        if partition.start_offset is None or partition.end_offset is None
        else partition.end_offset - partition.start_offset,
        size_bytes=partition.size_bytes,
        bytes_in_per_s=partition.bytes_in_per_s,
        bytes_out_per_s=partition.bytes_out_per_s,
        replica_rows=[_replica(partition, b, replicas.get(b), reports) for b in partition.replicas],
        down=[b for b in partition.replicas if b in reports.down],
        min_isr=_min_isr(partition, defaults),
        state=_state(partition, defaults),
        electable=electable(partition) if partition.leader is None and not partition.voters else [],
        sample_age_s=None if partition.end_offset is None else age_s(last_response(partition, reports.responses)),
        majority=_majority(partition, reports.down) if partition.voters else None,
    )


def proven_replicas(p: ObservedPartition) -> list[int]:
    """The replicas that are known to have all acknowledged records."""
    return sorted({*p.isr, *p.elr, *p.last_isr} - {REPLACED})


def electable(p: ObservedPartition) -> list[int]:
    """The replicas that can be elected without a loss of records (`brokerd.cluster.election`), for an ordinary partition."""
    return sorted({*p.isr, *p.elr}) or [b for b in p.last_isr if REPLACED not in p.last_isr]


def last_response(p: ObservedPartition, responses: Mapping[int, datetime]) -> datetime | None:
    """The last time at which a broker can have reported the current end of the partition: the response of its leader, or of the replicas of which one led."""
    brokers = proven_replicas(p) if p.leader is None else [p.leader]
    return max((responses[b] for b in brokers if b in responses), default=None)


def _majority(p: ObservedPartition, down: Container[int]) -> MajorityVote:
    needed = majority.quorum(p.voters)
    electors = [b for b in p.voters if b in p.isr or b in p.elr]
    electors_down = [b for b in electors if b in down]
    return MajorityVote(len(p.voters), needed, len(p.voters) - needed + 1, electors, electors_down)


def _replica(
    partition: ObservedPartition, broker_id: int, row: ObservedReplica | None, reports: out_of_sync.ReportedReplicas
) -> ReplicaOf:
    end, lag, size = (row.end_offset, row.lag_records, row.size_bytes) if row is not None else (None, None, None)
    out = broker_id not in partition.isr
    state = partition.lagging.get(str(broker_id)) if out else None
    if state is not None:
        end = state[0] if state[0] != out_of_sync.UNREPORTED else None
        lag = None if end is None or partition.end_offset is None else max(0, partition.end_offset - end)
    elif out:
        lag = None  # the leader has not reported the replica: its last lag is of the time before
    if partition.leader is None:
        lag = None  # the former leader may have had more records
    return ReplicaOf(
        broker_id=broker_id,
        alive=broker_id not in reports.down,
        in_isr=not out,
        is_leader=broker_id == partition.leader,
        end_offset=end,
        lag_records=lag,
        size_bytes=size,
        out_of_sync_reason=out_of_sync.reason(partition, broker_id, size, reports) if out else "",
    )
