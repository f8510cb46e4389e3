"""One pass of the controller: its input, and its decisions so far, which become one append to the metadata log.

Invariants: each read sees the decisions that this pass has already made. A partition that changes several times in one pass has one
record, at the position of its first change, one partition epoch above the image's. A pass has no state beyond one call.
Does not contain: decision rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple
from uuid import UUID

from brokerd.cluster.configs import ALL_BROKERS, TopicConfig, controller_defaults
from brokerd.cluster.cordons import is_cordoned, leadership_disabled
from brokerd.cluster.election import BrokerEpochs
from brokerd.cluster.image import Image
from brokerd.cluster.majority import LogEnd
from brokerd.cluster.metadata import (
    MetadataLevelRaised,
    MetadataRecord,
    PartitionChanged,
    RequestCompleted,
    TopicDeleted,
)
from brokerd.cluster.model import (
    NO_LEADER,
    REPLACED,
    BrokerState,
    PartitionState,
    ReplicaIncarnation,
    TopicPartition,
    TopicState,
)
from brokerd.cluster.znodes import Registration
from controlplane.controller.events import (
    AppendMetadata,
    Effect,
    LoggedChange,
    Report,
    ReportKind,
    Subject,
    SubjectKind,
)
from controlplane.domain.audit_operation import AuditOperation

Offline = Mapping[int, tuple[int, frozenset[TopicPartition]]]
"""Broker epoch and reported offline replicas of each broker."""
Vote = tuple[TopicPartition, int]
"""A partition without a leader that has majority acknowledgements, and the leader epoch of its vote."""

CONTROLLER = "controller"
"""The actor of changes that the controller decides itself."""


class UncleanElection(NamedTuple):
    """`candidates`: brokers that a clean election could have chosen."""

    candidates: list[int]
    leader: int


@dataclass(slots=True)
class ReconcilePass:
    image: Image
    registrations: Mapping[int, Registration]
    leaving: set[ReplicaIncarnation]
    offline: Offline
    log_ends: Mapping[Vote, Mapping[int, LogEnd]] = field(default_factory=dict)
    """The valid reports of each vote, by broker."""
    decided: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    """State of changed partitions after this pass's records. The image has the others."""
    deleted: set[UUID] = field(default_factory=set)
    """Topics that this pass deletes. The image still has them."""
    topic_configs: dict[UUID, Mapping[str, str]] = field(default_factory=dict)
    """Configs of the topics whose configs this pass changes."""
    cluster_configs: dict[str, str] | None = None
    """The cluster-wide broker configs, if this pass changes them."""
    effects: list[Effect] = field(default_factory=list)
    logged_changes: list[LoggedChange] = field(default_factory=list)
    """Emitted as soon as this pass's records are in the log."""
    _unclean: dict[TopicPartition, UncleanElection] = field(default_factory=dict)
    """Automatic unclean leader elections."""
    _records: list[MetadataRecord | None] = field(default_factory=list)
    _places: dict[TopicPartition, int] = field(default_factory=dict)
    _completed: list[str] = field(default_factory=list)

    # -- input -----------------------------------------------------------------------------------------------------------
    def state(self, tp: TopicPartition) -> PartitionState | None:
        """Return None if there is no such partition, or this pass deletes its topic."""
        if tp.topic_id in self.deleted:
            return None
        return self.decided.get(tp) or self.image.partition(tp)

    def broker_epoch(self, broker_id: int) -> int | None:
        """The broker epoch of a broker that may lead; None if it is not registered or is shutting down."""
        r = self.registrations.get(broker_id)
        if r is None or ReplicaIncarnation(broker_id, r.broker_epoch) in self.leaving:
            return None
        return r.broker_epoch

    def serving_epochs(self, tp: TopicPartition) -> BrokerEpochs:
        """`broker_epoch` for one partition: None also for a broker whose replica is offline."""

        def broker_epoch(broker_id: int) -> int | None:
            current = self.broker_epoch(broker_id)
            return None if self.is_offline(broker_id, current, tp) else current

        return broker_epoch

    def is_offline(self, broker_id: int, broker_epoch: int | None, tp: TopicPartition) -> bool:
        reported = self.offline.get(broker_id)
        return reported is not None and reported[0] == broker_epoch and tp in reported[1]

    def config(self, topic: TopicState) -> TopicConfig:
        """The topic's config after this pass's records. Brokers' config files are unknown here (dynamic.BY_THE_CONTROLLER)."""
        given = self.image.broker_configs
        if self.cluster_configs is not None:
            given = {ALL_BROKERS: (0, self.cluster_configs)}
        return TopicConfig.from_overrides(
            self.topic_configs.get(topic.topic_id, topic.configs), controller_defaults(given)
        )

    def open(self) -> list[BrokerState]:
        """Live brokers that are not cordoned: they accept new replicas."""
        return [
            b for b in self.live_brokers() if not is_cordoned(self.image.broker_configs.get(b.broker_id, (0, {}))[1])
        ]

    def leadership_disabled(self) -> frozenset[int]:
        """Brokers that an operator has demoted."""
        return frozenset(b for b, (_, configs) in self.image.broker_configs.items() if leadership_disabled(configs))

    def live_brokers(self) -> list[BrokerState]:
        return [
            BrokerState(
                r.broker_id, r.broker_epoch, r.broker_uuid, r.host, r.port, r.rack, r.failure_domain, True, r.endpoints
            )
            for _, r in sorted(self.registrations.items())
            if self.broker_epoch(r.broker_id) is not None
        ]

    def level(self) -> int:
        """The metadata level after this pass's records."""
        raised = [r.level for r in self._records if isinstance(r, MetadataLevelRaised)]
        return max(self.image.metadata_version, *raised) if raised else self.image.metadata_version

    # -- decisions -------------------------------------------------------------------------------------------------------
    def add(self, *records: MetadataRecord) -> None:
        self._records += records

    def put(
        self, tp: TopicPartition, state: PartitionState | None, *, by_vote: bool = False, requested: bool = False
    ) -> None:
        """Set a partition's state. No effect for None. No effect if this pass deletes the topic, because no reader of the log could apply the
        record. `by_vote`: the result of a vote, which is never an unclean election. `requested`: an election that a client requested, and
        whose change the request logs."""
        if state is None or tp.topic_id in self.deleted:
            return
        before = self.image.partition(tp)
        if before is not None:
            if not by_vote:
                self._report_unclean(tp, before, self.decided.get(tp, before), state, requested=requested)
            state = replace(state, partition_epoch=before.partition_epoch + 1)
        self.decided[tp] = state
        at = self._places.setdefault(tp, len(self._records))
        self._records[at : at + 1] = [PartitionChanged(tp.topic_id, tp.partition, state)]

    def delete(self, topic: TopicState, generation: int) -> None:
        """Delete the topic. Earlier decisions of this pass about its partitions are dropped, and later ones have no effect."""
        self.add(TopicDeleted(topic.topic_id, topic.name, generation))
        self.deleted.add(topic.topic_id)
        for index in topic.partitions:
            tp = TopicPartition(topic.topic_id, index)
            if self.decided.pop(tp, None) is not None:
                self._records[self._places.pop(tp)] = None

    def report(self, kind: ReportKind, subject: Subject, text: str) -> None:
        self.effects.append(Report(kind, subject, text))

    def respond(self, request_id: str, error: int, message: str | None, result: Mapping[str, object]) -> None:
        self.add(RequestCompleted(request_id, error, message, result))
        self._completed.append(request_id)

    def append(self) -> AppendMetadata | None:
        """All decisions of this pass; None if there are none."""
        records = tuple(r for r in self._records if r is not None)
        return AppendMetadata(records, tuple(self._completed)) if records or self._completed else None

    def automatic_elections(self) -> list[LoggedChange]:
        """One change per topic for its automatic unclean leader elections: otherwise only the log of the controller would have them."""
        by_topic: dict[str, dict[int, UncleanElection]] = {}
        for tp, election in sorted(self._unclean.items()):
            if tp.topic_id not in self.deleted:
                by_topic.setdefault(self.image.topics[tp.topic_id].name, {})[tp.partition] = election
        return [
            LoggedChange(
                CONTROLLER,
                AuditOperation.TOPIC_ELECT_UNCLEAN_AUTOMATICALLY,
                "topic",
                name,
                before={str(i): {"leader": NO_LEADER, "isr": e.candidates} for i, e in elections.items()},
                after={str(i): {"leader": e.leader, "isr": [e.leader]} for i, e in elections.items()},
                detail="unclean.leader.election.enable=true",
            )
            for name, elections in by_topic.items()
        ]

    def _report_unclean(
        self,
        tp: TopicPartition,
        logged: PartitionState,
        before: PartitionState,
        after: PartitionState,
        *,
        requested: bool,
    ) -> None:
        """Report a new leader that was not in the ISR, the ELR or `last_isr`: acknowledged records may be lost.

        `before` is the partition as this pass has left it so far. The image does not know the ISR that the same pass has just
        accepted, nor the members that it has just removed. `logged` is the image's state: its members are named, too.
        """
        if after.leader in (NO_LEADER, before.leader) or after.leader in _candidates(before):
            return
        lost = sorted((_candidates(logged) | _candidates(before)) - {after.leader})
        name = self.image.topics[tp.topic_id].name
        text = f"unclean leader election: broker {after.leader} was elected; records that only {lost or 'other brokers'} had are lost"
        self.report(ReportKind.UNCLEAN, Subject(SubjectKind.PARTITION, "", name, tp.partition), text)
        if not requested:
            self._unclean[tp] = UncleanElection(lost, after.leader)


def _candidates(state: PartitionState) -> set[int]:
    """Brokers that a clean election may choose."""
    return {*state.isr_ids, *state.elr, *state.last_isr} - {REPLACED}
