"""Projects the image of the metadata log into rows.

Invariants: only differences are written. The state in memory is the known content of the rows and is dropped when a write fails.
Does not contain: drift between desired and observed rows (`selectors.topics.drift_list`).
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from brokerd.cluster.configs import controller_defaults
from brokerd.cluster.image import Image
from brokerd.cluster.model import NO_LEADER, BrokerState, PartitionState, TopicState
from controlplane.domain import cluster_events
from controlplane.domain.cluster_events import BrokerLife, LeaderChange, ObservedEvent
from controlplane.models import Broker, Cluster, ClusterEvent, ObservedPartition, ObservedReplica, ObservedTopic
from controlplane.selectors.topic_configs import min_insync
from weir_common.phrases import phrase_to_json

BLOCKERS_KEPT = 50
"""Partitions that are listed as blocking a broker's restart. The others are only counted."""
BATCH = 500
"""Rows per statement: SQLite allows 32,766 values in one."""

EVENTS_KEPT = timedelta(days=7)
"""Retention of observed events, as of ended alerts."""

PartitionId = tuple[UUID, int]


@dataclass(slots=True)
class Difference:
    """The changes of the last write, for live updates."""

    partitions: dict[UUID, list[int]] = field(default_factory=dict)
    topics: set[UUID] = field(default_factory=set)
    topics_gone: list[str] = field(default_factory=list)
    brokers: bool = False
    cluster: bool = False

    def __bool__(self) -> bool:
        return bool(self.partitions or self.topics or self.topics_gone or self.brokers or self.cluster)


@dataclass(frozen=True, slots=True)
class TopicSums:
    name: str
    generation: int
    configs: Mapping[str, str]
    partition_count: int
    replication_factor: int
    ready: bool
    internal: bool
    under_replicated: int
    under_min_isr: int
    offline: int
    reassigning: int
    not_preferred: int


@dataclass(frozen=True, slots=True)
class BrokerSums:
    state: BrokerState
    leaders: int
    replicas: int
    replicas_out_of_sync: int
    restart_blocked: int
    restart_blockers: list[tuple[str, int, list[int], int]]
    """The first partitions by name: (topic, index, brokers in sync, min.insync.replicas)."""
    config_generation: int
    configs: Mapping[str, str]


