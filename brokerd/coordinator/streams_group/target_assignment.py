"""Target assignments of a streams group: topology, topics, group epoch (Kafka: TargetAssignmentBuilder, TopologyMetadata). Pure.

Invariants: a change of members, topology, topics or assignment settings increases the group epoch. The target assignment of an epoch is computed for
all members together. A group whose topics are not complete has no tasks. Does not contain current assignments and time.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from brokerd.config.streams_groups import StreamsGroupConfig
from brokerd.coordinator.consumer.events import Topics
from brokerd.coordinator.streams_group.assignor import assign
from brokerd.coordinator.streams_group.configured_topology import ConfiguredTopology, configure
from brokerd.coordinator.streams_group.events import (
    NOT_VALIDATED,
    EndpointPartitions,
    StreamsGroupMetadata,
    StreamsHeartbeat,
    StreamsRecordKey,
)
from brokerd.coordinator.streams_group.state import PersistedStreamsGroup
from brokerd.coordinator.streams_group.tasks import TaskSet
from brokerd.coordinator.streams_group.topology import Topology


@dataclass(slots=True, kw_only=True)
class StreamsTargetAssignments(PersistedStreamsGroup):
    topics: Topics
    config: StreamsGroupConfig
    configured: ConfiguredTopology | None = None
    """The topics of `topology` at version `_seen`."""
    _configured_of: Topology | None = None
    _seen: int = -1
    """The version of the topics at which `configured` was computed."""

    # -- topology --------------------------------------------------------------------------------------------------------
    def topology_problem(self, event: StreamsHeartbeat) -> str | None:
        """Return the reason why the topology of the heartbeat cannot be used, or None. A lower epoch is accepted: the response then has the status
        STALE_TOPOLOGY."""
        if event.topology is None:
            return None if self.topology is not None else "the group has no topology: join with epoch 0"
        if self.topology is None or event.topology.epoch < self.topology.epoch or event.topology == self.topology:
            return None
        return "the topology differs from that of the group: delete the group, or use another application id"

    def configure(self) -> ConfiguredTopology:
        """The topics of the topology. Raises InvalidTopology."""
        assert self.topology is not None, f"{self.group_id}: no topology"
        if self.configured is None or self._configured_of is not self.topology or self._seen != self.topics.version:
            self.configured = configure(self.topology, self.topics)
            self._configured_of, self._seen = self.topology, self.topics.version
        return self.configured

    def required_topics(self) -> frozenset[str]:
        return self.topology.required_topics() if self.topology is not None else frozenset()

    def subscribed_names(self) -> frozenset[str]:
        """The topics that the members read."""
        return self.topology.input_topics() if self.topology is not None and self.members else frozenset()

    @property
    def validated(self) -> bool:
        """True if all topics of the topology existed with the right number of partitions at the last heartbeat."""
        return self.topology is not None and self.metadata.validated_epoch == self.topology.epoch

    # -- epochs ----------------------------------------------------------------------------------------------------------
    def _topics_hash(self) -> int:
        seen = [(name, self.topics.topic_named(name)) for name in sorted(self.required_topics())]
        digest = hashlib.blake2b(repr(seen).encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big", signed=True) if seen else 0

    def _update_epoch(self, configured: ConfiguredTopology, changed: bool) -> None:
        """Increase the group epoch if the members (`changed`), the topics or the settings changed."""
        assert self.topology is not None, f"{self.group_id}: no topology"
        old = self.metadata
        validated = self.topology.epoch if configured.ready else NOT_VALIDATED
        new = StreamsGroupMetadata(old.epoch, self._topics_hash(), validated, self.config.assignment_configs)
        if changed or new != old:
            self._set_metadata(new)

    def _raise_epoch(self) -> None:
        """Increase the group epoch after members were removed."""
        self._set_metadata(self.metadata)

    def _set_metadata(self, new: StreamsGroupMetadata) -> None:
        raised = StreamsGroupMetadata(self.epoch + 1, new.topics_hash, new.validated_epoch, new.configs)
        self.change(StreamsRecordKey.GROUP, "", raised)

    def _assign(self) -> None:
        configured = self.configure()
        assigned = assign(
            configured.task_counts if configured.ready else {},
            configured.stateful,
            {member_id: m.process_id for member_id, m in self.members.items()},
            self.targets,
            self.config.standby_replicas,
        )
        for member_id, tasks in assigned.items():
            self.change(StreamsRecordKey.TARGET_ASSIGNMENT, member_id, tasks)
        self.change(StreamsRecordKey.TARGET_EPOCH, "", self.epoch)

    # -- interactive queries -----------------------------------------------------------------------------------------------
    def endpoint_partitions(self) -> tuple[EndpointPartitions, ...]:
        """The partitions of each member with an endpoint."""
        return tuple(
            EndpointPartitions(m.endpoint, self._partitions(at.active), self._partitions(at.standby))
            for member_id, m in sorted(self.members.items())
            if m.endpoint is not None
            for at in [self.current_assignments[member_id].assigned]
        )

    def _partitions(self, tasks: TaskSet) -> dict[str, list[int]]:
        out: dict[str, list[int]] = {}
        inputs = {s.subtopology_id: s.input_topics for s in self.topology or ()}
        for subtopology_id, partition in sorted(tasks):
            for topic in inputs.get(subtopology_id, ()):
                found = self.topics.topic_named(topic)
                if found is not None and partition < found[1]:
                    out.setdefault(topic, []).append(partition)
        return out
