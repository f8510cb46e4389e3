"""A streams group in a coordinator with a log in memory: a topology with a repartition topic and two stores, members, and time."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from brokerd.cluster.model import Now
from brokerd.config.streams_groups import StreamsGroupConfig
from brokerd.coordinator.classic import events as classic
from brokerd.coordinator.classic.events import Completed, Offset
from brokerd.coordinator.groups import TypeConfigs
from brokerd.coordinator.streams_group.events import StreamsHeartbeat, StreamsHeartbeatReply
from brokerd.coordinator.streams_group.group import StreamsGroup
from brokerd.coordinator.streams_group.tasks import EMPTY_TASKS, TaskId, Tasks
from brokerd.coordinator.streams_group.topology import CopartitionGroup, InternalTopic, Subtopology, Topology
from tests.unit.coordinator.classic.test_offsets import NOW
from tests.unit.coordinator.consumer.test_records import Harness, Log

R, C = UUID(int=3), UUID(int=4)
CONFIG = StreamsGroupConfig(
    session_ms=10_000, heartbeat_ms=1_000, size_max=4, standby_replicas=0, initial_delay_ms=0, assignment_ms=0
)
PLAIN = Topology(1, (Subtopology("0", ("a",)),))
"""Four stateless tasks."""
STATEFUL = Topology(1, (Subtopology("0", ("a",), changelog_topics=(InternalTopic("g-c"),)),))
"""Four tasks with a store."""
COUNT = Topology(
    2,
    (
        Subtopology("0", ("a",), repartition_sink_topics=("g-r",)),
        Subtopology(
            "1",
            repartition_source_topics=(InternalTopic("g-r", configs=(("cleanup.policy", "delete"),)),),
            changelog_topics=(InternalTopic("g-c"),),
            copartition_groups=(CopartitionGroup((), (0,)),),
        ),
    ),
)
"""A word count: four tasks that read `a`, four tasks that read the repartition topic `g-r` and have the changelog `g-c`."""


def ids(subtopology_id: str, *partitions: int) -> frozenset[TaskId]:
    return frozenset(TaskId(subtopology_id, p) for p in partitions)


def active(subtopology_id: str, *partitions: int) -> Tasks:
    return Tasks(ids(subtopology_id, *partitions))


class Scene(Harness):
    def __init__(self, log: Log | None = None, config: StreamsGroupConfig = CONFIG) -> None:
        self.now, self.config = NOW, config
        super().__init__(log, clock=lambda: self.now, type_configs=TypeConfigs(streams=lambda group_id: self.config))

    def create_internal_topics(self, partitions: int = 4) -> None:
        self.topics.there |= {"g-r": (R, partitions), "g-c": (C, partitions)}
        self.topics.version += 1

    def join(self, member: str, topology: Topology = PLAIN, **more: Any) -> Any:
        fields = {"rebalance_ms": 5_000, "topology": topology, "owned": EMPTY_TASKS, "process_id": f"p-{member}"}
        return self.streams_beat(member, 0, **{**fields, **more})

    def streams_beat(self, member: str, epoch: int, **more: Any) -> Any:
        """The response, the number of an error, or None without a response yet."""
        responses: list[StreamsHeartbeatReply] = []
        error = self.groups.handle("g", StreamsHeartbeat(responses.append, member, epoch, "c", "/h", **more))
        if error:
            return error
        if responses:
            self.streams_group.validate()
        return responses[0].error or responses[0] if responses else None

    def settle_members(self, *members: str) -> None:
        """Members report their tasks until nothing changes."""
        for _ in range(6):
            for member in members:
                at = self.streams_group.current_assignments[member]
                response = self.streams_beat(member, at.epoch, owned=at.assigned)
                assert isinstance(response, StreamsHeartbeatReply), response

    def tasks_of(self, member: str) -> Tasks:
        return self.streams_group.current_assignments[member].assigned

    @property
    def streams_group(self) -> StreamsGroup:
        group, error = self.groups.find_existing("g")
        assert isinstance(group, StreamsGroup) and not error
        return group

    def reloaded_scene(self) -> Scene:
        scene = Scene(Log(self.log.data, self.log.end), self.config)
        scene.topics.there, scene.topics.version = self.topics.there, self.topics.version
        scene.now = self.now
        return scene

    def pass_ms(self, ms: int) -> None:
        self.now = Now(self.now.mono_ms + ms, self.now.wall_ms + ms)
        self.groups.tick(self.now)

    def commit_as(self, member: str, epoch: int, *places: tuple[str, int], transactional: bool = False) -> Any:
        """The Completed response, or the number of an error."""
        responses: list[Completed] = []
        offsets = {place: Offset(7, -1, "", NOW.wall_ms) for place in places or (("a", 0),)}
        event: Any = (
            classic.TransactionalCommit(responses.append, member, None, epoch, offsets, 9, 0)
            if transactional
            else classic.Commit(responses.append, member, None, epoch, offsets)
        )
        error = self.groups.handle("g", event)
        return error or responses[0]