class MetadataProjection:
    def __init__(self) -> None:
        self._loaded = False
        self.partition_ids: dict[PartitionId, int] = {}
        self._partitions: dict[PartitionId, PartitionState] = {}
        self._topics: dict[UUID, TopicSums] = {}
        self._brokers: dict[int, BrokerSums] = {}
        self._lives: dict[int, BrokerLife] = {}
        self._controller: tuple[int | None, int | None] | None = None
        self._zookeeper: bool | None = None

    def forget(self) -> None:
        """The content of the rows is unknown: compare with the database at the next write."""
        self._loaded = False

    def write(self, image: Image) -> Difference:
        """Update the rows to the image. On DatabaseError `forget` has been called."""
        try:
            with transaction.atomic():
                if not self._loaded:
                    self._load()
                return self._write(image)
        except Exception:
            self.forget()
            raise

    def touch(
        self,
        image: Image,
        *,
        controller_id: int | None,
        connected: bool,
        fresh: bool,
        sampled: bool = False,
        sample_note: str = "",
        drift: int | None = None,
        access_missing: int | None = None,
    ) -> None:
        """Update the cluster's row: position in the log, and time. `fresh`: the head was read just now. `drift` and `access_missing` None: not
        counted again."""
        now = timezone.now()
        epoch = image.controller_epoch or None
        values: dict[str, object] = {
            "cluster_id": image.cluster_id,
            "controller_id": controller_id,
            "controller_epoch": epoch,
            "metadata_seq": image.seq,
            "zookeeper_connected": connected,
            "sample_note": sample_note,
            "heartbeat_at": now,
        }
        if fresh:
            values["observed_at"] = now
        if sampled:
            values["sampled_at"] = now
        if drift is not None:
            values["drift"] = drift
        if access_missing is not None:
            values["access_missing"] = access_missing
        if not Cluster.objects.filter(pk=1).update(**values):
            Cluster.objects.create(pk=1, **values)
        self._write_elections((controller_id, epoch), connected, now)

    def _write_elections(self, controller: tuple[int | None, int | None], connected: bool, now: datetime) -> None:
        """The states before the first connection and the first controller are unknown."""
        write_events(
            [
                *cluster_events.zookeeper_events(self._zookeeper, connected),
                *cluster_events.controller_events(self._controller, controller),
            ],
            now,
        )
        if connected or self._zookeeper is not None:
            self._zookeeper = connected
        if controller[0] is not None or self._controller is not None:
            self._controller = controller

    # -- the write -----------------------------------------------------------------------------------------------------
    def _write(self, image: Image) -> Difference:
        now = timezone.now()
        difference = Difference()
        desired = {
            (topic.topic_id, index): state
            for topic in image.topics.values()
            for index, state in topic.partitions.items()
        }
        self._write_topics(image, difference, now)
        self._write_partitions(desired, difference, now)
        self._write_brokers(image, difference, now)
        return difference

    def _write_topics(self, image: Image, difference: Difference, now: datetime) -> None:
        alive = {b.broker_id for b in image.live_brokers()}
        defaults = controller_defaults(image.broker_configs)
        sums = {t.topic_id: topic_sums(t, alive, defaults) for t in image.topics.values()}
        gone = [i for i in self._topics if i not in sums]
        for start in range(0, len(gone), BATCH):
            ObservedTopic.objects.filter(id__in=gone[start : start + BATCH]).delete()
        for topic_id in gone:
            difference.topics_gone.append(self._topics.pop(topic_id).name)
            for spot in [s for s in self.partition_ids if s[0] == topic_id]:
                del self.partition_ids[spot]
                self._partitions.pop(spot, None)
        changed = [i for i, s in sums.items() if self._topics.get(i) != s]
        if changed:
            columns = list(TopicSums.__dataclass_fields__)
            ObservedTopic.objects.bulk_create(
                [ObservedTopic(id=i, observed_at=now, **{c: getattr(sums[i], c) for c in columns}) for i in changed],
                batch_size=BATCH,
                update_conflicts=True,
                unique_fields=["id"],
                update_fields=[*columns, "observed_at"],
            )
            difference.topics.update(changed)
            self._topics.update({i: sums[i] for i in changed})

    def _write_partitions(
        self, desired: dict[PartitionId, PartitionState], difference: Difference, now: datetime
    ) -> None:
        changed = [s for s, state in desired.items() if self._partitions.get(s) != state]
        if not changed:
            return
        rows = [
            ObservedPartition(topic_id=spot[0], index=spot[1], observed_at=now, **partition_columns(desired[spot]))
            for spot in changed
        ]
        ObservedPartition.objects.bulk_create(
            rows,
            batch_size=BATCH,
            update_conflicts=True,
            unique_fields=["topic", "index"],
            update_fields=[*partition_columns(desired[changed[0]]), "observed_at"],
        )
        topics = list({s[0] for s in changed})
        for start in range(0, len(topics), BATCH):
            for pk, topic_id, index in ObservedPartition.objects.filter(
                topic_id__in=topics[start : start + BATCH]
            ).values_list("pk", "topic_id", "index"):
                self.partition_ids[topic_id, index] = pk
        names = {i: t.name for i, t in self._topics.items()}
        self._write_replicas(changed, desired, names, now)
        elected = [
            LeaderChange(f"{names[spot[0]]}-{spot[1]}", before.leader_id, desired[spot].leader_id)
            for spot in changed
            if (before := self._partitions.get(spot)) is not None and before.leader != desired[spot].leader
        ]
        write_events(cluster_events.leader_events(elected), now)
        for spot in changed:
            self._partitions[spot] = desired[spot]
            difference.partitions.setdefault(spot[0], []).append(spot[1])

    def _write_replicas(
        self,
        changed: Iterable[PartitionId],
        desired: dict[PartitionId, PartitionState],
        names: Mapping[UUID, str],
        now: datetime,
    ) -> None:
        rows: list[ObservedReplica] = []
        for spot in changed:
            state, pk = desired[spot], self.partition_ids[spot]
            before = self._partitions.get(spot)
            if before is None or set(before.hosts) - set(state.hosts):
                ObservedReplica.objects.filter(partition_id=pk).exclude(broker_id__in=state.hosts).delete()
            rows += [
                ObservedReplica(
                    partition_id=pk,
                    broker_id=b,
                    topic_name=names[spot[0]],
                    index=spot[1],
                    in_isr=b in state.isr_ids,
                    observed_at=now,
                )
                for b in state.hosts
            ]
        ObservedReplica.objects.bulk_create(
            rows,
            batch_size=BATCH,
            update_conflicts=True,
            unique_fields=["partition", "broker_id"],
            update_fields=["topic_name", "index", "in_isr", "observed_at"],
        )

    def _write_brokers(self, image: Image, difference: Difference, now: datetime) -> None:
        sums = broker_sums(image)
        changed = [i for i, s in sums.items() if self._brokers.get(i) != s]
        if not changed:
            return
        columns = (
            "broker_uuid",
            "host",
            "port",
            "rack",
            "failure_domain",
            "broker_epoch",
            "alive",
            "life",
            "tail_doubt",
        )
        counts = (
            "leaders",
            "replicas",
            "replicas_out_of_sync",
            "restart_blocked",
            "restart_blockers",
            "config_generation",
            "configs",
        )
        Broker.objects.bulk_create(
            [
                Broker(
                    broker_id=i,
                    observed_at=now,
                    **{c: getattr(sums[i].state, c) for c in columns},
                    **{c: getattr(sums[i], c) for c in counts},
                )
                for i in changed
            ],
            update_conflicts=True,
            unique_fields=["broker_id"],
            update_fields=[*columns, *counts, "observed_at"],
        )
        self._brokers.update({i: sums[i] for i in changed})
        lives = {i: BrokerLife(s.state.alive, s.state.life) for i, s in sums.items()}
        write_events(cluster_events.broker_events(self._lives, lives), now)
        # A broker that is down gets no request, and one that has just registered has got none: whether it responds is unknown.
        registrations = [i for i, life in lives.items() if self._lives.get(i) != life]
        Broker.objects.filter(broker_id__in=registrations).forget_responses()
        self._lives = lives
        difference.brokers = True

    # -- content of the rows ---------------------------------------------------------------------------------------------
    def _load(self) -> None:
        """Read the rows, so that after a restart only changes since the last run are written. The rows of brokers are few and are written again."""
        self._brokers = {}
        lives = Broker.objects.values_list("broker_id", "alive", "life")
        self._lives = {broker_id: BrokerLife(alive, life) for broker_id, alive, life in lives}
        self._topics = {}
        self._partitions = {}
        self.partition_ids = {}
        for row in ObservedTopic.objects.all():
            self._topics[row.id] = TopicSums(**{c: getattr(row, c) for c in TopicSums.__dataclass_fields__})
        for pk, topic_id, index in ObservedPartition.objects.values_list("pk", "topic_id", "index"):
            self.partition_ids[topic_id, index] = pk
        self._loaded = True


