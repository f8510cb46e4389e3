"""Members of a streams group (KIP-1071) in a world with the real coordinator: they get tasks, close revoked ones, commit, stop sending heartbeats,
leave and join again. A revoked task is closed after a while. Sometimes a commit of it is sent even later, with the epoch in which the member had it.

`OwnedTasks` checks in addition to `OwnedPartitions` that a process never has a task in two roles at once. A place is an active task: the partition of the
source topic that it reads. Does not check members that run on after a session time-out, which no coordinator can see, and the state of standby tasks.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from brokerd.coordinator.streams_group.events import StatusCode
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import OffsetCommitRequest, StreamsGroupHeartbeatRequest
from tests.simulation.checkers import Violation
from tests.simulation.cluster import Cluster
from tests.simulation.consumers import REBALANCE_MS, Consumer, OwnedPartitions
from tests.simulation.members import SESSION_MS, Place

GROUP, SOURCE, CHANGELOG = "counters", "lines", "counters-counts-changelog"
CLOSE_MS_MAX = 1_500
"""Longest time to close a task."""
Request = StreamsGroupHeartbeatRequest
TOPOLOGY = Request.Topology(
    1, [Request.Subtopology("0", [SOURCE], state_changelog_topics=[Request.TopicInfo(CHANGELOG, 0, 3, [])])]
)


class OwnedTasks(OwnedPartitions):
    def on_tasks_changed(self, member: StreamsMember) -> None:
        for other in self.consumers:
            assert isinstance(other, StreamsMember)
            if other is member or other.process != member.process or other.lease_us <= member.world.now_us:
                continue
            mine, theirs = {*member.owned, *member.copies}, {*other.owned, *other.copies}
            if mine & theirs:
                raise Violation(
                    f"{min(mine & theirs)} is twice in {member.process}: at {member.name} and at {other.name}"
                )


class StreamsMember(Consumer):
    def __init__(self, cluster: Cluster, history: OwnedTasks, name: str, process: str, places: list[Place]) -> None:
        self.tasks, self.process = history, process
        self.copies: list[Place] = []
        """Its standby tasks."""
        self.closing: list[Place] = []
        """Revoked active tasks that it still has."""
        super().__init__(cluster, history, name, places, GROUP)

    def _be_new(self) -> None:
        super()._be_new()
        self.copies, self.closing = [], []

    def _owned_places(self) -> list[Place]:
        if self.lease_us <= self.world.now_us:
            self.copies, self.closing = [], []
        return super()._owned_places()

    def _send_heartbeat(self, whole: bool) -> None:
        if self.stopped:
            return
        mine = self._owned_places()
        if self.lapsed:
            # The member has closed all tasks: it joins again, as a member that was fenced does.
            self.generation = 0
        joins = self.generation == 0
        if joins:
            mine, self.owned, self.copies, self.closing = [], [], [], []
        body = Request(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.generation,
            endpoint_information_epoch=-1,
            rebalance_timeout_ms=REBALANCE_MS if joins else -1,
            topology=TOPOLOGY if joins else None,
            active_tasks=self._task_ids(mine),
            standby_tasks=self._task_ids(self.copies),
            warmup_tasks=[],
            process_id=self.process if joins else None,
        )
        sent_us, epoch = self.world.now_us, self.generation

        def on_response(response: Any) -> None:
            if response is None or response.error_code:
                self._rejoin(None if response is None else response.error_code)
                return
            if epoch != self.generation:
                raise Violation(f"{self.name} got a response out of order")
            for status in response.status:
                self.world.reached[f"streams status: {StatusCode(status.status_code).name}"] += 1
            self.generation = response.member_epoch
            self._owned_places()  # ownership that expired during the wait is not renewed
            self.lease_us = sent_us + self.lease_ms * 1_000
            if self.lease_us <= self.world.now_us:
                self.lapsed = True  # too late: the member ignores this response and joins again
            elif response.active_tasks is not None:
                self._start_tasks(response)
            self._commit()

        self.send_request(self.coordinator, ApiKey.STREAMS_GROUP_HEARTBEAT, 0, body, on_response)

    @staticmethod
    def _task_ids(places: list[Place]) -> list[Request.TaskIds]:
        return [Request.TaskIds("0", sorted(p for _, p in places))] if places else []

    def _start_tasks(self, response: Any) -> None:
        def places_of(listed: Any) -> list[Place]:
            return sorted((SOURCE, p) for t in listed for p in t.partitions)

        given = places_of(response.active_tasks)
        self.lapsed = False
        self.tasks.on_taken(self, [place for place in given if place not in self.owned])
        self.closing = [place for place in self.owned if place not in given]
        if self.closing:
            wait_ms = self.world.between(0, CLOSE_MS_MAX)
            self.call_later(partial(self._close_tasks, self.lives, self.generation), wait_ms)
        self.owned, self.copies = sorted([*given, *self.closing]), places_of(response.standby_tasks)
        self.tasks.on_assigned(self.generation, given, f"{self.name} {self.member_id}")
        self.tasks.on_tasks_changed(self)
        self.world.reached["standby task assigned"] += bool(self.copies)

    def _close_tasks(self, life: int, epoch: int) -> None:
        closed = self.closing
        if life != self.lives or not closed:
            return
        self.owned, self.closing = [place for place in self.owned if place not in closed], []
        self.world.reached["revoked task closed"] += 1
        if not self.calm and self.world.chance(0.5):
            wait_ms = self.world.between(SESSION_MS // 2, 2 * SESSION_MS)
            self.call_later(partial(self._commit_late, self.member_id, closed[0], epoch), wait_ms)

    def _commit_late(self, member_id: str, place: Place, epoch: int) -> None:
        if self.stopped:
            return
        commit = self.history.commit_request(place, epoch, self.world.now_us)
        part = OffsetCommitRequest.OffsetCommitRequestPartition(
            partition_index=place[1], committed_offset=commit.number, committed_metadata=None
        )
        body = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            topics=[OffsetCommitRequest.OffsetCommitRequestTopic(name=place[0], partitions=[part])],
        )

        def on_response(response: Any) -> None:
            if response is not None:
                error = response.topics[0].partitions[0].error_code
                self.world.reached[f"late commit: {ErrorCode(error).name}"] += 1
                self.history.on_response(place, commit, error, self.world.now_us)

        self.send_request(self.coordinator, ApiKey.OFFSET_COMMIT, 9, body, on_response)

    def _leave(self) -> None:
        self.owned, self.copies = [], []
        body = Request(group_id=self.group, member_id=self.member_id, member_epoch=-1)
        self._be_new()
        self.send_request(
            self.coordinator, ApiKey.STREAMS_GROUP_HEARTBEAT, 0, body, lambda response: self.call_later(self._find)
        )
