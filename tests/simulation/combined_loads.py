"""The loads of `combined`: the clients and the rules of the other worlds, as parts that run together in one cluster.

A load creates its topics, begins its clients, stops them, waits until everything that it sent has arrived, and judges the result. Does not contain clients
and rules of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from random import Random
from typing import Any, ClassVar

from brokerd.cluster.model import GROUP_OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from tests.simulation import exactly_once, share_changes, shares, transactors
from tests.simulation.byid import ByIdProducer, ByIdReader, key_of
from tests.simulation.checkers import History
from tests.simulation.clients import Producer, Reader
from tests.simulation.cluster import Cluster
from tests.simulation.consumers import Consumer, OwnedPartitions
from tests.simulation.decided_records import DecidedRecords
from tests.simulation.exactly_once import DECIDED_S, is_decided
from tests.simulation.fault_injector import AGAIN, KEYED
from tests.simulation.members import SESSION_MS, Auditor, GroupHistory, Member, Place, in_step
from tests.simulation.metrics import letters_counted
from tests.simulation.pipelined import PipelinedProducer
from tests.simulation.run import LOGS, leader_replica
from tests.simulation.share_checker import ShareChecker
from tests.simulation.share_members import ShareMember
from tests.simulation.topic_changes import TopicOperator
from tests.simulation.transactors import COPY, LEDGER, Carrier, CommittedReader, Ledger, Transactor
from tests.simulation.world import S, World

INTERNAL = (GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_STATE_TOPIC)
RETENTIONS: tuple[dict[str, str], ...] = (
    {"retention_bytes": "6000"},
    {"retention_bytes": "20000"},
    {"retention_bytes": "-1"},
    {"retention_ms": "6000"},
    {"retention_ms": "-1"},
    {"segment_bytes": "4096"},
    {"segment_bytes": "16384"},
)
"""Configs that an operator changes during the run. Followers are rarely so far behind that they lose the producer state with the deleted records."""
IDLE_S = 40


class Load:
    """`kept`: topics whose committed batches the archive stores. `different`: topics whose replicas need not be equal byte for byte. `limits`: fields of
    `DeliveryLimits`."""

    settings: Mapping[str, str] = {}
    limits: Mapping[str, int] = {}
    kept: ClassVar[tuple[str, ...]] = ()
    different: tuple[str, ...] = ()
    moved: ClassVar[tuple[str, ...]] = ()
    """Topics that operators move without their old data."""
    tiered: ClassVar[tuple[str, ...]] = ()
    """Those of them that have tiered storage."""
    cluster: Cluster

    def __init__(self, world: World, history: History, clock_error_ms: int) -> None:
        self.world, self.history, self.clock_error_ms = world, history, clock_error_ms
        self.clients: list[Any] = []
        """They have `stopped` and `idle`."""

    @contextmanager
    def context(self) -> Iterator[None]:
        """Runs around the whole world."""
        yield

    def create(self) -> None:
        raise NotImplementedError

    def begin(self, duration_s: float) -> None:
        raise NotImplementedError

    def operate(self) -> None:
        """Called between events, when `waits_for_operator`."""

    @property
    def waits_for_operator(self) -> bool:
        return False

    def on_faults_ended(self) -> None:
        """The faults have ended."""

    def stop(self) -> None:
        for client in self.clients:
            client.stopped = True

    def finish(self) -> None:
        """Run until everything that was sent has arrived."""

    def verify(self) -> None:
        raise NotImplementedError

    def await_offset(self, reader: Reader | ByIdReader, offset: int) -> None:
        self.cluster.run_until(lambda: reader.offset == offset, 20, f"{reader.name} at the end")

    def topic(self, name: str, partitions: int, replicas: int = 3, **configs: str) -> Any:
        return self.cluster.want_topic(name, partitions, replicas, **{"min_insync_replicas": "2", **configs})

    def operate_topics(
        self,
        duration_s: float,
        together: Sequence[str],
        counts: Sequence[int],
        grown: Callable[[str, int], None],
        configs: Mapping[str, Sequence[Mapping[str, str]]],
    ) -> None:
        """An operator of this load: see `TopicOperator`."""
        rng = Random(f"{self.world.seed} {type(self).__name__}")
        TopicOperator(self.cluster, duration_s, together, counts, grown, configs, rng)


class PlainLoad(Load):
    """The topics of the ordinary worlds, with retention and growth."""

    kept = ("strict", "pair", AGAIN)
    different = (KEYED,)
    moved = ("pair",)
    topics = (*kept, "loose", KEYED, "brittle")

    def create(self) -> None:
        draw = self.world.rng.choice
        self.topic("strict", 2, **draw(LOGS))
        self.topic("pair", 1, 2, segment_bytes="4096")
        self.topic("loose", 1, min_insync_replicas="1", **draw(LOGS))
        self.topic("brittle", 1, 2, min_insync_replicas="1", unclean_leader_election_enable="true")
        self.history.named_by_id.add(key_of(self.topic(AGAIN, 1)))
        self.history.compacted.add(KEYED)
        policy = draw(("delete", "compact"))
        small = {"segment_bytes": "2048", "min_cleanable_dirty_ratio": "0.05"}
        self.topic(KEYED, 1, cleanup_policy=policy, **small)

    def begin(self, duration_s: float) -> None:
        cluster, history = self.cluster, self.history
        places = [("strict", 0), ("strict", 1), ("pair", 0), ("loose", 0), ("brittle", 0)]
        racks = ["rack-0", "rack-1"] if cluster.racks else [""]
        self.readers = [
            Reader(cluster, history, f"r{i}", *place, careful=i != 1, rack=racks[i % len(racks)])
            for i, place in enumerate(places)
        ]
        self.clients = [
            *(Producer(cluster, history, f"p{i}", *place, 500) for i, place in enumerate([*places, (KEYED, 0)])),
            PipelinedProducer(cluster, history, "q", places[:3], 500),
            ByIdProducer(cluster, history, "pa", AGAIN, 500),
        ]
        self.by_id = ByIdReader(cluster, history, "ra", AGAIN)

        def on_partitions_added(name: str, count: int) -> None:
            if not self.clients[0].stopped:
                self.clients.append(Producer(cluster, history, f"g{count}", name, count - 1, 500))
                self.readers.append(Reader(cluster, history, f"gr{count}", name, count - 1))

        self.operate_topics(
            duration_s, ("strict",), (3,), on_partitions_added, {"strict": RETENTIONS, "pair": RETENTIONS}
        )

    def finish(self) -> None:
        for reader in self.readers:
            if reader.topic not in self.history.unpromised:
                end = leader_replica(self.cluster, reader.topic, reader.partition).core.high_watermark
                self.await_offset(reader, end)
            reader.stopped = True
        end = leader_replica(self.cluster, AGAIN, 0).core.high_watermark
        self.await_offset(self.by_id, end)
        self.by_id.stopped = True

    def verify(self) -> None:
        self.history.verify(self.cluster, self.topics)


class DriftingConsumer(Consumer):
    lease_ms = SESSION_MS - 100


class GroupLoad(Load):
    """A classic group and a group of the consumer protocol."""

    different = (GROUP_OFFSETS_TOPIC,)
    places: ClassVar[list[Place]] = [("work", i) for i in range(3)]

    def create(self) -> None:
        self.topic("work", len(self.places))

    def begin(self, duration_s: float) -> None:
        cluster, owned = self.cluster, OwnedPartitions()
        classic = GroupHistory()
        self.groups: dict[str, tuple[GroupHistory, list[Member]]] = {
            "classic": (classic, [Member(cluster, classic, f"c{n}", self.places, "classic") for n in "ab"]),
            "modern": (owned, [DriftingConsumer(cluster, owned, f"k{n}", self.places, "modern") for n in "ab"]),
        }

    def on_faults_ended(self) -> None:
        for _, members in self.groups.values():
            for member in members:
                member.calm = True

    def finish(self) -> None:
        for name, (_, members) in self.groups.items():
            self.cluster.run_until(lambda m=members: in_step(m), 40, f"the group {name} in one generation")  # type: ignore[misc]
            for member in members:
                member.stopped = True
        self.world.run(self.world.now_us + 4 * S)  # requests in flight are answered now, or not at all

    def verify(self) -> None:
        for name, (history, _) in self.groups.items():
            auditor = Auditor(self.cluster, self.places, name)
            self.cluster.run_until(lambda a=auditor: a.committed is not None, 20, f"the committed offsets of {name}")  # type: ignore[misc]
            history.verify(auditor.committed or {})
            self.world.reached[f"generations of {name}"] += history.newest
            self.history.acks += history.acks


class OrderCarrier(Carrier):
    source = "receipts"


class OftenReplacedTransactor(Transactor):
    """Worlds of all loads have few transactions."""

    zombie_chance, zombie_delay_ms = 0.25, 40


class TransactionLoad(Load):
    settings = exactly_once.SETTINGS
    kept = (LEDGER, COPY, "receipts")
    different = (GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC)
    moved = (LEDGER, COPY)
    places: ClassVar[list[Place]] = [(LEDGER, 0), (LEDGER, 1), ("receipts", 0), (COPY, 0)]

    def create(self) -> None:
        self.topic(LEDGER, 2, 2, segment_bytes="8192")
        self.topic(COPY, 1, 2, segment_bytes="4096")
        self.topic("receipts", 1)

    def begin(self, duration_s: float) -> None:
        cluster, self.ledger, kind = self.cluster, Ledger(), self.world.rng.choice((1, 2))
        self.source = Producer(cluster, self.history, "s", "receipts", 0, 400)
        self.workers = [OftenReplacedTransactor(cluster, self.ledger, f"t{n}", f"id-{n}", kind) for n in "ab"]
        self.carrier = OrderCarrier(cluster, self.ledger, "c", "id-carrier", kind)
        self.clients = [self.source, *self.workers, self.carrier]
        self.readers = [CommittedReader(cluster, self.ledger, f"tr{i}", place) for i, place in enumerate(self.places)]
        self.operate_topics(duration_s, (), (), lambda name, count: None, {LEDGER: RETENTIONS, COPY: RETENTIONS})

    def finish(self) -> None:
        exactly_once.wind_down(self.cluster, self.source, [*self.workers, self.carrier], self.readers, self.places)

    def verify(self) -> None:
        transactors.verify(self.cluster, self.ledger, self.readers, "receipts")
        self.world.reached["transactions committed"] += self.ledger.commits
        self.world.reached["records carried"] += self.ledger.carried
        self.history.acks += self.ledger.commits


class ShareLoad(Load):
    """A share group with dead letters over a log with transactions and deleted records, whose topic grows and whose start offsets an operator changes."""

    settings: ClassVar[dict[str, str]] = {**shares.SETTINGS, **exactly_once.SETTINGS}
    kept = (shares.TOPIC,)
    different = (GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC)

    def __init__(self, world: World, history: History, clock_error_ms: int) -> None:
        super().__init__(world, history, clock_error_ms)
        self.checker = ShareChecker(world, shares.LOCK_MS, shares.DELIVERIES_MAX, dead_letters=True)

    @contextmanager
    def context(self) -> Iterator[None]:
        with ExitStack() as stack:
            stack.enter_context(shares.short_times())
            self.counted = stack.enter_context(letters_counted())
            yield

    def create(self) -> None:
        assert self.cluster.archive is not None
        self.checker.decided = DecidedRecords(self.cluster.archive)
        shares.want_dead_topic(self.cluster)
        self.topic_id = self.topic(shares.TOPIC, shares.PARTITIONS, segment_bytes="4096")

    def begin(self, duration_s: float) -> None:
        cluster, history, kind = self.cluster, self.history, self.world.rng.choice((1, 2))
        shares.configure(cluster, {**shares.WITH_LETTERS, **share_changes.COMMITTED})
        cluster.run_until(cluster.is_settled, 30, "every broker to know the config of the group")
        self.members = [
            ShareMember(cluster, history, self.checker, f"m{n}", shares.GROUP, shares.TOPIC, self.topic_id)
            for n in range(4)
        ]
        producer = partial(Producer, cluster, history)
        self.clients = [
            *(producer(f"sp{p}", shares.TOPIC, p, 900) for p in range(shares.PARTITIONS)),
            share_changes.TaskTransactor(cluster, Ledger(), "st", "id-share", kind),
            share_changes.Deleter(cluster, self.checker, "deleter"),
            share_changes.Operator(cluster, self.checker, self.members),
        ]

        def on_partitions_added(name: str, count: int) -> None:
            if not self.clients[0].stopped:
                self.clients.append(producer(f"sp{count - 1}", name, count - 1, 900))

        self.operate_topics(duration_s, (shares.TOPIC,), shares.GROWN[:1], on_partitions_added, {})

    def on_faults_ended(self) -> None:
        for member in self.members:
            member.calm = True

    def finish(self) -> None:
        places = [(shares.TOPIC, p) for p in range(shares.PARTITIONS)]
        self.cluster.run_until(
            lambda: all(is_decided(self.cluster, p) for p in places), DECIDED_S, "every transaction to be decided"
        )
        shares.end_deliveries(self.cluster, self.members)

    def verify(self) -> None:
        cluster, checker = self.cluster, self.checker
        ends = shares.end_offsets(cluster)
        assert checker.decided is not None
        starts = {p: leader_replica(cluster, shares.TOPIC, p).start_offset for p in ends}
        checker.verify(ends, starts, share_changes.undeliverable(cluster, checker.decided))
        shares.judge_letters(cluster, checker, self.counted)
        self.world.reached["records of the share group"] += sum(ends.values())
