"""Members of a consumer group (KIP-848) in a world with the real coordinator: they get partitions, revoke them, commit, stop sending heartbeats,
leave and join again.

`OwnedPartitions` checks in addition to `GroupHistory` that no partition has two owners at once. A member owns a partition from its assignment until it
revokes it, or until one session time-out after its last answered heartbeat. Then the coordinator may have removed the member, so it stops itself.
Does not check members that read on after that, which no coordinator can see.
"""

from __future__ import annotations

from typing import Any

from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import ConsumerGroupHeartbeatRequest
from tests.simulation.checkers import Violation
from tests.simulation.cluster import Cluster
from tests.simulation.members import GROUP, SESSION_MS, Commit, GroupHistory, Member, Place
from tests.simulation.world import MS

REBALANCE_MS = 4 * SESSION_MS
"""Longer than a session: a member that is removed because it did not revoke in time has owned nothing for long by then."""
FORGOTTEN = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)


class OwnedPartitions(GroupHistory):
    def __init__(self) -> None:
        super().__init__()
        self.consumers: list[Consumer] = []

    def commit_request(self, place: Place, generation: int, now_us: int) -> Commit:
        """Members change to a new epoch one by one: only assignments of this partition fence its commits."""
        commit = super().commit_request(place, generation, now_us)
        commit.overtaken = max((e for e, p in self.owners if p == place), default=-1)
        return commit

    def on_taken(self, taker: Consumer, places: list[Place]) -> None:
        for other in self.consumers:
            if other is not taker and other.lease_us > taker.world.now_us:
                both = set(other.owned) & set(places)
                if both:
                    raise Violation(f"{min(both)} is owned by {other.name} and by {taker.name}")


class Consumer(Member):
    lease_ms = SESSION_MS
    """It owns its partitions that long after it has sent a heartbeat that was answered. Shorter than a session if clocks have different speeds."""

    def __init__(
        self, cluster: Cluster, history: OwnedPartitions, name: str, places: list[Place], group: str = GROUP
    ) -> None:
        self.holdings = history
        self.lease_us = 0
        self.lives = 0
        history.consumers.append(self)
        super().__init__(cluster, history, name, places, group)
        self._be_new()

    def _be_new(self) -> None:
        self.lives += 1
        self.member_id, self.generation, self.owned = f"{self.name}-{self.lives}", 0, []
        self.lapsed = False

    def _rejoin(self, code: int | None) -> None:
        if code in FORGOTTEN:
            self.generation, self.owned = 0, []
        self.call_later(self._find)

    def _join(self) -> None:
        """A full heartbeat, also after a lost response: the member sends everything and gets everything."""
        self._send_heartbeat(whole=True)

    def _beat(self) -> None:
        if self.stopped:
            return
        if not self.calm and self.world.chance(0.02):
            self.call_later(self._commit, self.world.between(SESSION_MS, 3 * SESSION_MS))
            return
        if not self.calm and self.world.chance(0.02):
            self._leave()
            return
        self._send_heartbeat(whole=False)

    def _owned_places(self) -> list[Place]:
        """The partitions that the member still owns: after a session time-out without a response it has stopped itself."""
        if self.owned and self.lease_us <= self.world.now_us:
            self.owned, self.lapsed = [], True
        return self.owned

    def _send_heartbeat(self, whole: bool) -> None:
        if self.stopped:
            return
        topics: dict[Any, list[int]] = {}
        mine = self._owned_places()
        whole = whole or self.lapsed
        for name, index in mine:
            state = self.cluster.image.topic_named(name)
            assert state is not None
            topics.setdefault(state.topic_id, []).append(index)
        part = ConsumerGroupHeartbeatRequest.TopicPartitions
        body = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.generation,
            rebalance_timeout_ms=REBALANCE_MS if whole else -1,
            subscribed_topic_names=sorted({name for name, _ in self.places}) if whole else None,
            topic_partitions=[part(topic_id=t, partitions=ps) for t, ps in topics.items()],
        )
        sent_us, epoch = self.world.now_us, self.generation

        def on_response(response: Any) -> None:
            if response is None or response.error_code:
                self._rejoin(None if response is None else response.error_code)
                return
            if epoch != self.generation:
                raise Violation(f"{self.name} got a response out of order")
            self.generation = response.member_epoch
            self._owned_places()  # ownership that expired during the wait is not renewed
            self.lease_us = sent_us + self.lease_ms * MS
            if self.lease_us <= self.world.now_us:
                self.lapsed = True  # too late: the member ignores this response and sends a new request
            elif response.assignment is not None:
                self._on_assigned(response.assignment)
            self._commit()

        self.send_request(self.coordinator, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, body, on_response)

    def _on_assigned(self, assignment: Any) -> None:
        names = {t.topic_id: t.name for t in self.cluster.image.topics.values()}
        given = sorted((names[t.topic_id], p) for t in assignment.topic_partitions for p in t.partitions)
        self.lapsed = False
        self.holdings.on_taken(self, [place for place in given if place not in self.owned])
        self.owned = given
        self.holdings.on_assigned(self.generation, given, f"{self.name} {self.member_id}")

    def _leave(self) -> None:
        self.owned = []
        body = ConsumerGroupHeartbeatRequest(group_id=self.group, member_id=self.member_id, member_epoch=-1)
        self._be_new()
        self.send_request(
            self.coordinator, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, body, lambda response: self.call_later(self._find)
        )

    def _commit(self) -> None:
        self._owned_places()
        super()._commit()
