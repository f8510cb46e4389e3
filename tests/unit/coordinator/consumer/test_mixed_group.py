"""One group with members of both protocols, which join, leave, change the protocol and lose their coordinator in any
order. No partition has two users, each request is answered once, and no commit is lost. Well-behaved members end
with a complete assignment in the protocol of the remaining members."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from brokerd.cluster.model import Now, TopicPartition
from brokerd.coordinator.classic import events as g
from brokerd.coordinator.consumer import consumer_protocol
from brokerd.coordinator.consumer import events as c
from brokerd.coordinator.consumer.consumer_protocol import ConsumerProtocolSubscription
from brokerd.coordinator.consumer.events import ConsumerHeartbeat
from brokerd.coordinator.consumer.mixed_group import MixedGroup
from brokerd.coordinator.groups import GroupCoordinator
from brokerd.wire import records
from brokerd.wire.errors import ErrorCode
from brokerd.wire.schema import packer
from tests.unit.coordinator.topics import GROUP_CONFIG, FakeTopics

SESSION_MS, REBALANCE_MS = GROUP_CONFIG.session_ms, 8_000
NEW, EAGER, COOPERATIVE = "new", "eager", "cooperative"
Assignment = frozenset[TopicPartition]
EMPTY_ASSIGNMENT: Assignment = frozenset()
TOPICS = FakeTopics()
EVERYTHING = frozenset(TopicPartition(t, i) for t, count in TOPICS.there.values() for i in range(count))
NAMES = {topic_id: name for name, (topic_id, _) in TOPICS.there.items()}


def subscription(owned: Assignment, version: int = 1) -> bytes:
    one = ConsumerProtocolSubscription.TopicPartition
    value = ConsumerProtocolSubscription(
        sorted(TOPICS.there), owned_partitions=[one(NAMES[tp.topic_id], [tp.partition]) for tp in sorted(owned)]
    )
    out = bytearray(version.to_bytes(2, "big"))
    packer(ConsumerProtocolSubscription, version, False)(value, out, [])
    return bytes(out)


def led_by_a_client(members: tuple[tuple[str, str | None, bytes], ...]) -> dict[str, bytes]:
    """A round-robin assignor of the group leader. Partitions that another member owns are assigned in the next round (eager members own none)."""
    owned = {
        m: consumer_protocol.assignment_of(consumer_protocol.read_subscription(data).owned_partitions, TOPICS)
        for m, _, data in members
    }
    out = {}
    for at, (member, _, _) in enumerate(members):
        share = {tp for i, tp in enumerate(sorted(EVERYTHING)) if i % len(members) == at}
        share -= {tp for other, theirs in owned.items() if other != member for tp in theirs}
        out[member] = consumer_protocol.assignment(frozenset(share), TOPICS.there, TOPICS, 1)
    return out


class Log:
    """One partition of __consumer_offsets. Appended records are replicated by `replicate`."""

    def __init__(self, batches: list[bytes]) -> None:
        self.batches, self.waiting = batches, list[Callable[[int], None]]()
        self.error = 0
        self.end = 0
        for batch in batches:
            self.end += self._count(batch)
        self.high = self.end

    @staticmethod
    def _count(batch: bytes) -> int:
        ((_, header),) = records.batches(batch)
        return header.last_offset_delta + 1

    def append(self, partition: int, batch: bytes, leader_epoch: int, done: Callable[[int], None]) -> None:
        if self.error:
            done(self.error)
            return
        stamped = bytearray(batch)
        records.stamp(stamped, 0, self.end, 7)
        self.batches.append(bytes(stamped))
        self.end += self._count(stamped)
        self.waiting.append(done)

    def replicate(self, error: int = 0) -> None:
        """Replicate the oldest pending append. With an error, the writer gets the error only and does not know the result."""
        done = self.waiting.pop(0)
        self.high += self._count(self.batches[len(self.batches) - len(self.waiting) - 1])
        done(error)

    def read(self, partition: int, offset: int, max_bytes: int) -> bytes:
        return b"".join(self.batches)

    def partition_count(self) -> int:
        return 1

    def leader_epoch(self, partition: int) -> int:
        return 7

    def leadership_confirmed(self, partition: int) -> bool:
        return True

    def all_followers_caught_up_to_epoch(self, partition: int) -> bool:
        return True

    def start_offset(self, partition: int) -> int:
        return 0

    def epoch_start(self, partition: int) -> int:
        return 0

    def end_offset(self, partition: int) -> int:
        return self.end

    def high_watermark(self, partition: int) -> int:
        return self.high


@dataclass
class Client:
    """`using` is the set of partitions that it reads. `step` is the pending step or None. The other fields are the state of its protocol."""

    name: str
    kind: str
    instance: str | None = None
    member_id: str = ""
    epoch: int = 0
    using: Assignment = EMPTY_ASSIGNMENT
    given: Assignment = EMPTY_ASSIGNMENT
    waiting: Any = None
    to_join: bool = True
    to_sync: dict[str, bytes] | None = None
    lives: int = 0
    failed: bool = False
    """Its last request returned an error. The next request contains all fields, and so does the response, as with every client."""

    def lose(self) -> None:
        self.using = self.given = EMPTY_ASSIGNMENT
        self.epoch, self.to_join, self.to_sync = 0, True, None


class MixedGroupMachine(RuleBasedStateMachine):
    kinds = (NEW, EAGER)

    def __init__(self) -> None:
        super().__init__()
        self.now = Now(1_000, 1_000)
        self.ids = itertools.count()
        self.log = Log([])
        self.clients = [Client(f"m{i}", self.kinds[i % 2], "instance" if i == 3 else None) for i in range(4)]
        self.requested: dict[Any, Client] = {}
        self.serial = 0
        self.acked: dict[g.TopicIndex, int] = {}
        self.lead()

    def lead(self) -> None:
        coordinator_log: Any = self.log
        self.groups = GroupCoordinator(
            coordinator_log,
            lambda: self.now,
            initial_delay_ms=0,
            size_max=10,
            retention_ms=1 << 40,
            metadata_bytes_max=100,
            topics=TOPICS,
            group_config=lambda group_id: GROUP_CONFIG,
            draw=lambda: str(next(self.ids)),
        )
        self.groups.on_election(0, 7, self.now)
        self.groups.tick(self.now)

    @property
    def group(self) -> Any:
        shard = self.groups.shards[0]
        return shard.groups.get("g") if shard.loaded else None

    # -- plumbing ------------------------------------------------------------------------------------------------------
    def send_request(
        self, client: Client, then: Callable[[Any], None], make: Callable[[Callable[[Any], None]], Any]
    ) -> None:
        self.serial += 1
        token = client.waiting = (client.name, self.serial)
        self.requested[token] = client

        def on_response(response: Any) -> None:
            assert token in self.requested, f"{token} was answered twice"
            del self.requested[token]
            if client.waiting == token:  # otherwise the client has stopped waiting
                client.waiting = None
                then(response)

        error = self.groups.handle("g", make(on_response))
        if error:
            on_response(g.Completed(error))

    def is_accepted(self, client: Client, error: int) -> bool:
        """Whether the client may continue."""
        client.failed = bool(error)
        if error in (
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.FENCED_INSTANCE_ID,
            ErrorCode.FENCED_MEMBER_EPOCH,
            ErrorCode.ILLEGAL_GENERATION,
        ):
            if error == ErrorCode.UNKNOWN_MEMBER_ID and client.kind != NEW:
                client.member_id = ""
            client.lose()
        elif error in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.NOT_COORDINATOR) and client.kind != NEW:
            client.to_join, client.to_sync = True, None
        return not error

    def beat(self, client: Client, epoch: int | None = None) -> None:
        joins = (client.epoch if epoch is None else epoch) == c.JOIN_GROUP_MEMBER_EPOCH
        if joins:
            client.using = client.given = EMPTY_ASSIGNMENT
            client.epoch = c.JOIN_GROUP_MEMBER_EPOCH
        client.to_join = False
        again = client.waiting is not None or client.failed

        def on_reply(response: Any) -> None:
            if self.is_accepted(client, response.error) and response.epoch >= 0:
                client.epoch = response.epoch
                if response.assigned is not None:
                    client.given = response.assigned

        self.send_request(
            client,
            on_reply,
            lambda token: ConsumerHeartbeat(
                token,
                client.member_id,
                client.epoch if epoch is None else epoch,
                "client",
                "/host",
                client.instance,
                rebalance_ms=REBALANCE_MS if joins or again else -1,
                topics=frozenset(TOPICS.there) if joins or again else None,
                owned=client.using | client.given,
            ),
        )

    def join(self, client: Client) -> None:
        if client.kind == EAGER:
            client.using = EMPTY_ASSIGNMENT
        protocols = ((client.kind, subscription(client.using, 0 if client.kind == EAGER else 1)),)

        def on_reply(response: Any) -> None:
            if response.error == ErrorCode.MEMBER_ID_REQUIRED:
                client.member_id = response.member_id
            elif self.is_accepted(client, response.error):
                client.member_id, client.epoch, client.to_join = response.member_id, response.generation, False
                client.to_sync = led_by_a_client(response.members) if response.leader == response.member_id else {}

        self.send_request(
            client,
            on_reply,
            lambda token: g.Join(
                token,
                client.member_id,
                f"{client.name}-{next(self.ids)}",
                client.instance,
                "client",
                "/host",
                SESSION_MS,
                REBALANCE_MS,
                "consumer",
                protocols,
                True,
            ),
        )

    def sync(self, client: Client) -> None:
        shares = client.to_sync or {}

        def on_reply(response: Any) -> None:
            if self.is_accepted(client, response.error):
                had, client.to_sync = client.using, None
                client.using = consumer_protocol.read_assignment(response.assignment, TOPICS)
                client.to_join = bool(had - client.using)  # revoked partitions: joins again

        self.send_request(
            client,
            on_reply,
            lambda token: g.Sync(
                token, client.member_id, client.instance, client.epoch, "consumer", client.kind, shares
            ),
        )

    def run_next_step(self, client: Client) -> None:
        """The client's next step, without a fault."""
        if client.kind == NEW:
            client.using = client.given
            self.beat(client)
        elif client.waiting is not None:
            return
        elif client.to_join:
            self.join(client)
        elif client.to_sync is not None:
            self.sync(client)
        else:
            then = lambda response: self.is_accepted(client, response.error)  # noqa: E731
            self.send_request(
                client, then, lambda token: g.Heartbeat(token, client.member_id, client.instance, client.epoch)
            )

    # -- what members do -----------------------------------------------------------------------------------------------
    @rule(i=st.integers(0, 3))
    def continues(self, i: int) -> None:
        self.run_next_step(self.clients[i])

    @rule(i=st.integers(0, 3))
    def rejoins(self, i: int) -> None:
        """Also while a response is pending; the client ignores that response."""
        client = self.clients[i]
        if client.kind == NEW:
            self.beat(client, c.JOIN_GROUP_MEMBER_EPOCH)
        else:
            self.join(client)

    @rule(i=st.integers(0, 3), kind=st.sampled_from([NEW, "classic"]), leaves=st.booleans())
    def restarts(self, i: int, kind: str, leaves: bool) -> None:
        """The client starts again, with either protocol. Before that it leaves, or dies without a request (then its static membership is
        replaced)."""
        client = self.clients[i]
        client.using = client.given = EMPTY_ASSIGNMENT
        if leaves and client.kind == NEW and client.epoch > 0:
            self.beat(client, c.LEAVE_GROUP_MEMBER_EPOCH)
        elif leaves and client.kind != NEW and client.member_id and client.instance is None:
            named = ((client.member_id, None),)
            self.send_request(client, lambda response: None, lambda token: g.Leave(token, named))
        client.waiting = None
        client.lose()
        client.lives += 1
        client.kind = NEW if kind == NEW else self.kinds[1]
        client.member_id = f"{client.name}.{client.lives}" if kind == NEW else ""

    @rule(i=st.integers(0, 3))
    def commits(self, i: int) -> None:
        client = self.clients[i]
        if not client.using or client.epoch <= 0:
            return
        self.serial += 1
        tp, number = min(client.using), self.serial
        place = (NAMES[tp.topic_id], tp.partition)

        def on_response(response: Any) -> None:
            if not response.error:
                self.acked[place] = max(number, self.acked.get(place, 0))

        offsets = {place: g.Offset(number, -1, "", 1)}
        self.groups.handle("g", g.Commit(on_response, client.member_id, client.instance, client.epoch, offsets))

    # -- coordinator failures ------------------------------------------------------------------------------------------
    @rule(error=st.sampled_from([0, 0, 0, 7]))
    def a_write_is_replicated(self, error: int) -> None:
        if self.log.waiting:
            self.log.replicate(error)
            self.groups.tick(self.now)

    @rule(rejecting=st.booleans())
    def the_log_rejects(self, rejecting: bool) -> None:
        self.log.error = ErrorCode.NOT_ENOUGH_REPLICAS if rejecting else ErrorCode.NONE

    @rule(kept=st.integers(0, 5))
    def coordinator_changes(self, kept: int) -> None:
        """The new coordinator loads the replicated records, and perhaps some of the pending records."""
        lost = max(0, len(self.log.waiting) - kept)
        self.groups.on_resignation(0, self.now)
        assert not self.requested, "a request waits for a former coordinator"
        self.log = Log(self.log.batches[: len(self.log.batches) - lost])
        self.lead()

    @rule(ms=st.sampled_from([500, 2_000, 6_000]))
    def time_passes(self, ms: int) -> None:
        self.now = Now(self.now.mono_ms + ms, self.now.wall_ms + ms)
        self.groups.tick(self.now)

    # -- invariants ----------------------------------------------------------------------------------------------------
    @invariant()
    def no_partition_has_two_users(self) -> None:
        """Checked for members only: a removed member does not know yet that it was removed."""
        group = self.group
        used: dict[TopicPartition, str] = {}
        for client in self.clients:
            if group is None or client.member_id not in group.members:
                continue
            for tp in client.using:
                other = used.setdefault(tp, client.name)
                assert other == client.name, f"{tp} is used by {other} and {client.name}: {group.describe()}"
                if isinstance(group, MixedGroup):
                    assert group.owners.get(tp) == client.member_id, f"{tp}, which {client.name} uses, is not its own"

    @invariant()
    def acknowledged_commits_are_kept(self) -> None:
        group = self.group
        if group is not None:
            group.validate()
        for place, number in self.acked.items():
            assert group is None or group.commits.offsets[place].offset >= number

    @initialize()
    def some_members_have_joined(self) -> None:
        for client in self.clients:
            client.member_id = f"{client.name}.0" if client.kind == NEW else ""

    def teardown(self) -> None:
        """No client fails from now on: the group becomes stable."""
        self.log.error = 0
        for _ in range(60):
            while self.log.waiting:
                self.log.replicate()
            for client in self.clients:
                self.run_next_step(client)
            self.time_passes(500)
        while self.log.waiting:
            self.log.replicate()
        for client in self.clients:
            client.using = client.given if client.kind == NEW else client.using
        self.no_partition_has_two_users()
        using = [tp for client in self.clients for tp in client.using]
        assert sorted(using) == sorted(EVERYTHING), self.group.describe()
        assert isinstance(self.group, MixedGroup) == any(client.kind == NEW for client in self.clients)
        assert not self.requested


class MixedWithCooperative(MixedGroupMachine):
    kinds = (NEW, COOPERATIVE)


TestWithEager = MixedGroupMachine.TestCase
TestWithEager.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)
TestWithCooperative = MixedWithCooperative.TestCase
TestWithCooperative.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)