def write_events(events: list[ObservedEvent], now: datetime) -> None:
    """Write the rows of these events."""
    if not events:
        return
    ClusterEvent.objects.bulk_create(
        [
            ClusterEvent(at=now, kind=e.kind, subject=e.subject, text=e.text, phrase=phrase_to_json(e.text))
            for e in events
        ],
        batch_size=BATCH,
    )
    ClusterEvent.objects.filter(at__lt=now - EVENTS_KEPT).delete()


def leader_not_preferred(state: PartitionState) -> bool:
    return state.leader not in (NO_LEADER, state.replicas[0])


def topic_sums(topic: TopicState, alive: set[int], defaults: Mapping[str, str]) -> TopicSums:
    """`defaults`: cluster-wide topic defaults (`controller_defaults`)."""
    states = list(topic.partitions.values())
    least = min_insync(topic.configs, defaults)
    return TopicSums(
        name=topic.name,
        generation=topic.generation,
        configs=dict(topic.configs),
        partition_count=topic.partition_count,
        replication_factor=max((len(s.target) for s in states), default=1),
        ready=topic.ready,
        internal=topic.internal,
        under_replicated=sum(1 for s in states if s.under_replicated),
        under_min_isr=sum(1 for s in states if s.leader != NO_LEADER and len(s.isr) < s.effective_min_insync(least)),
        offline=sum(1 for s in states if s.leader == NO_LEADER),
        reassigning=sum(1 for s in states if s.reassigning),
        not_preferred=sum(1 for s in states if leader_not_preferred(s)),
    )


def broker_sums(image: Image) -> dict[int, BrokerSums]:
    leaders: Counter[int] = Counter()
    replicas: Counter[int] = Counter()
    out_of_sync: Counter[int] = Counter()
    blockers: dict[int, list[tuple[str, int, list[int], int]]] = defaultdict(list)
    defaults = controller_defaults(image.broker_configs)
    for topic in image.topics.values():
        configured = min_insync(topic.configs, defaults)
        for index, state in topic.partitions.items():
            least = state.effective_min_insync(configured)
            leaders[state.leader] += 1
            isr = state.isr_ids
            replicas.update(state.replicas)
            for broker_id in state.replicas:
                if broker_id not in isr and broker_id not in state.adding:
                    out_of_sync[broker_id] += 1
            if len(isr) <= least:
                for broker_id in state.replicas:
                    if len(isr) - (broker_id in isr) < least:
                        blockers[broker_id].append((topic.name, index, list(isr), least))
    return {
        i: BrokerSums(
            b,
            leaders[i],
            replicas[i],
            out_of_sync[i],
            len(blockers[i]),
            heapq.nsmallest(BLOCKERS_KEPT, blockers[i]),
            *image.broker_configs.get(i, (0, {})),
        )
        for i, b in image.brokers.items()
    }


def partition_columns(state: PartitionState) -> dict[str, object]:
    return {
        "replicas": list(state.replicas),
        "isr": list(state.isr_ids),
        "elr": list(state.elr),
        "last_isr": list(state.last_isr),
        "adding": list(state.adding),
        "removing": list(state.removing),
        "observers": list(state.observers),
        "voters": list(state.voters),
        "tail_start": state.tail_start if state.tail_start >= 0 else None,
        "log_start_floor": state.log_start_floor if state.log_start_floor >= 0 else None,
        "archive_start": state.handover_offset if state.handover_offset >= 0 else None,
        "archive_epoch": state.handover_epoch if state.handover_offset >= 0 else None,
        "holders": list(state.history_replicas),
        "leader": state.leader_id,
        "in_trouble": state.leader == NO_LEADER or state.under_replicated,
        "leader_not_preferred": leader_not_preferred(state),
        "leader_epoch": state.leader_epoch,
        "partition_epoch": state.partition_epoch,
        "assignment_generation": state.assignment_generation,
    }
