"""Worlds of a share group (KIP-932): more members than partitions deliver and acknowledge records under the faults of `run`.
`python -m tests.simulation --shares`. Locks, sessions and the intervals of snapshots are short.

The rules are in `share_checker`. In addition, at the end the delivery of every record has ended: the start offsets that the share coordinator has are
the ends of the partitions. `--share-letters`: the group has a topic of dead letters, which copy the records. `--share-order`: the group keeps the order of
each key (`share_order`). `--share-growth`: the topic gets more partitions twice.
Does not check transactions, deleted records and changed offsets (`share_changes`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from brokerd.apis import share_partitions
from brokerd.apis.share_dead_letters import ShareDeadLetters
from brokerd.cluster.metadata import AccessKind
from brokerd.cluster.model import GROUP_OFFSETS_TOPIC, SHARE_STATE_TOPIC, TopicPartition
from brokerd.coordinator.share_state import coordinator
from brokerd.coordinator.share_state.records import SharePartitionKey
from brokerd.sharing import dead_letters as letter
from brokerd.wire.records import Record, iterate
from controlplane.controller.events import DesiredAccess
from tests.simulation.checkers import History, InvariantChecker, Violation, logs_agree
from tests.simulation.clients import Producer
from tests.simulation.cluster import COLD, Cluster
from tests.simulation.fault_injector import FaultInjector, FaultKinds
from tests.simulation.metrics import check_letters, letters_counted
from tests.simulation.run import PROBES, RECOVERY_S_MAX, leader_replica
from tests.simulation.share_checker import ShareChecker
from tests.simulation.share_letters import DeadLetters
from tests.simulation.share_members import ShareMember
from tests.simulation.share_order import ORDERED, KeyedProducer, KeyOrderChecker
from tests.simulation.topic_changes import TopicOperator
from tests.simulation.world import S, World

GROUP, TOPIC = "workers", "tasks"
PARTITIONS, MEMBERS = 2, 5
GROWN = (3, 4)
LOCK_MS, DELIVERIES_MAX = 1_500, 3
SETTINGS = {
    "group.share.session.timeout.ms": "3000",
    "group.share.min.session.timeout.ms": "1000",
    "group.share.heartbeat.interval.ms": "400",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.assignment.interval.ms": "0",
    "group.share.record.lock.duration.ms": str(LOCK_MS),
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.delivery.count.limit": str(DELIVERIES_MAX),
    "share.coordinator.snapshot.update.records.per.snapshot": "7",
}
PRUNE_INTERVAL_MS, IDLE_MS = 3_000, 2_000
EARLIEST = {"share.auto.offset.reset": "earliest"}
DEAD_TOPIC = "dlq.tasks"
WITH_LETTERS = {
    **EARLIEST,
    "errors.deadletterqueue.topic.name": DEAD_TOPIC,
    "errors.deadletterqueue.copy.record.enable": "true",
}


@contextmanager
def short_times() -> Iterator[None]:
    """The rules of the product with shorter times: a world has seconds, not minutes."""
    before = coordinator.PRUNE_INTERVAL_MS, share_partitions.IDLE_MS
    coordinator.PRUNE_INTERVAL_MS, share_partitions.IDLE_MS = PRUNE_INTERVAL_MS, IDLE_MS
    try:
        yield
    finally:
        coordinator.PRUNE_INTERVAL_MS, share_partitions.IDLE_MS = before


@contextmanager
def share_cluster(
    world: World, checker: ShareChecker, settings: dict[str, str]
) -> Iterator[tuple[Cluster, list[ShareDeadLetters]]]:
    """A cluster whose share partitions `checker` observes, with short times, and every object that counts its dead letters."""
    with short_times(), letters_counted() as counted:
        cluster = Cluster(
            world,
            settings=settings,
            probes=PROBES[world.seed % 2],
            cold=COLD[world.seed % 3],
            share_observer=checker,
        )
        InvariantChecker(cluster)
        yield cluster, counted


def want_dead_topic(cluster: Cluster, **configs: str) -> None:
    cluster.want_topic(DEAD_TOPIC, 1, 3, min_insync_replicas="2", errors_deadletterqueue_group_enable="true", **configs)


def configure(cluster: Cluster, configs: Mapping[str, str]) -> None:
    """The configs of the group. Repeated until the metadata log has the config: a new controller does not know the row."""
    row = DesiredAccess(AccessKind.GROUP, GROUP, 1, dict(configs))
    deadline_us = cluster.world.now_us + RECOVERY_S_MAX * S
    while cluster.image.access_to(AccessKind.GROUP, GROUP)[1] != configs:
        if cluster.world.now_us > deadline_us:
            raise Violation("the config of the group does not reach the metadata log")
        if cluster.acting is not None:
            cluster.deliver_desired(row)
        cluster.world.run(cluster.world.now_us + S // 5)


def stored_start(cluster: Cluster, partition: int) -> int | None:
    """The start offset that the share coordinator has. None: no broker has loaded it."""
    topic = cluster.image.topic_named(TOPIC)
    assert topic is not None
    place = SharePartitionKey(GROUP, topic.topic_id, partition)
    for node in cluster.brokers.values():
        state, _ = node.broker.coordinators.share_states.summary(place)
        if state is not None:
            return state.start
    return None


def end_offsets(cluster: Cluster) -> dict[int, int]:
    return {p: leader_replica(cluster, TOPIC, p).core.high_watermark for p in range(cluster.topics[TOPIC].partitions)}


def records(cluster: Cluster, topic: str, partition: int) -> list[Record]:
    """The records below the high watermark, as the leader has them."""
    replica = leader_replica(cluster, topic, partition)
    found, at, end = list[Record](), replica.log.start_offset, replica.core.high_watermark
    while at < end:
        found += [r for r in iterate(replica.log.read(at, 1 << 20, end).bytes()) if r.offset >= at]
        at = found[-1].offset + 1
    return found


def committed_records(cluster: Cluster, partition: int) -> dict[int, Record]:
    """The records of a partition of TOPIC by offset, with deleted ones if the world has an archive."""
    topic = cluster.image.topic_named(TOPIC)
    assert topic is not None
    if cluster.archive is None:
        return {r.offset: r for r in records(cluster, TOPIC, partition)}
    archived = memoryview(cluster.archive.batches_of(TopicPartition(topic.topic_id, partition)))
    return {r.offset: r for r in iterate(archived)}


def dead_letters(cluster: Cluster) -> DeadLetters:
    """The dead letters of each record. Each names its record."""
    sources = {p: committed_records(cluster, p) for p in range(cluster.topics[TOPIC].partitions)}
    found = DeadLetters()
    for r in records(cluster, DEAD_TOPIC, 0):
        headers = {name: (value or b"").decode() for name, value in r.headers}
        partition, offset = int(headers[letter.PARTITION]), int(headers[letter.OFFSET])
        source = sources[partition][offset]
        if (headers[letter.TOPIC], headers[letter.GROUP]) != (TOPIC, GROUP):
            raise Violation(f"dead letter at {r.offset} names another topic or group: {headers}")
        copied = (r.key, r.value) != (None, None)
        if copied and (r.key, r.value) != (source.key, source.value):
            raise Violation(f"dead letter at {r.offset} is no copy of {partition}@{offset}")
        found.every[partition, offset] += 1
        found.copies[partition, offset] += copied
    return found


def judge_letters(cluster: Cluster, checker: ShareChecker, counted: list[ShareDeadLetters]) -> None:
    found = dead_letters(cluster)
    checker.letters.verify(found, checker.deleted)
    check_letters(counted, found.every, checker.letters.ended.total())


def end_deliveries(cluster: Cluster, members: Iterable[ShareMember]) -> None:
    """Run until the delivery of every record has ended and the replicas are equal. The members stop."""

    def is_finished() -> bool:
        return all(stored_start(cluster, p) == end for p, end in end_offsets(cluster).items())

    cluster.run_until(is_finished, RECOVERY_S_MAX, "the end of all deliveries")
    for member in members:
        member.stopped = True
    cluster.run_until(cluster.level, 20, "equal high watermarks")


def live(
    world: World,
    history: History,
    faults_s: float,
    faults_max: int | None,
    *,
    with_letters: bool = False,
    key_order: bool = False,
    growth: bool = False,
) -> None:
    fault_kinds = FaultKinds.draw(world)
    world.deliver(f"fault kinds: {fault_kinds}")
    checker = (
        KeyOrderChecker(world, LOCK_MS, DELIVERIES_MAX)
        if key_order
        else ShareChecker(world, LOCK_MS, DELIVERIES_MAX, dead_letters=with_letters)
    )
    with share_cluster(world, checker, SETTINGS) as (cluster, counted):
        small = {"segment_bytes": world.rng.choice(("4096", "65536"))}
        cluster.want_topic(GROUP_OFFSETS_TOPIC, 1, 3, min_insync_replicas="2", cleanup_policy="compact", **small)
        cluster.want_topic(SHARE_STATE_TOPIC, 2, 3, min_insync_replicas="2", retention_ms="-1", **small)
        if with_letters:
            want_dead_topic(cluster, **small)
        topic_id = cluster.want_topic(TOPIC, PARTITIONS, 3, min_insync_replicas="2", **small)
        cluster.run_until(cluster.is_settled, 30, "the cluster's beginning")
        configure(cluster, (WITH_LETTERS if with_letters else EARLIEST) | (ORDERED if key_order else {}))
        producer = KeyedProducer if key_order else Producer
        producers = [producer(cluster, history, f"p{p}", TOPIC, p, 400) for p in range(PARTITIONS)]
        members = [ShareMember(cluster, history, checker, f"m{n}", GROUP, TOPIC, topic_id) for n in range(MEMBERS)]
        world.run(world.now_us + 1 * S)
        if growth:

            def on_partitions_added(name: str, count: int) -> None:
                if not producers[0].stopped:
                    producers.append(producer(cluster, history, f"p{count - 1}", TOPIC, count - 1, 400))

            TopicOperator(cluster, faults_s, (TOPIC,), GROWN, on_partitions_added, {})
        injector = FaultInjector(cluster, history, fault_kinds, faults_max)
        injector.run(faults_s)
        cluster.run_until(cluster.is_settled, RECOVERY_S_MAX, "all replicas in sync after the last fault")
        for p in producers:
            p.stopped = True
        for member in members:
            member.calm = True
        cluster.run_until(lambda: all(p.idle for p in producers), 20, "the last responses to the producers")
        end_deliveries(cluster, members)
        logs_agree(cluster, but=(GROUP_OFFSETS_TOPIC,))
        checker.verify(end_offsets(cluster), dict.fromkeys(end_offsets(cluster), 0))
        if with_letters:
            judge_letters(cluster, checker, counted)
        world.reached["records of the share group"] += sum(end_offsets(cluster).values())


live_with_letters = partial(live, with_letters=True)
live_with_key_order = partial(live, key_order=True)
live_with_growth = partial(live, growth=True)
