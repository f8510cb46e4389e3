"""The changes that an election of preferred leaders would make: in one partition, in a topic, in the cluster.

Invariants: it reads rows only, at most `CONSIDERED_MAX` partitions. A partition that would not change has a reason.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from django.db.models import QuerySet

from brokerd.cluster.cordons import leadership_disabled
from controlplane.clients.all_brokers import BrokerAddress
from controlplane.domain.leader_election import (
    BLOCKED,
    ElectablePartition,
    ElectionVerdict,
    election_verdict,
    verdict_text,
)
from controlplane.models import Broker, ObservedPartition, ObservedTopic
from controlplane.selectors.common import age_s, cluster_row

CONSIDERED_MAX = 10_000
"""Partitions of one election, as Kafka's limit of one ElectLeaders request. `partitions_more` counts the others; a second election continues."""

COLUMNS = (
    "topic__name",
    "index",
    "leader",
    "replicas",
    "isr",
    "adding",
    "removing",
    "archive_start",
)


@dataclass(frozen=True, slots=True)
class ElectionRow:
    """A partition whose leader is not its preferred replica. `verdict`: electable, or why the preferred replica cannot lead; `reason`: the same as a
    sentence."""

    topic: str
    index: int
    leader: int | None
    preferred: int
    verdict: str
    reason: str


@dataclass(frozen=True, slots=True)
class BlockedCount:
    """The number of partitions whose preferred replica cannot lead for one reason, `verdict`."""

    verdict: str
    partitions: int


@dataclass(frozen=True, slots=True)
class ElectionPreview:
    """`topic` "": the cluster; `partition` null: all partitions. `rows`: the partitions that are not led by their preferred replica; the partitions
    that would change are first. `electable`: the number that would change; `blocked`: the number of the others. `partitions_more`: partitions above
    the limit of one election. `age_s`: age
    of the data."""

    topic: str
    partition: int | None
    rows: list[ElectionRow]
    electable: int
    blocked: list[BlockedCount]
    partitions_more: int
    age_s: float | None

    @property
    def blocked_total(self) -> int:
        return sum(b.partitions for b in self.blocked)


def election_preview(topic: str = "", partition: int | None = None) -> ElectionPreview | None:
    """Return None for an unknown topic or partition."""
    rows: QuerySet[ObservedPartition] = ObservedPartition.objects.all()
    if topic:
        if not ObservedTopic.objects.filter(name=topic).exists():
            return None
        rows = rows.filter(topic__name=topic)
    if partition is None:
        rows = rows.filter(leader_not_preferred=True)
    else:
        rows = rows.filter(index=partition)
        if not rows.exists():
            return None
    found = list(rows.order_by("topic__name", "index").values_list(*COLUMNS)[:CONSIDERED_MAX])
    live, demoted = set(), set()
    for broker_id, alive, configs in Broker.objects.values_list("broker_id", "alive", "configs"):
        if alive:
            live.add(broker_id)
        if leadership_disabled(configs):
            demoted.add(broker_id)
    shown = []
    for name, index, leader, replicas, isr, adding, removing, handover_offset in found:
        handing_over = bool(adding or removing) and handover_offset is not None
        state = ElectablePartition(leader, replicas, isr, handing_over)
        verdict = election_verdict(state, live, demoted)
        reason = verdict_text(verdict, state.preferred)
        shown.append(ElectionRow(name, index, leader, state.preferred, verdict.value, reason))
    counts = Counter(row.verdict for row in shown)
    return ElectionPreview(
        topic=topic,
        partition=partition,
        rows=sorted(shown, key=lambda row: row.verdict != ElectionVerdict.ELECTABLE),
        electable=counts[ElectionVerdict.ELECTABLE],
        blocked=[BlockedCount(v.value, counts[v]) for v in BLOCKED if counts[v]],
        partitions_more=max(0, rows.count() - len(found)) if len(found) == CONSIDERED_MAX else 0,
        age_s=age_s(cluster_row().observed_at),
    )


def live_brokers() -> list[BrokerAddress]:
    """Return the live brokers. Brokers that did not answer the last request of the monitor are last."""
    rows = sorted(Broker.objects.filter(alive=True), key=lambda b: (b.answered is False, b.broker_id))
    return [BrokerAddress(b.broker_id, b.host, b.port) for b in rows]
