"""Worlds of routes: producers write to a source topic, brokers route its records to three targets, under the faults of `run`. The definition changes
once, and one target is created late. `python -m tests.simulation --routes`.

Invariants: each record in the log of the source is exactly once in each target whose binding matches, in the partition of its key, and in no other
target. Records of one source partition are in order in each target partition. No target has a record that is not in the source. At the end the
committed positions are the ends of the source partitions. `--route-growth`: the source gets more partitions twice. Does not check: transactions in the source,
retention, targets that grow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from brokerd.cluster.model import GROUP_OFFSETS_TOPIC, TopicPartition
from brokerd.runtime.routing import Routing
from brokerd.wire import records
from brokerd.wire.compression import GZIP
from brokerd.wire.errors import ErrorCode
from brokerd.wire.murmur2 import key_partition
from brokerd.wire.records import Record
from controlplane.controller.events import DesiredAccess
from tests.simulation.checkers import History, InvariantChecker, Violation, logs_agree, read_bytes
from tests.simulation.clients import Producer
from tests.simulation.cluster import COLD, Cluster
from tests.simulation.fault_injector import AFTERMATH_S, FaultInjector, FaultKinds
from tests.simulation.run import PROBES, RECOVERY_S_MAX, leader_replica
from tests.simulation.topic_changes import TopicOperator
from tests.simulation.world import S, World

SOURCE, COPIES, MATCHING, LATE = "source", "copies", "matching", "late"
PARTITIONS = {SOURCE: 2, COPIES: 3, MATCHING: 2, LATE: 2}
SOURCE_COUNTS = (3, 4)
"""The numbers of partitions of the source, one after the other, in worlds with growth."""
ROUTE = "r"
BINDINGS: list[dict[str, Any]] = [
    {"target": MATCHING, "match": {"kind": "pattern", "value": "*.a-2"}},
    {"target": MATCHING, "match": {"kind": "key", "value": "p1.b-1"}},
    {"target": LATE, "match": {"kind": "pattern", "value": "p0.#"}},
    {"target": COPIES, "match": {"kind": "all"}},
]


def wanted_targets(key: bytes) -> set[str]:
    """Return the targets by the rules of `BINDINGS`, written again."""
    matching = key.endswith(b".a-2") or key == b"p1.b-1"
    return {COPIES} | ({MATCHING} if matching else set()) | ({LATE} if key.startswith(b"p0.") else set())


class RouteWorld:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.generation = cluster, 0

    def declare(self, **changes: Any) -> None:
        """Declare the route, or change it. Repeated until the metadata log has it: a new controller does not know the row."""
        self.generation += 1
        value = {"route_id": "id", "source": SOURCE, "start": "latest", "partitions_at_start": 2, "bindings": BINDINGS}
        row = DesiredAccess("route", ROUTE, self.generation, {**value, **changes})
        deadline_us = self.cluster.world.now_us + RECOVERY_S_MAX * S
        while self.cluster.image.access_to("route", ROUTE)[0] < self.generation:
            if self.cluster.world.now_us > deadline_us:
                raise Violation("the route does not reach the metadata log")
            if self.cluster.acting is not None:
                self.cluster.deliver_desired(row)
            self.cluster.world.run(self.cluster.world.now_us + S // 5)

    def running(self, partition: int) -> Any:
        replica = leader_replica(self.cluster, SOURCE, partition)
        node = self.cluster.brokers[replica.core.leader]
        found = node.broker.routing.running.get((ROUTE, SOURCE, partition))
        return replica, None if found is None else found[0]

    def is_started(self) -> bool:
        return all(r is not None and r._committed is not None for _, r in map(self.running, range(PARTITIONS[SOURCE])))

    def is_drained(self) -> bool:
        for partition in range(self.cluster.topics[SOURCE].partitions):
            replica, running = self.running(partition)
            end = replica.log.end_offset
            if running is None or running._committed is None or running._committed.offset < end:
                return False
        return True


@contextmanager
def appends_watched(world: World) -> Iterator[None]:
    """Counts the requests of the routes and their responses."""
    send = Routing.send

    def send_and_count(self: Routing, target: Any, batch: bytes, query: Any, done: Any) -> None:
        world.reached["routed batch"] += 1
        world.reached["routed batch compressed"] += records.peek(batch).compression == GZIP

        def on_response(error: ErrorCode, found: int, at: Any) -> None:
            world.reached["routed batch in conflict"] += error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and found >= 0
            world.reached["routed batch not accepted"] += error not in (0, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
            done(error, found, at)

        send(self, target, batch, query, on_response)

    Routing.send = send_and_count  # type: ignore[method-assign]
    try:
        yield
    finally:
        Routing.send = send  # type: ignore[method-assign]


def records_of(cluster: Cluster, name: str, partition: int) -> list[Record]:
    topic = cluster.image.topic_named(name)
    assert topic is not None
    tp, leader = TopicPartition(topic.topic_id, partition), topic.partitions[partition].leader
    end = cluster.brokers[leader].broker.replica_manager.hosted[tp].core.high_watermark
    return list(records.iterate(memoryview(read_bytes(cluster, leader, tp, end))))


def verify(cluster: Cluster, world: World, history: History) -> None:
    source = {p: records_of(cluster, SOURCE, p) for p in range(cluster.topics[SOURCE].partitions)}
    places: dict[bytes, tuple[int, int, bytes]] = {
        r.value or b"": (p, r.offset, r.key or b"") for p, found in source.items() for r in found
    }
    for p in source:
        if missing := [v for v in history.acknowledged[SOURCE, p] if v not in places]:
            raise Violation(f"{SOURCE}-{p} lacks {missing[:3]}")
    for target in (COPIES, MATCHING, LATE):
        counted: Counter[bytes] = Counter()
        for partition in range(PARTITIONS[target]):
            newest: dict[int, int] = {}
            for record in records_of(cluster, target, partition):
                value = record.value or b""
                counted[value] += 1
                place = places.get(value)
                if place is None or record.key != place[2]:
                    raise Violation(f"{target}-{partition} has {value!r} with key {record.key!r}; source: {place}")
                if key_partition(place[2], PARTITIONS[target]) != partition:
                    raise Violation(f"{target}-{partition} has {value!r}, whose key belongs to another partition")
                if place[1] <= newest.get(place[0], -1):
                    raise Violation(f"{target}-{partition}: {value!r} of {place[:2]} follows offset {newest[place[0]]}")
                newest[place[0]] = place[1]
        expected = {v for v, (_, _, key) in places.items() if target in wanted_targets(key)}
        if twice := [v for v, n in counted.items() if n > 1]:
            raise Violation(f"{target} has {twice[:3]} more than once")
        if lost := expected - counted.keys():
            raise Violation(
                f"{target} lacks {sorted(lost)[:3]}, {len(lost)} records: {[places[v] for v in sorted(lost)[:3]]}"
            )
        if extra := counted.keys() - expected:
            raise Violation(f"{target} has {sorted(extra)[:3]}, which do not match")
        world.reached[f"records in {target}"] += len(expected)


def route_last_records(cluster: Cluster, routes: RouteWorld, producers: Sequence[Producer]) -> None:
    """After the last fault: until every record is routed and all replicas are equal."""
    cluster.run_until(cluster.is_settled, RECOVERY_S_MAX, "all replicas in sync after the last fault")
    for producer in producers:
        producer.stopped = True
    cluster.run_until(lambda: all(p.idle for p in producers), 20, "the last responses to the producers")
    cluster.run_until(routes.is_drained, RECOVERY_S_MAX, "all records routed and the positions committed")
    cluster.run_until(cluster.level, 20, "equal high watermarks")


def live(world: World, history: History, faults_s: float, faults_max: int | None, *, growth: bool = False) -> None:
    fault_kinds = FaultKinds.draw(world)
    world.deliver(f"fault kinds: {fault_kinds}")
    history.compacted.add(SOURCE)  # so that records have keys
    with appends_watched(world):
        cluster = Cluster(world, probes=PROBES[world.seed % 2], cold=COLD[world.seed % 3])
        InvariantChecker(cluster)
        small = {"segment_bytes": world.rng.choice(("4096", "65536"))}
        cluster.want_topic(GROUP_OFFSETS_TOPIC, 1, 3, min_insync_replicas="2", cleanup_policy="compact", **small)
        for name in (SOURCE, COPIES, MATCHING):
            cluster.want_topic(name, PARTITIONS[name], 3, min_insync_replicas="2", **small)
        cluster.run_until(cluster.is_settled, 30, "the cluster's beginning")
        routes = RouteWorld(cluster)
        routes.declare()
        cluster.run_until(routes.is_started, 30, "the first positions of the route")
        producers = [Producer(cluster, history, f"p{p}.{n}", SOURCE, p, 150) for p in range(2) for n in "ab"]
        for producer in producers[1::2]:
            producer.compression = GZIP
        world.run(world.now_us + 1 * S)
        if growth:

            def on_partitions_added(name: str, count: int) -> None:
                if not producers[0].stopped:
                    producers.append(Producer(cluster, history, f"p{count - 1}.a", SOURCE, count - 1, 150))

            TopicOperator(cluster, faults_s, (SOURCE,), SOURCE_COUNTS, on_partitions_added, {})
        injector = FaultInjector(cluster, history, fault_kinds, faults_max)
        world.run(world.now_us + int(faults_s * S / 2), lambda: injector.is_exhausted)
        cluster.want_topic(LATE, PARTITIONS[LATE], 3, min_insync_replicas="2", **small)
        routes.declare(owner="another")
        world.run(world.now_us + int(faults_s * S / 2), lambda: injector.is_exhausted)
        if injector.is_exhausted:
            world.run(world.now_us + AFTERMATH_S * S)
        injector.stop_faults()
        route_last_records(cluster, routes, producers)
        logs_agree(cluster, but=(GROUP_OFFSETS_TOPIC,))
        verify(cluster, world, history)


live_with_growth = partial(live, growth=True)
