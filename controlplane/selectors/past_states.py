"""The state at an earlier time, as `cluster_history.moment` found it: brokers, partitions, configs. Pure: reads only the image of the moment."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime

from brokerd.cluster.image import Image
from brokerd.cluster.model import NO_LEADER, TopicState
from controlplane.domain.cluster_difference import ALL_BROKERS
from controlplane.selectors.cluster_history import PastImage
from controlplane.selectors.paging import Page, PageStart, numbered_page


@dataclass(frozen=True, slots=True)
class PastBroker:
    """A broker at that time. `leaders`: partitions that it led. `out_of_sync`: its replicas that were not in the ISR."""

    broker_id: int
    alive: bool
    host: str
    port: int
    rack: str | None
    broker_epoch: int
    leaders: int
    replicas: int
    out_of_sync: int


@dataclass(frozen=True, slots=True)
class PastPartition:
    """`leader` null: offline. `replicas` in the order of preference, with joining (`adding`) and leaving (`removing`) ones."""

    topic: str
    index: int
    leader: int | None
    leader_epoch: int
    isr: list[int]
    replicas: list[int]
    adding: list[int]
    removing: list[int]
    observers: list[int]
    under_replicated: bool
    offline: bool


@dataclass(frozen=True, slots=True)
class PastConfig:
    """An override at that time. `subject`: topic:NAME, broker:ID, or broker:default for all brokers."""

    subject: str
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class PastCluster:
    """The cluster at a time. `seq`: number of the last entry of the metadata log before it, written at `entry_at`."""

    at: datetime
    seq: int
    entry_at: datetime
    controller_epoch: int
    metadata_level: int
    topics: int
    partitions: int
    offline: int
    under_replicated: int
    reassigning: int
    brokers: list[PastBroker]


def past_cluster(moment: PastImage) -> PastCluster:
    states = [s for _, _, s in moment.image.each_partition()]
    return PastCluster(
        at=moment.at,
        seq=moment.seq,
        entry_at=moment.entry_at,
        controller_epoch=moment.image.controller_epoch,
        metadata_level=moment.image.metadata_version,
        topics=len(moment.image.topics),
        partitions=len(states),
        offline=sum(1 for s in states if s.leader == NO_LEADER),
        under_replicated=sum(1 for s in states if s.under_replicated),
        reassigning=sum(1 for s in states if s.reassigning),
        brokers=_brokers(moment.image),
    )


def _brokers(image: Image) -> list[PastBroker]:
    leaders: Counter[int] = Counter()
    replicas: Counter[int] = Counter()
    missing: Counter[int] = Counter()
    for _, _, state in image.each_partition():
        leaders[state.leader] += 1
        replicas.update(state.replicas)
        missing.update(b for b in state.replicas if b not in state.isr_ids and b not in state.adding)
    return [
        PastBroker(i, b.alive, b.host, b.port, b.rack, b.broker_epoch, leaders[i], replicas[i], missing[i])
        for i, b in sorted(image.brokers.items())
    ]


def _topics(image: Image, topic: str) -> list[TopicState]:
    """Topics with this text in their name, by name."""
    requested = topic.lower()
    return sorted((t for t in image.topics.values() if requested in t.name.lower()), key=lambda t: t.name)


def past_partitions(
    moment: PastImage,
    *,
    topic: str = "",
    broker: int | None = None,
    state: str = "",
    page: PageStart = 1,
    per_page: int = 50,
) -> Page[PastPartition]:
    """Partitions by topic and index. `topic`: a part of the name. `broker`: only partitions with a replica there. `state` "problems": only offline and
    under-replicated ones."""
    chosen = [
        (t.name, i, s)
        for t in _topics(moment.image, topic)
        for i, s in sorted(t.partitions.items())
        if (broker is None or broker in s.hosts) and (not state or s.leader == NO_LEADER or s.under_replicated)
    ]
    start, window = numbered_page(len(chosen), page, per_page)
    rows = [
        PastPartition(
            topic=name,
            index=index,
            leader=None if s.leader == NO_LEADER else s.leader,
            leader_epoch=s.leader_epoch,
            isr=list(s.isr_ids),
            replicas=list(s.replicas),
            adding=list(s.adding),
            removing=list(s.removing),
            observers=list(s.observers),
            under_replicated=s.under_replicated,
            offline=s.leader == NO_LEADER,
        )
        for name, index, s in chosen[start : start + window.per_page]
    ]
    return Page(rows, len(chosen), window, "topic", topic)


def past_configs(
    moment: PastImage, *, topic: str = "", broker: int | None = None, page: PageStart = 1, per_page: int = 50
) -> Page[PastConfig]:
    """Overrides of topics and dynamic configs of brokers. With `broker` those of brokers only, with `topic` those of topics only."""
    rows: list[PastConfig] = []
    if not topic:
        for broker_id, (_, configs) in sorted(moment.image.broker_configs.items()):
            if broker in (None, broker_id):
                subject = "broker:default" if broker_id == ALL_BROKERS else f"broker:{broker_id}"
                rows += [PastConfig(subject, name, value) for name, value in sorted(configs.items())]
    if broker is None:
        for state in _topics(moment.image, topic):
            rows += [PastConfig(f"topic:{state.name}", name, value) for name, value in sorted(state.configs.items())]
    start, window = numbered_page(len(rows), page, per_page)
    return Page(rows[start : start + window.per_page], len(rows), window, "subject", topic)
