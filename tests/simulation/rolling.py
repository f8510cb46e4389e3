"""A world of one group with members of both protocols, which is upgraded and downgraded: `python -m tests.simulation --rolling`.

The same cluster and faults as in `run`. Members restart now and then, after leaving or after a crash, with either protocol, so that the group changes
from one protocol to the other, with members of both, and back. Classic members revoke everything before they join (`eager`) or keep it (`cooperative`);
the seed decides. `OwnedPartitions` checks ownership as in worlds of the consumer protocol alone; a classic member owns its assignment until it revokes it, or
until a session has expired since its last answered heartbeat.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from brokerd.cluster.model import GROUP_OFFSETS_TOPIC
from brokerd.coordinator.consumer import consumer_protocol
from brokerd.coordinator.consumer.consumer_protocol import ConsumerProtocolSubscription
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import (
    ConsumerGroupHeartbeatRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from brokerd.wire.schema import packer
from tests.simulation.checkers import History, InvariantChecker
from tests.simulation.clients import Producer
from tests.simulation.cluster import COLD, Cluster
from tests.simulation.consumers import Consumer, OwnedPartitions
from tests.simulation.fault_injector import FaultInjector, FaultKinds
from tests.simulation.members import BEAT_MS, GROUP, REBALANCE_MS, SESSION_MS, Auditor, Member, Place, in_step
from tests.simulation.run import PROBES, RECOVERY_S_MAX
from tests.simulation.world import MS, S, World

PLACES: list[Place] = [("work", i) for i in range(4)]


class TopicNames:
    """The topics as members know them, for the codec: names and partition counts."""

    version = 0

    def __init__(self, places: list[Place]) -> None:
        self._ids = {name: UUID(int=i) for i, name in enumerate(sorted({name for name, _ in places}), 1)}
        self._places = places

    def topic_named(self, name: str) -> tuple[UUID, int] | None:
        count = sum(n == name for n, _ in self._places)
        return (self._ids[name], count) if count else None

    def names(self) -> list[str]:
        return sorted(self._ids)


class RollingConsumer(Consumer):
    """`classic`: the protocol of this incarnation."""

    def __init__(self, cluster: Cluster, history: OwnedPartitions, name: str, cooperative: bool, classic: bool) -> None:
        self.classic, self.cooperative = classic, cooperative
        self.names = TopicNames(PLACES)
        super().__init__(cluster, history, name, PLACES)

    def _be_new(self) -> None:
        super()._be_new()
        if self.classic:
            self.member_id, self.generation = "", -1

    def _roll(self) -> None:
        """Another process replaces this member, with either protocol."""
        self.world.reached["member rolled"] += 1
        silently = self.world.chance(0.4)
        member_id, was_classic = self.member_id, self.classic
        self.owned = []
        self.classic = self.world.chance(0.5)
        leave = None if silently or not member_id else self._leaves(member_id, was_classic)
        self._be_new()
        if leave is None:
            self.call_later(self._find)
        else:
            self.send_request(self.coordinator, *leave, lambda response: self.call_later(self._find))

    @staticmethod
    def _leaves(member_id: str, classic: bool) -> tuple[int, int, Any]:
        if classic:
            member = LeaveGroupRequest.MemberIdentity(member_id=member_id)
            return ApiKey.LEAVE_GROUP, 3, LeaveGroupRequest(group_id=GROUP, members=[member])
        body = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=member_id, member_epoch=-1)
        return ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, body

    def _rejoin(self, code: int | None) -> None:
        if not self.classic:
            super()._rejoin(code)
            return
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID):
            self.owned = []
            if code == ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
        self.call_later(self._find)

    # -- the classic protocol ------------------------------------------------------------------------------------------
    def _owned_places(self) -> list[Place]:
        if self.classic and self.owned and self.lease_us <= self.world.now_us:
            self.owned = []
        return self.owned if self.classic else super()._owned_places()

    def _join(self) -> None:
        if not self.classic:
            super()._join()
            return
        if not self.cooperative:
            self.owned = []
        part = ConsumerProtocolSubscription.TopicPartition
        said = ConsumerProtocolSubscription(
            sorted({name for name, _ in self.places}), owned_partitions=[part(n, [p]) for n, p in self._owned_places()]
        )
        out = bytearray(b"\0\1")
        packer(ConsumerProtocolSubscription, 1, False)(said, out, [])
        kind = "cooperative" if self.cooperative else "eager"
        body = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name=kind, metadata=bytes(out))],
        )
        life = self.lives

        def on_response(response: Any) -> None:
            if life == self.lives:
                self._on_joined(response)

        self.send_request(self.coordinator, ApiKey.JOIN_GROUP, 5, body, on_response)

    def _on_joined(self, body: Any) -> None:
        if body is not None and body.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = body.member_id
            self._join()
        elif body is None or body.error_code:
            self._rejoin(None if body is None else body.error_code)
        else:
            self.member_id, self.generation = body.member_id, body.generation_id
            self._sync(self._compute_assignment(body.members))

    def _compute_assignment(self, members: list[Any]) -> dict[str, bytes]:
        """Computed by the group leader: round robin, but a partition that another member still owns waits for the next round."""
        owned = {
            m.member_id: consumer_protocol.assignment_of(
                consumer_protocol.read_subscription(bytes(m.metadata)).owned_partitions, self.names
            )
            for m in members
        }
        everything = sorted(
            consumer_protocol.assignment_of(
                [ConsumerProtocolSubscription.TopicPartition(n, [p]) for n, p in self.places], self.names
            )
        )
        out = {}
        for at, member_id in enumerate(owned):
            mine = {tp for i, tp in enumerate(everything) if i % len(owned) == at}
            mine -= {tp for other, theirs in owned.items() if other != member_id for tp in theirs}
            out[member_id] = consumer_protocol.assignment(frozenset(mine), self.names.names(), self.names, 1)
        return out

    def _sync(self, shares: dict[str, bytes]) -> None:
        given = [SyncGroupRequest.SyncGroupRequestAssignment(member_id=m, assignment=a) for m, a in shares.items()]
        body = SyncGroupRequest(
            group_id=GROUP, generation_id=self.generation, member_id=self.member_id, assignments=given
        )
        sent_us, life = self.world.now_us, self.lives

        def on_response(body: Any) -> None:
            if life != self.lives:
                return
            if body is None or body.error_code:
                self._rejoin(None if body is None else body.error_code)
                return
            had = list(self._owned_places())
            self.lease_us = sent_us + SESSION_MS * MS
            if self.lease_us <= self.world.now_us:
                self._rejoin(None)  # too late: the member ignores this response
                return
            share = consumer_protocol.read_assignment(bytes(body.assignment), self.names)
            names = {found[0]: n for n in self.names.names() if (found := self.names.topic_named(n)) is not None}
            owned = sorted((names[tp.topic_id], tp.partition) for tp in share)
            self.holdings.on_taken(self, [place for place in owned if place not in had])
            self.owned = owned
            self.holdings.on_assigned(self.generation, owned, f"{self.name} {self.member_id}")
            self.world.reached["classic member got its assignment"] += 1
            if set(had) - set(owned):
                self._join()  # it has revoked partitions and reports it
            else:
                self.call_later(self._beat, BEAT_MS)

        self.send_request(self.coordinator, ApiKey.SYNC_GROUP, 3, body, on_response)

    def _beat(self) -> None:
        if not self.stopped and not self.calm and self.world.chance(0.06):
            self._roll()
            return
        if not self.classic:
            super()._beat()
            return
        if self.stopped:
            return
        if not self.calm and self.world.chance(0.02):
            self.call_later(self._commit, self.world.between(SESSION_MS, 3 * SESSION_MS))
            return
        sent_us, life = self.world.now_us, self.lives

        def on_response(body: Any) -> None:
            if life != self.lives:
                return
            had = bool(self.owned)
            self._owned_places()
            if body is None or body.error_code not in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
                self._rejoin(None if body is None else body.error_code)
                return
            self.lease_us = sent_us + SESSION_MS * MS
            lapsed = had and not self._owned_places()
            if body.error_code == ErrorCode.REBALANCE_IN_PROGRESS or lapsed:
                self._join()
            else:
                self._commit()

        body = HeartbeatRequest(group_id=GROUP, generation_id=self.generation, member_id=self.member_id)
        self.send_request(self.coordinator, ApiKey.HEARTBEAT, 3, body, on_response)


def live(world: World, history: History, faults_s: float, faults_max: int | None) -> None:
    fault_kinds = FaultKinds.draw(world)
    cooperative = world.chance(0.5)
    world.deliver(f"fault kinds: {fault_kinds}; classic members are {'cooperative' if cooperative else 'eager'}")
    cluster = Cluster(world, probes=PROBES[world.seed % 2], cold=COLD[world.seed % 3])
    InvariantChecker(cluster)
    cluster.want_topic("work", len(PLACES), 3, min_insync_replicas="2")
    cluster.want_topic(GROUP_OFFSETS_TOPIC, 1, 3, min_insync_replicas="2", cleanup_policy="compact")
    cluster.run_until(cluster.is_settled, 30, "the cluster's beginning")
    producer = Producer(cluster, history, "p", "work", 0, 500)
    groups = OwnedPartitions()
    members: list[Member] = [RollingConsumer(cluster, groups, f"m{i}", cooperative, i % 2 == 0) for i in range(4)]
    world.run(world.now_us + 1 * S)
    injector = FaultInjector(cluster, history, fault_kinds, faults_max)
    injector.run(faults_s)
    cluster.run_until(cluster.is_settled, RECOVERY_S_MAX, "everything in step after the last fault")
    for member in members:
        member.calm = True
    cluster.run_until(lambda: in_step(members), 40, "the group in one generation")
    for member in members:
        member.stopped = True
    world.run(world.now_us + 4 * S)
    auditor = Auditor(cluster, PLACES)
    cluster.run_until(lambda: auditor.committed is not None, 20, "the committed offsets")
    groups.verify(auditor.committed or {})
    world.reached["group generations"] += groups.newest
    history.acks += groups.acks
    producer.stopped = True
    cluster.run_until(lambda: producer.idle, 20, "the last acknowledgement")
