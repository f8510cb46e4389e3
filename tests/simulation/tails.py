"""Worlds of moves without old data: the cluster and faults of `run`, four brokers, logs truncated by retention and by operators, and moves in mode
`tail` among full copies. `python -m tests.simulation --tails`, and `--tail-transactions`.

The invariants are in `run` and `transactors.verify`, compared with everything that was ever committed (`archive`), and in `tailmoves`.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from functools import partial

from brokerd.cluster.model import (
    GROUP_OFFSETS_TOPIC,
    REMOTE_LOG_METADATA_TOPIC,
    TRANSACTION_STATE_TOPIC,
    TopicPartition,
)
from tests.simulation import exactly_once, tiered_tails
from tests.simulation.archive import Archive
from tests.simulation.checkers import History, logs_agree
from tests.simulation.clients import Producer, Reader
from tests.simulation.cluster import Cluster
from tests.simulation.earliest import FromEarliest
from tests.simulation.earliest import verify as judge_passes
from tests.simulation.fault_injector import FaultInjector, FaultKinds
from tests.simulation.run import PROBES, RECOVERY_S_MAX, leader_replica
from tests.simulation.tailmoves import TailMove, TailWatch
from tests.simulation.transactors import COPY, LEDGER, SOURCE, Carrier, CommittedReader, Ledger, Transactor, verify
from tests.simulation.world import S, World

SETTINGS = {"log.retention.check.interval.ms": "1000"}
MOVED = "moved"
RETENTIONS = ({}, {}, {"retention_bytes": "6000"})


class TailFaultInjector(FaultInjector):
    """Adds operators who move partitions in mode `tail`. Sometimes an operator reassigns such a partition during the move."""

    def __init__(
        self,
        cluster: Cluster,
        history: History,
        fault_kinds: FaultKinds,
        faults_max: int | None,
        topics: tuple[str, ...],
        *,
        early: bool = False,
        tiered: Container[str] = (),
    ) -> None:
        """`early`: most moves hand over at once. `tiered`: the topics with tiered storage, whose store has faults."""
        self._topics, self._early, self._tiered = topics, early, tiered
        self.moves: list[TailMove] = []
        super().__init__(cluster, history, fault_kinds, faults_max)
        self._kinds += [self._move] * (6 if early or tiered else 3)
        if tiered:
            self._kinds += tiered_tails.store_faults(cluster, self._call_later)

    def _move(self) -> None:
        if self.cluster.acting is None or self.world.chance(0.15):
            super()._move()
            return
        under_way = {m.tp for m in self.moves if not m.over}
        free = [
            (t.name, TopicPartition(t.topic_id, i), s)
            for t, i, s in self.cluster.image.each_partition()
            if t.name in self._topics and TopicPartition(t.topic_id, i) not in under_way
        ]
        if not free:
            return
        topic, tp, state = self.world.rng.choice(free)
        replicas = tuple(self.world.rng.sample(sorted(self.cluster.brokers), len(state.target)))
        if set(replicas) <= set(state.replicas) or state.handover_offset >= 0:
            if state.handover_offset >= 0 and self.world.chance(0.4):
                super()._move()
            return
        self._orders += 1
        tiered = topic in self._tiered
        early = self._early and not tiered and self.world.chance(0.8)
        self.world.deliver(f"an operator moves the tail of {topic}-{tp.partition} from {state.target} to {replicas}")
        self.moves.append(
            TailMove(
                self.cluster,
                tp,
                f"{topic}-{tp.partition}",
                replicas,
                self._orders,
                early=early,
                tiered=tiered,
            )
        )

    def stop_faults(self) -> None:
        super().stop_faults()
        for move in self.moves:
            move.calm = True
        self.cluster.remote_store.away, self.cluster.remote_store.failing = False, 0.0
        tiered_tails.heal_helpers(self.cluster)

    def is_ended(self) -> bool:
        return all(m.over for m in self.moves)


def live(
    world: World,
    history: History,
    faults_s: float,
    faults_max: int | None,
    *,
    early: bool = False,
    tiered: bool = False,
) -> None:
    fault_kinds = FaultKinds.draw(world)
    world.deliver(f"fault kinds: {fault_kinds}")
    settings = {**SETTINGS, **tiered_tails.SETTINGS} if tiered else SETTINGS
    cluster = Cluster(world, brokers=4, settings=settings, probes=PROBES[world.seed % 2])
    TailWatch(cluster)
    if tiered:
        tiered_tails.BothTiersWatch(cluster, (MOVED, "wide"))
    cluster.archive = Archive(cluster, (MOVED, "wide"))
    small = {"segment_bytes": "4096"}
    retentions = (tiered_tails.TOPIC,) if tiered else RETENTIONS
    cluster.want_topic(MOVED, 2, 2, min_insync_replicas="2", **{**small, **world.rng.choice(retentions)})
    cluster.want_topic("wide", 1, 3, min_insync_replicas="2", **{**small, **world.rng.choice(retentions)})
    cluster.run_until(cluster.is_settled, 30, "the cluster's beginning")
    places = [(MOVED, 0), (MOVED, 1), ("wide", 0)]
    # A reader of the tier waits up to seconds for each response, so those worlds have fewer records.
    names, pause_ms = ("a", 800) if tiered else ("ab", 200)
    producers = [
        Producer(cluster, history, f"p{i}{n}", t, p, pause_ms) for i, (t, p) in enumerate(places) for n in names
    ]
    seldom = [Producer(cluster, history, f"s{i}", t, p, 9_000) for i, (t, p) in enumerate(places)]
    readers = [Reader(cluster, history, f"r{i}", t, p, careful=i != 1) for i, (t, p) in enumerate(places)]
    # The old records of one partition are deleted.
    passes = early or tiered
    again = [FromEarliest(cluster, f"e{i}", p, deletes=0.1 * (i == 2)) for i, p in enumerate(places)] if passes else []
    world.run(world.now_us + 1 * S)
    topics = (MOVED, "wide")
    injector = TailFaultInjector(
        cluster, history, fault_kinds, faults_max, topics, early=early, tiered=topics if tiered else ()
    )
    injector.run(faults_s)
    for reader in again:
        reader.deletes = 0
    cluster.run_until(
        lambda: injector.is_ended() and cluster.is_settled(),
        RECOVERY_S_MAX,
        "all replicas in sync after the last fault",
    )
    for producer in (*producers, *seldom):
        producer.stopped = True
    cluster.run_until(lambda: all(p.idle for p in (*producers, *seldom)), 20, "the last acknowledgements")
    cluster.run_until(cluster.level, 20, "equal high watermarks")
    judge_passes(cluster, again, places_without_deletion(cluster, injector, places, again))
    for reader in readers:
        log = leader_replica(cluster, reader.topic, reader.partition)
        cluster.run_until(
            lambda r=reader, end=log.core.high_watermark: r.offset == end, 20, f"{reader.name} at the end"
        )  # type: ignore[misc]
        reader.stopped = True
    cluster.archive.check_logs()
    logs_agree(cluster, but=(REMOTE_LOG_METADATA_TOPIC,))
    history.verify(cluster)


def places_without_deletion(
    cluster: Cluster, injector: TailFaultInjector, places: Sequence[tuple[str, int]], again: Sequence[FromEarliest]
) -> set[tuple[str, int]]:
    """Partitions of which nothing was deleted."""
    out = set()
    for topic, index in places:
        known = cluster.image.topic_named(topic)
        assert known is not None
        cut = any(m.tp == (known.topic_id, index) and m.has_cut for m in injector.moves)
        deleted = any(r.place == (topic, index) and r.deleted >= 0 for r in again)
        if not cut and not deleted and "retention.bytes" not in known.configs:
            out.add((topic, index))
    return out


def live_with_transactions(
    world: World,
    history: History,
    faults_s: float,
    faults_max: int | None,
    *,
    early: bool = False,
    tiered: bool = False,
) -> None:
    fault_kinds = FaultKinds.draw(world)
    kind = world.rng.choice((1, 2))
    world.deliver(f"fault kinds: {fault_kinds}; transactions of kind {kind}")
    settings = {**SETTINGS, **exactly_once.SETTINGS, **(tiered_tails.SETTINGS if tiered else {})}
    cluster = Cluster(world, brokers=4, settings=settings, probes=PROBES[world.seed % 2])
    TailWatch(cluster)
    if tiered:
        tiered_tails.BothTiersWatch(cluster, (LEDGER, COPY))
    cluster.archive = Archive(cluster, (LEDGER, SOURCE, COPY))
    ledger_configs, copy_configs = {"segment_bytes": "8192"}, {"segment_bytes": "4096"}
    if tiered:
        ledger_configs = copy_configs = tiered_tails.TOPIC
    cluster.want_topic(LEDGER, 2, 2, min_insync_replicas="2", **ledger_configs)
    cluster.want_topic(SOURCE, 1, 3, min_insync_replicas="2")
    cluster.want_topic(COPY, 1, 2, min_insync_replicas="2", **copy_configs)
    for name in (GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC):
        cluster.want_topic(name, 1, 3, min_insync_replicas="2", cleanup_policy="compact", segment_bytes="65536")
    cluster.run_until(cluster.is_settled, 30, "the cluster's beginning")
    ledger = Ledger()
    source = Producer(cluster, history, "s", SOURCE, 0, 200)
    workers = [Transactor(cluster, ledger, f"t{n}", f"id-{n}", kind) for n in "abc"]
    carrier = Carrier(cluster, ledger, "c", "id-carrier", kind)
    places = [(LEDGER, 0), (LEDGER, 1), (SOURCE, 0), (COPY, 0)]
    readers = [CommittedReader(cluster, ledger, f"r{i}", place) for i, place in enumerate(places)]
    moved = [places[0], places[1], places[3]]
    again = [FromEarliest(cluster, f"e{i}", place) for i, place in enumerate(moved)] if early or tiered else []
    world.run(world.now_us + 1 * S)
    topics = (LEDGER, COPY)
    injector = TailFaultInjector(
        cluster, history, fault_kinds, faults_max, topics, early=early, tiered=topics if tiered else ()
    )
    injector.run(faults_s)
    for reader in again:
        reader.deletes = 0
    cluster.run_until(
        lambda: injector.is_ended() and cluster.is_settled(),
        RECOVERY_S_MAX,
        "all replicas in sync after the last fault",
    )
    before = ledger.commits
    cluster.run_until(lambda: ledger.commits > before + 3, 30, "transactions to continue after the last fault")
    exactly_once.wind_down(cluster, source, [*workers, carrier], readers, places)
    judge_passes(cluster, again, places_without_deletion(cluster, injector, moved, again))
    cluster.archive.check_logs()
    verify(cluster, ledger, readers)
    exactly_once.logs_agree_but_for_compaction(cluster)
    world.reached["transactions committed"] += ledger.commits
    world.reached["transactions aborted"] += ledger.aborts
    history.acks += ledger.commits


early = partial(live, early=True)
early_with_transactions = partial(live_with_transactions, early=True)
tiered = partial(live, tiered=True)
tiered_with_transactions = partial(live_with_transactions, tiered=True)
