"""What the database wants and the log lacks: topics, access, placements, recoveries; features, if the log was lost.

Laws: a row is applied when its generation is above the image's; below it is drift, told and never acted on; absence never deletes, only a row that says
deleted does. What cannot be done yet stays and is tried again. Called by `core`. Must not come in: the database, requests' answers (`asked`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from uuid import UUID

from brokerd.cluster import features
from brokerd.cluster.configs import TopicConfig
from brokerd.cluster.features import FEATURES_LEVEL
from brokerd.cluster.levels import ARCHIVE_LEVEL
from brokerd.cluster.metadata import (
    BROKER,
    AccessChanged,
    BrokerConfigChanged,
    FeatureFinalised,
    PartitionChanged,
    PartitionsGrown,
    Record,
    ReplicaReset,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
    TopicReady,
)
from brokerd.cluster.model import PartitionState, Seat, TopicPartition
from brokerd.cluster.placement import PlacementError, place
from controlplane.controller import placements, requests
from controlplane.controller.asked import ACCESS_LEVEL, Asked
from controlplane.controller.events import (
    DesiredAccess,
    DesiredAssignment,
    DesiredRead,
    DesiredReset,
    DesiredTopic,
)
from controlplane.controller.look import Look

TAIL_LEVEL = 5
"""Of the metadata log: from there on a partition may have observers."""


@dataclass(slots=True)
class Wanted:
    rows_of: str | None = None
    """The cluster that the database belongs to, "" for none; None until it has said so in this term."""
    topics: dict[UUID, DesiredTopic] = field(default_factory=dict)
    assignments: dict[TopicPartition, DesiredAssignment] = field(default_factory=dict)
    resets: dict[str, DesiredReset] = field(default_factory=dict)
    access: list[DesiredAccess] = field(default_factory=list)
    features: dict[str, int] = field(default_factory=dict)

    def hear(self, event: DesiredRead) -> None:
        if event.complete:
            self.rows_of, self.features = event.cluster_id, dict(event.features)
        for topic in event.topics:
            self.topics[topic.topic_id] = topic
        for a in event.assignments:
            self.assignments[TopicPartition(a.topic_id, a.partition)] = a
        for reset in event.resets:
            self.resets[reset.reset_id] = reset
        self.access += event.access

    def validate(self) -> None:
        for topic_id, topic in self.topics.items():
            assert topic_id == topic.topic_id, f"row of {topic.name} is kept under another's id"

    # -- features --------------------------------------------------------------------------------------------------------
    def restore_features(self, look: Look) -> None:
        """What the log says of a feature is right, whatever the rows remember; a log that says nothing was begun anew after a loss."""
        for name, level in sorted(self.features.items()):
            if look.level() < FEATURES_LEVEL:
                return
            del self.features[name]
            if (
                name not in look.image.features
                and features.problem(name, level, features.UPGRADE, 0, look.level()) is None
            ):
                look.add(FeatureFinalised(name, level))

    # -- topics ----------------------------------------------------------------------------------------------------------
    def write_topics(self, look: Look, asked: Asked) -> None:
        places = _Places(look)
        for topic_id, wanted in sorted(self.topics.items(), key=lambda kv: kv[1].name):
            if _topic_step(look, places, wanted):
                del self.topics[topic_id]
                asked.fulfilled(wanted.request_id, wanted.name)

    # -- access, brokers' settings ---------------------------------------------------------------------------------------
    def write_access(self, look: Look, asked: Asked) -> None:
        if self.access and look.level() < ACCESS_LEVEL:
            look.report("refused", "access entries", requests.ACCESS_NEEDS_LEVEL)
            return
        wanted_now, self.access = self.access, []
        written: dict[tuple[str, str], int] = {}
        for wanted in wanted_now:
            known, _ = look.image.access_to(wanted.kind, wanted.key)
            known = max(known, written.get((wanted.kind, wanted.key), 0))
            if wanted.generation > known:
                written[wanted.kind, wanted.key] = wanted.generation
                look.add(_carried(wanted))
            elif wanted.generation < known:
                text = f"the row has generation {wanted.generation}, the log {known}: an older database?"
                look.report("drift", f"{wanted.kind} {wanted.key}", text)
            asked.fulfilled(wanted.request_id, "" if (wanted.kind, wanted.key) == (BROKER, "-1") else wanted.key)

    # -- moves and recovery ----------------------------------------------------------------------------------------------
    def write_assignments(self, look: Look, asked: Asked) -> None:
        for tp, wanted in list(self.assignments.items()):
            del self.assignments[tp]
            state, topic = look.state(tp), look.image.topics.get(tp.topic_id)
            if state is None or topic is None:
                continue
            name = f"{topic.name}-{tp.partition}"
            if not placements.stands(state, wanted):
                after = _placed(look, state, wanted)
                if isinstance(after, str):
                    look.report("refused", f"move {wanted.move_id} {name}", after)
                    asked.refused(wanted.request_id, name, after)
                    continue
                look.put(tp, after)
            asked.fulfilled(wanted.request_id, name)

    def write_resets(self, look: Look) -> None:
        for reset_id, reset in list(self.resets.items()):
            del self.resets[reset_id]
            tp = TopicPartition(reset.topic_id, reset.partition)
            state, topic = look.state(tp), look.image.topics.get(reset.topic_id)
            after: PartitionState | str | None = "this broker holds no such replica"
            if state is not None and topic is not None:
                least = look.config(topic).min_insync_replicas
                after = placements.without_copy(state, reset.broker_id, least, look.serving(tp))
            if isinstance(after, str):
                look.report("refused", f"recovery {reset_id}", after)
                continue
            look.put(tp, after)
            look.add(ReplicaReset(reset.topic_id, reset.partition, reset.broker_id, reset_id))


def _carried(wanted: DesiredAccess) -> Record:
    if wanted.kind == BROKER:
        return BrokerConfigChanged(int(wanted.key), wanted.generation, dict(wanted.value or {}))
    return AccessChanged(wanted.kind, wanted.key, wanted.generation, wanted.value)


# -- one topic -----------------------------------------------------------------------------------------------------------
def _topic_step(look: Look, places: _Places, wanted: DesiredTopic) -> bool:
    """Write what the row wants and the log lacks. True when nothing is left to do."""
    topic = look.image.topics.get(wanted.topic_id)
    if topic is None:
        return _topic_absent(look, places, wanted)
    if wanted.generation <= topic.generation:
        if wanted.generation < topic.generation:
            text = f"the row has generation {wanted.generation}, the log {topic.generation}: an older database?"
            look.report("drift", wanted.name, text)
        return True
    if wanted.deleted:
        look.add(TopicDeleted(topic.topic_id, topic.name, wanted.generation))
        for index in topic.partitions:
            look.take_back(TopicPartition(topic.topic_id, index))
        return True
    grown: list[Record] = []
    if wanted.partitions > topic.partition_count:
        try:
            found = places.find(wanted, topic.partition_count)
        except PlacementError as e:
            look.report("refused", wanted.name, f"cannot grow: {e}")
            return False
        grown.append(PartitionsGrown(topic.topic_id, wanted.generation, wanted.partitions))
        grown += [PartitionChanged(topic.topic_id, i, s) for i, s in found.items()]
    look.add(TopicConfigChanged(topic.topic_id, wanted.generation, dict(wanted.configs)), *grown)
    least = TopicConfig.from_overrides(wanted.configs, look.broker_defaults).min_insync_replicas
    for index, state in topic.partitions.items():
        tp = TopicPartition(topic.topic_id, index)
        now_state = look.decided.get(tp, state)
        if now_state.elr and len(now_state.isr) >= least:
            look.put(tp, replace(now_state, elr=()))  # the watermark may rise without them from now on
    return True


def _topic_absent(look: Look, places: _Places, wanted: DesiredTopic) -> bool:
    if wanted.topic_id in look.image.deleted:
        if not wanted.deleted:
            look.report("drift", wanted.name, "the log says that this topic was deleted: an older database?")
        return True
    if wanted.deleted:
        look.add(TopicDeleted(wanted.topic_id, wanted.name, wanted.generation))
        return True
    if look.image.topic_named(wanted.name) is not None:
        look.report("drift", wanted.name, "the log has another topic of this name")
        return True
    try:
        found = places.find(wanted, 0)
    except PlacementError as e:
        look.report("refused", wanted.name, f"cannot be placed yet: {e}")
        return False
    look.add(
        TopicCreated(wanted.topic_id, wanted.name, wanted.generation, dict(wanted.configs), wanted.partitions),
        *(PartitionChanged(wanted.topic_id, i, s) for i, s in found.items()),
        TopicReady(wanted.topic_id),
    )
    return True


class _Places:
    """Where new partitions go; what one look has placed already counts for its next topics."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._load: Counter[int] | None = None

    def find(self, wanted: DesiredTopic, first: int) -> dict[int, PartitionState]:
        """Of the partitions from `first` on. Raises PlacementError."""
        live = self._look.open()
        given = wanted.assignment or {}
        missing = [i for i in range(first, wanted.partitions) if i not in given]
        chosen: dict[int, tuple[int, ...]] = {i: tuple(given[i]) for i in range(first, wanted.partitions) if i in given}
        if missing:
            if self._load is None:
                self._load = Counter(r for _, _, state in self._look.image.each_partition() for r in state.replicas)
            placed = place(wanted.topic_id, missing[0], len(missing), wanted.replication_factor, live, self._load)
            for replicas in placed:
                for r in replicas:
                    self._load[r] += 1
            chosen.update(zip(missing, placed, strict=True))
        out = {}
        for i, replicas in sorted(chosen.items()):
            isr = tuple(Seat(r, inc) for r in replicas if (inc := self._look.incarnation(r)) is not None)
            if not isr:
                raise PlacementError(f"none of the brokers {list(replicas)} of partition {i} is alive")
            out[i] = PartitionState(replicas, isr, isr[0].broker_id, isr[0].incarnation, 0, 0)
        return out


def _placed(look: Look, state: PartitionState, wanted: DesiredAssignment) -> PartitionState | str:
    if wanted.cut_at is not None:
        return placements.cut(state, wanted.cut_at, wanted.read_generation)
    if wanted.observers:
        if look.level() < TAIL_LEVEL:
            return f"the metadata log is at level {look.level()}; tail moves need {TAIL_LEVEL} (manage.py upgrade_metadata)"
        return placements.observed(state, wanted.observers, wanted.read_generation, look.incarnation)
    if wanted.hand_over_at is not None:
        if look.level() < ARCHIVE_LEVEL:
            return f"the metadata log is at level {look.level()}; early hand-over needs {ARCHIVE_LEVEL} (manage.py upgrade_metadata)"
        return placements.handed_over(
            state, wanted.replicas, wanted.hand_over_at, wanted.read_generation, look.incarnation
        )
    return placements.assigned(state, wanted.replicas, wanted.read_generation, look.incarnation)
