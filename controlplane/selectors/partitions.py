"""Partitions with each of their copies. Law: lists cost a page, not a cluster; a copy that is out of sync says why, as far as it is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Q

from brokerd.cluster.model import replicas_owed
from controlplane.models import ObservedTopic, Partition, Replica
from controlplane.selectors import out_of_sync
from controlplane.selectors.common import Page, age_s, paged, within


@dataclass(frozen=True, slots=True)
class ReplicaOf:
    """`why_out`: why it is not in the ISR; empty where it is. Of such a one `end_offset` and `lag_records` are by its leader's count, where that told."""

    broker_id: int
    in_isr: bool
    is_leader: bool
    end_offset: int | None
    lag_records: int | None
    size_bytes: int | None
    why_out: str


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """`archive_start`, `holders`: records below that offset are read from those brokers (an early hand-over); None and [] where all lie with the replicas.
    `holders_down`: who of them cannot be asked now."""

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
    replica_rows: list[ReplicaOf]
    state: str
    sample_age_s: float | None


PARTITION_COLUMNS = {
    "index": "index",
    "leader": "leader",
    "size_bytes": "size_bytes",
    "end_offset": "end_offset",
    "topic": "topic__name",
}


def partition_list(
    topic: str = "",
    *,
    sort: str = "index",
    page: int = 1,
    per_page: int = 100,
    only: str = "",
    broker: int | None = None,
) -> Page[PartitionRow]:
    """Partitions of one topic ("" = of all). `only`: "", problems, offline, moving."""
    rows = Partition.objects.select_related("topic").prefetch_related("replica_rows")
    if topic:
        rows = rows.filter(topic__name=topic)
    elif sort == "index":
        sort = "topic"
    if broker is not None:
        rows = rows.filter(replica_rows__broker_id=broker)
    if only == "offline":
        rows = rows.filter(leader__isnull=True)
    elif only == "problems":
        rows = rows.filter(in_trouble=True)
    elif only == "moving":
        rows = rows.exclude(adding=[], removing=[])
    return paged(
        rows, _partition_rows,
        page=page, per_page=per_page, sort=sort, columns=PARTITION_COLUMNS, tie="index",
    )  # fmt: skip


def in_trouble(most: int) -> Page[PartitionRow]:
    """The first `most` partitions that lack a leader or a replica, by topic and number, and how many there are. Looked for in the first topics that have
    any: with a broker down half of all partitions would be sorted for a handful."""
    total = Partition.objects.filter(in_trouble=True).count()
    troubled = ObservedTopic.objects.filter(Q(under_replicated__gt=0) | Q(offline__gt=0)).order_by("name")
    ids = list(troubled.values_list("pk", flat=True)[:most])
    rows = Partition.objects.filter(in_trouble=True, topic_id__in=ids).order_by("topic__name", "index")
    found = list(rows.select_related("topic").prefetch_related("replica_rows")[:most])
    return Page(_partition_rows(found), total, *within(total, 1, most), "topic", "")


def partition_row(topic: str, index: int) -> PartitionRow | None:
    row = (
        Partition.objects.filter(topic__name=topic, index=index)
        .select_related("topic")
        .prefetch_related("replica_rows")
        .first()
    )
    return None if row is None else _partition_rows([row])[0]


def partition_state(
    leader: int | None, replicas: list[int], isr: list[int], adding: list[int], removing: list[int]
) -> str:
    """The worst that is true of a partition, as one word: offline, under_replicated, moving or in_sync."""
    if leader is None:
        return "offline"
    if len(isr) < replicas_owed(replicas, adding, removing):
        return "under_replicated"
    return "moving" if adding or removing else "in_sync"


def _partition_rows(found: Sequence[Partition]) -> list[PartitionRow]:
    known = out_of_sync.known(found)
    return [_partition_row(p, known) for p in found]


def _partition_row(p: Partition, known: out_of_sync.Known) -> PartitionRow:
    replicas = {r.broker_id: r for r in p.replica_rows.all()}
    return PartitionRow(
        topic=p.topic.name,
        index=p.index,
        leader=p.leader,
        leader_epoch=p.leader_epoch,
        replicas=p.replicas,
        isr=p.isr,
        elr=p.elr,
        adding=p.adding,
        removing=p.removing,
        assignment_generation=p.assignment_generation,
        archive_start=p.archive_start,
        holders=p.holders,
        holders_down=[b for b in p.holders if b not in known.brokers or not known.brokers[b].alive],
        start_offset=p.start_offset,
        end_offset=p.end_offset,
        records=None if p.start_offset is None or p.end_offset is None else p.end_offset - p.start_offset,
        size_bytes=p.size_bytes,
        replica_rows=[_replica(p, b, replicas.get(b), known) for b in p.replicas],
        state=partition_state(p.leader, p.replicas, p.isr, p.adding, p.removing),
        sample_age_s=age_s(p.sampled_at),
    )


def _replica(p: Partition, broker_id: int, row: Replica | None, known: out_of_sync.Known) -> ReplicaOf:
    end, lag, size = (row.end_offset, row.lag_records, row.size_bytes) if row is not None else (None, None, None)
    out = broker_id not in p.isr
    told = p.lagging.get(str(broker_id)) if out else None
    if told is not None:
        end = told[0] if told[0] != out_of_sync.UNTOLD else None
        lag = None if end is None or p.end_offset is None else max(0, p.end_offset - end)
    return ReplicaOf(
        broker_id=broker_id,
        in_isr=not out,
        is_leader=broker_id == p.leader,
        end_offset=end,
        lag_records=lag,
        size_bytes=size,
        why_out=out_of_sync.why(p, broker_id, size, known) if out else "",
    )
