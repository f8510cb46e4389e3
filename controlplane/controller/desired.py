"""Desired state from database rows that the log lacks: topics, access entries, assignments, replica resets; features after a lost log.

Invariants: a row is applied if its generation is above the image's. A row below it is drift, which is reported and never acted on.
Absence never deletes: only a row marked as deleted does. A row that cannot be applied yet is kept and tried again.
Does not contain: the database, responses to requests (`pending_requests`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from uuid import UUID

from brokerd.cluster import election, features
from brokerd.cluster.access_values import configs_of
from brokerd.cluster.configs import ALL_BROKERS
from brokerd.cluster.features import FEATURES_LEVEL
from brokerd.cluster.levels import HANDOVER_LEVEL, MAJORITY_LEVEL, ROUTE_LEVEL, ROUTE_PRINCIPAL_LEVEL
from brokerd.cluster.majority_config import has_majority_acks
from brokerd.cluster.metadata import (
    BROKER,
    AccessChanged,
    AccessKind,
    BrokerConfigChanged,
    FeatureFinalised,
    MetadataRecord,
    PartitionChanged,
    PartitionsGrown,
    ReplicaReset,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
    TopicReady,
)
from brokerd.cluster.model import PartitionState, ReplicaIncarnation, TopicPartition, TopicState
from brokerd.cluster.placement import PlacementError, place
from controlplane.controller import partition_changes, request_validation
from controlplane.controller.events import (
    DesiredAccess,
    DesiredAssignment,
    DesiredRead,
    DesiredReset,
    DesiredTopic,
    ReportKind,
    Subject,
    SubjectKind,
)
from controlplane.controller.pending_requests import ACCESS_LEVEL, PendingRequests
from controlplane.controller.reconcile_pass import ReconcilePass

TAIL_LEVEL = 5
"""Metadata level from which a partition can have observers."""


@dataclass(slots=True)
class DesiredState:
    database_cluster_id: str | None = None
    """The cluster that the database belongs to, "" for none; None before the first complete read of this term."""
    topics: dict[UUID, DesiredTopic] = field(default_factory=dict)
    assignments: dict[TopicPartition, DesiredAssignment] = field(default_factory=dict)
    resets: dict[str, DesiredReset] = field(default_factory=dict)
    access: list[DesiredAccess] = field(default_factory=list)
    features: dict[str, int] = field(default_factory=dict)
    superseded: dict[UUID | TopicPartition, list[str]] = field(default_factory=dict)
    """Ids of requests whose rows were replaced by a later request before a pass. They are answered together with the later request."""

    def receive(self, event: DesiredRead) -> None:
        if event.complete:
            self.database_cluster_id, self.features = event.cluster_id, dict(event.features)
        for topic in event.topics:
            self._supersede(topic.topic_id, self.topics.get(topic.topic_id), topic.request_id)
            self.topics[topic.topic_id] = topic
        for a in event.assignments:
            tp = TopicPartition(a.topic_id, a.partition)
            self._supersede(tp, self.assignments.get(tp), a.request_id)
            self.assignments[tp] = a
        for reset in event.resets:
            self.resets[reset.reset_id] = reset
        self.access += event.access

    def _supersede(
        self, key: UUID | TopicPartition, before: DesiredTopic | DesiredAssignment | None, request_id: str | None
    ) -> None:
        if before is not None and before.request_id not in (None, request_id):
            self.superseded.setdefault(key, []).append(before.request_id)

    def _requests_of(self, key: UUID | TopicPartition, request_id: str | None) -> list[str]:
        """The requests that are answered with this row."""
        return [*self.superseded.pop(key, ()), *([request_id] if request_id is not None else ())]

    def validate(self) -> None:
        for topic_id, topic in self.topics.items():
            assert topic_id == topic.topic_id, f"row of {topic.name} is kept under another's id"

    # -- features --------------------------------------------------------------------------------------------------------
    def restore_features(self, plan: ReconcilePass) -> None:
        """Finalise features that the log lacks: a log without them was created again after a loss. A level in the log wins over the rows."""
        for name, level in sorted(self.features.items()):
            if plan.level() < FEATURES_LEVEL:
                return
            del self.features[name]
            if (
                name not in plan.image.features
                and features.problem(name, level, features.UPGRADE, 0, plan.level()) is None
            ):
                plan.add(FeatureFinalised(name, level))

    # -- topics ----------------------------------------------------------------------------------------------------------
    def write_topics(self, plan: ReconcilePass, requests: PendingRequests) -> None:
        places = _ReplicaPlacer(plan)
        # Deletions come first, so that a name that this pass frees is available for the next row.
        for topic_id, desired in sorted(self.topics.items(), key=lambda kv: (kv[1].name, not kv[1].deleted)):
            if _topic_step(plan, places, desired):
                del self.topics[topic_id]
                for request_id in self._requests_of(topic_id, desired.request_id):
                    requests.mark_fulfilled(request_id, desired.name)

    # -- access, brokers' settings ---------------------------------------------------------------------------------------
    def write_access(self, plan: ReconcilePass, requests: PendingRequests) -> None:
        if self.access and plan.level() < ACCESS_LEVEL:
            plan.report(ReportKind.REJECTED, Subject(SubjectKind.ACCESS), request_validation.ACCESS_NEEDS_LEVEL)
            return
        desired_access, self.access = self.access, []
        written: dict[tuple[str, str], int] = {}
        for desired in desired_access:
            needed, what = _access_level(desired)
            if plan.level() < needed:
                text = f"the metadata log is at level {plan.level()}; {what} need {needed} (manage.py upgrade_metadata)"
                plan.report(ReportKind.REJECTED, Subject(SubjectKind.ACCESS, f"{desired.kind} {desired.key}"), text)
                continue  # the row stays in the database, and is read again
            known, _ = plan.image.access_to(desired.kind, desired.key)
            known = max(known, written.get((desired.kind, desired.key), 0))
            if desired.generation > known:
                written[desired.kind, desired.key] = desired.generation
                plan.add(_access_record(desired))
                if (desired.kind, desired.key) == (BROKER, str(ALL_BROKERS)):
                    plan.cluster_configs = configs_of(desired.value)
                    for topic in plan.image.topics.values():
                        _drop_outdated_elr(plan, topic)
            elif desired.generation < known:
                text = f"the row has generation {desired.generation}, the log {known}: an older database?"
                plan.report(ReportKind.DRIFT, Subject(SubjectKind.ACCESS, f"{desired.kind} {desired.key}"), text)
            requests.mark_fulfilled(
                desired.request_id, "" if (desired.kind, desired.key) == (BROKER, str(ALL_BROKERS)) else desired.key
            )

    # -- moves and recovery ----------------------------------------------------------------------------------------------
    def write_assignments(self, plan: ReconcilePass, requests: PendingRequests) -> None:
        for tp, desired in list(self.assignments.items()):
            del self.assignments[tp]
            state, topic = plan.state(tp), plan.image.topics.get(tp.topic_id)
            waiting = self._requests_of(tp, desired.request_id)
            if state is None or topic is None:
                continue  # the topic is deleted: `PendingRequests.respond_when_due` answers
            name = f"{topic.name}-{tp.partition}"
            if not partition_changes.is_applied(state, desired):
                after = _apply_desired(plan, topic, state, desired)
                if isinstance(after, str):
                    subject = Subject(SubjectKind.MOVE, str(desired.move_id), topic.name, tp.partition)
                    plan.report(ReportKind.REJECTED, subject, after)
                    for request_id in waiting:
                        requests.record_rejection(request_id, name, after)
                    continue
                plan.put(tp, after)
            for request_id in waiting:
                requests.mark_fulfilled(request_id, name)

    def write_resets(self, plan: ReconcilePass) -> None:
        for reset_id, reset in list(self.resets.items()):
            del self.resets[reset_id]
            tp = TopicPartition(reset.topic_id, reset.partition)
            state, topic = plan.state(tp), plan.image.topics.get(reset.topic_id)
            after: PartitionState | str | None = "this broker has no such replica"
            if state is not None and topic is not None:
                least = plan.config(topic).min_insync_replicas
                after = partition_changes.with_replica_reset(state, reset.broker_id, least, plan.serving_epochs(tp))
            if isinstance(after, str):
                plan.report(ReportKind.REJECTED, Subject(SubjectKind.RECOVERY, reset_id), after)
                continue
            plan.put(tp, after)
            plan.add(ReplicaReset(reset.topic_id, reset.partition, reset.broker_id, reset_id))


def _access_level(desired: DesiredAccess) -> tuple[int, str]:
    """The metadata level that this row needs, and what needs it."""
    if desired.kind != AccessKind.ROUTE:
        return ACCESS_LEVEL, "access entries"
    if desired.value is not None and desired.value.get("principal"):
        return ROUTE_PRINCIPAL_LEVEL, "principals of routes"
    return ROUTE_LEVEL, "routes"


def _access_record(desired: DesiredAccess) -> MetadataRecord:
    if desired.kind == BROKER:
        return BrokerConfigChanged(int(desired.key), desired.generation, configs_of(desired.value))
    return AccessChanged(desired.kind, desired.key, desired.generation, desired.value)


def _topic(desired: DesiredTopic) -> Subject:
    return Subject(SubjectKind.TOPIC, topic=desired.name)


# -- one topic -----------------------------------------------------------------------------------------------------------
def _topic_step(plan: ReconcilePass, places: _ReplicaPlacer, desired: DesiredTopic) -> bool:
    """Write the records that the row needs and the log lacks. True when nothing is left to do."""
    topic = plan.image.topics.get(desired.topic_id)
    if topic is None:
        return _topic_absent(plan, places, desired)
    if desired.generation <= topic.generation:
        if desired.generation < topic.generation:
            text = f"the row has generation {desired.generation}, the log {topic.generation}: an older database?"
            plan.report(ReportKind.DRIFT, _topic(desired), text)
        return True
    if desired.deleted:
        plan.delete(topic, desired.generation)
        return True
    grown: list[MetadataRecord] = []
    if desired.partitions > topic.partition_count:
        try:
            found = places.find(desired, topic.partition_count)
        except PlacementError as e:
            plan.report(ReportKind.REJECTED, _topic(desired), f"cannot grow: {e}")
            return False
        grown.append(PartitionsGrown(topic.topic_id, desired.generation, desired.partitions))
        grown += [PartitionChanged(topic.topic_id, i, s) for i, s in found.items()]
    plan.add(TopicConfigChanged(topic.topic_id, desired.generation, dict(desired.configs)), *grown)
    plan.topic_configs[topic.topic_id] = desired.configs
    _drop_outdated_elr(plan, topic)
    return True


def _drop_outdated_elr(plan: ReconcilePass, topic: TopicState) -> None:
    """`min.insync.replicas` may have fallen: from this record on the high watermark can advance without the replicas that left the ISR."""
    least = plan.config(topic).min_insync_replicas
    for index, state in topic.partitions.items():
        tp = TopicPartition(topic.topic_id, index)
        before = plan.decided.get(tp, state)
        if (after := election.without_outdated_elr(before, min_insync=least)) is not before:
            plan.put(tp, after)


def _topic_absent(plan: ReconcilePass, places: _ReplicaPlacer, desired: DesiredTopic) -> bool:
    if desired.topic_id in plan.image.deleted:
        if not desired.deleted:
            plan.report(
                ReportKind.DRIFT, _topic(desired), "the log says that this topic was deleted: an older database?"
            )
        return True
    if desired.deleted:
        plan.add(TopicDeleted(desired.topic_id, desired.name, desired.generation))
        return True
    other = plan.image.topic_named(desired.name)
    if other is not None and other.topic_id in plan.deleted:
        return (
            False  # the next pass creates the topic, because one log entry must not have two topics with the same name
        )
    if other is not None:
        plan.report(ReportKind.DRIFT, _topic(desired), "the log has another topic of this name")
        return True
    try:
        found = places.find(desired, 0)
    except PlacementError as e:
        plan.report(ReportKind.REJECTED, _topic(desired), f"cannot be placed yet: {e}")
        return False
    plan.add(
        TopicCreated(desired.topic_id, desired.name, desired.generation, dict(desired.configs), desired.partitions),
        *(PartitionChanged(desired.topic_id, i, s) for i, s in found.items()),
        TopicReady(desired.topic_id),
    )
    return True


class _ReplicaPlacer:
    """Placement of new partitions. Partitions that this pass has placed count for its next topics."""

    def __init__(self, plan: ReconcilePass) -> None:
        self._plan = plan
        self._load: Counter[int] | None = None

    def find(self, desired: DesiredTopic, first: int) -> dict[int, PartitionState]:
        """Replicas of the partitions from `first` on. Raises PlacementError."""
        with_majority = has_majority_acks(desired.configs)
        if with_majority and self._plan.level() < MAJORITY_LEVEL:
            raise PlacementError(
                f"the metadata log is at level {self._plan.level()}; majority acknowledgements need {MAJORITY_LEVEL} (manage.py upgrade_metadata)"
            )
        live = self._plan.open()
        given = desired.assignment or {}
        missing = [i for i in range(first, desired.partitions) if i not in given]
        chosen: dict[int, tuple[int, ...]] = {
            i: tuple(given[i]) for i in range(first, desired.partitions) if i in given
        }
        if missing:
            if self._load is None:
                self._load = Counter(r for _, _, state in self._plan.image.each_partition() for r in state.replicas)
            placed = place(desired.topic_id, missing[0], len(missing), desired.replication_factor, live, self._load)
            for replicas in placed:
                for r in replicas:
                    self._load[r] += 1
            chosen.update(zip(missing, placed, strict=True))
        out = {}
        for i, replicas in sorted(chosen.items()):
            isr = tuple(ReplicaIncarnation(r, inc) for r in replicas if (inc := self._plan.broker_epoch(r)) is not None)
            if not isr:
                raise PlacementError(f"none of the brokers {list(replicas)} of partition {i} is alive")
            voters = replicas if with_majority else ()
            out[i] = PartitionState(replicas, isr, isr[0].broker_id, isr[0].broker_epoch, 0, 0, voters=voters)
        return out


def _apply_desired(
    plan: ReconcilePass, topic: TopicState, state: PartitionState, desired: DesiredAssignment
) -> PartitionState | str:
    after = _desired_state(plan, topic, state, desired)
    if isinstance(after, str):
        return after
    return election.without_outdated_elr(after, min_insync=plan.config(topic).min_insync_replicas)


def _desired_state(
    plan: ReconcilePass, topic: TopicState, state: PartitionState, desired: DesiredAssignment
) -> PartitionState | str:
    if state.voters and (desired.observers or desired.delete_below is not None or desired.hand_over_at is not None):
        return "it has majority acknowledgements: it can be moved only with all of its records"
    if plan.config(topic).remote_storage and (desired.delete_below is not None or desired.hand_over_at is not None):
        # The floor and history replicas apply to the local log only. The remote records would stay readable, or not be readable any more.
        return "it has tiered storage: its old records are in the remote store and need neither a deletion nor old replicas"
    if desired.delete_below is not None:
        return partition_changes.with_records_deleted(state, desired.delete_below, desired.read_generation)
    if desired.observers:
        if plan.level() < TAIL_LEVEL:
            return f"the metadata log is at level {plan.level()}; tail moves need {TAIL_LEVEL} (manage.py upgrade_metadata)"
        return partition_changes.with_observers(state, desired.observers, desired.read_generation, plan.broker_epoch)
    if desired.hand_over_at is not None:
        if plan.level() < HANDOVER_LEVEL:
            return f"the metadata log is at level {plan.level()}; early hand-over needs {HANDOVER_LEVEL} (manage.py upgrade_metadata)"
        return partition_changes.handed_over(
            state, desired.replicas, desired.hand_over_at, desired.read_generation, plan.broker_epoch
        )
    return partition_changes.start_reassignment(state, desired.replicas, desired.read_generation, plan.broker_epoch)
