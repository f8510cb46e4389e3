"""Members of a group of the new protocol (KIP-848) in a world, with the real coordinator: they are given partitions, give them up, commit, fall
silent, leave and come back.

`Holdings` judges beside `GroupHistory`: no partition that two hold at one time. A member holds what it has taken up until it gives it up, or until
its session has passed since it sent the last heartbeat that was answered: by then it may have been put out, and stops by itself. Not judged:
members that go on reading after that, which no coordinator can see.
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
"""Longer than a session: who is put out because it did not give up in time has not held on to anything for long by then."""
FORGOTTEN = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)


class Holdings(GroupHistory):
    def __init__(self) -> None:
        super().__init__()
        self.consumers: list[Consumer] = []

    def asks(self, place: Place, generation: int, now_us: int) -> Commit:
        """Members go from epoch to epoch one by one: only what was given of this partition overtakes its commits."""
        commit = super().asks(place, generation, now_us)
        commit.overtaken = max((e for e, p in self.owners if p == place), default=-1)
        return commit

    def taken(self, taker: Consumer, places: list[Place]) -> None:
        for other in self.consumers:
            if other is not taker and other.lease_us > taker.world.now_us:
                both = set(other.owned) & set(places)
                if both:
                    raise Violation(f"{min(both)} is held by {other.name} and by {taker.name}")


class Consumer(Member):
    def __init__(self, cluster: Cluster, history: Holdings, name: str, places: list[Place]) -> None:
        self.holdings = history
        self.lease_us = 0
        self.lives = 0
        history.consumers.append(self)
        super().__init__(cluster, history, name, places)
        self._be_new()

    def _be_new(self) -> None:
        self.lives += 1
        self.member_id, self.generation, self.owned = f"{self.name}-{self.lives}", 0, []
        self.lapsed = False

    def _again(self, code: int | None) -> None:
        if code in FORGOTTEN:
            self.generation, self.owned = 0, []
        self.later(self._find)

    def _join(self) -> None:
        """Also after a lost answer: it says everything, and is told everything."""
        self._say(whole=True)

    def _beat(self) -> None:
        if self.stopped:
            return
        if not self.calm and self.world.chance(0.02):
            self.later(self._commit, self.world.between(SESSION_MS, 3 * SESSION_MS))
            return
        if not self.calm and self.world.chance(0.02):
            self._leave()
            return
        self._say(whole=False)

    def _mine(self) -> list[Place]:
        """What it still holds: after a session's silence it has stopped by itself."""
        if self.owned and self.lease_us <= self.world.now_us:
            self.owned, self.lapsed = [], True
        return self.owned

    def _say(self, whole: bool) -> None:
        if self.stopped:
            return
        topics: dict[Any, list[int]] = {}
        mine = self._mine()
        whole = whole or self.lapsed
        for name, index in mine:
            state = self.cluster.image.topic_named(name)
            assert state is not None
            topics.setdefault(state.topic_id, []).append(index)
        part = ConsumerGroupHeartbeatRequest.TopicPartitions
        body = ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id=self.member_id, member_epoch=self.generation,
            rebalance_timeout_ms=REBALANCE_MS if whole else -1,
            subscribed_topic_names=sorted({name for name, _ in self.places}) if whole else None,
            topic_partitions=[part(topic_id=t, partitions=ps) for t, ps in topics.items()],
        )  # fmt: skip
        sent_us, epoch = self.world.now_us, self.generation

        def answered(answer: Any) -> None:
            if answer is None or answer.error_code:
                self._again(None if answer is None else answer.error_code)
                return
            if epoch != self.generation:
                raise Violation(f"{self.name} was answered out of turn")
            self.generation = answer.member_epoch
            self._mine()  # what lapsed while it waited is not renewed
            self.lease_us = sent_us + SESSION_MS * MS
            if self.lease_us <= self.world.now_us:
                self.lapsed = True  # too long on its way: it holds nothing by this answer, and asks again
            elif answer.assignment is not None:
                self._told(answer.assignment)
            self._commit()

        self.ask(self.coordinator, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, body, answered)

    def _told(self, assignment: Any) -> None:
        names = {t.topic_id: t.name for t in self.cluster.image.topics.values()}
        given = sorted((names[t.topic_id], p) for t in assignment.topic_partitions for p in t.partitions)
        self.lapsed = False
        self.holdings.taken(self, [place for place in given if place not in self.owned])
        self.owned = given
        self.holdings.given(self.generation, given, f"{self.name} {self.member_id}")

    def _leave(self) -> None:
        self.owned = []
        body = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=self.member_id, member_epoch=-1)
        self._be_new()
        self.ask(self.coordinator, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, body, lambda answer: self.later(self._find))

    def _commit(self) -> None:
        self._mine()
        super()._commit()
