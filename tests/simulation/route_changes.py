"""Worlds of routes whose source and targets change: producers and transactions write to the source, retention deletes its records, targets get more
partitions, one target is created late, and the route is disabled for a while, under the faults of `run`.
`python -m tests.simulation --route-changes`.

Invariants: each committed record of the source is exactly once in each target whose binding matches, and in no other target, unless retention
deleted it before it was routed. Records of aborted transactions are in no target. A record is in the partition of its key, for a number of partitions
that the target has had. Records of one source partition are in order in each target partition. Only records that a leader found deleted, and
counted, are missing. Does not check: changes of the keys by the route, compaction.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from brokerd.cluster.model import GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, Now, TopicPartition
from brokerd.delivery.route_partition import RoutePartition
from brokerd.wire import records
from brokerd.wire.murmur2 import key_partition
from tests.simulation.archive import Archive
from tests.simulation.checkers import History, InvariantChecker, Violation, logs_agree
from tests.simulation.clients import Producer
from tests.simulation.cluster import COLD, Cluster
from tests.simulation.exactly_once import DECIDED_S, SETTINGS, is_decided
from tests.simulation.fault_injector import AFTERMATH_S, FaultInjector, FaultKinds
from tests.simulation.routes import (
    COPIES,
    LATE,
    MATCHING,
    PARTITIONS,
    SOURCE,
    RouteWorld,
    appends_watched,
    records_of,
    wanted_targets,
)
from tests.simulation.run import PROBES, RECOVERY_S_MAX
from tests.simulation.transactors import Ledger, Place, Transactor, decided_records
from tests.simulation.world import S, World

GROWN = {COPIES: (3, 5, 6), MATCHING: (2, 4), LATE: (2, 3)}
"""The numbers of partitions of each target, one after the other."""
RETENTIONS = ("3000", "12000", "-1")
"""retention.bytes of the source: below what a target that is missing for half of the run needs, about as much, and without a limit."""
DISABLED_S = 3
FAULTS_S_MAX = 14
"""Shorter than other worlds: each has many batches."""


class RoutedTransactor(Transactor):
    topic = SOURCE

    def value_of(self, place: Place, index: int) -> bytes:
        """Another one for each source partition."""
        return b"%s:%d" % (super().value_of(place, index), place[1])


@contextmanager
def losses_watched(world: World) -> Iterator[dict[int, set[int]]]:
    """{source partition: offsets that a leader of it found deleted before it had read them}"""
    read, lost = RoutePartition._read_records, defaultdict[int, set[int]](set)

    def read_and_count(self: RoutePartition, now: Now) -> None:
        before, count = self._next_offset, self.lost
        start = self._port.start_offset
        read(self, now)
        if start > before:
            if self.lost - count < start - before:
                raise Violation(f"deleted records {before} to {start} are not counted as lost")
            lost[self._partition].update(range(before, start))
            world.reached["records deleted before they were routed"] += 1

    RoutePartition._read_records = read_and_count  # type: ignore[method-assign]
    try:
        yield lost
    finally:
        RoutePartition._read_records = read  # type: ignore[method-assign]


class Operator:
    """Lets targets grow, creates the late one, and disables the route for a while, at times of the seed."""

    def __init__(self, cluster: Cluster, routes: RouteWorld, small: dict[str, str], duration_s: float) -> None:
        self.cluster, self.world, self.routes, self.small = cluster, cluster.world, routes, small
        half_us = int(duration_s * S / 2)
        self._call_later(half_us, half_us, self._create)
        for name, counts in GROWN.items():
            for count in counts[1:]:
                self._call_later(half_us if name == LATE else 0, 2 * half_us, lambda n=name, c=count: self._grow(n, c))  # type: ignore[misc]
        self.waiting: list[bool] = []
        """Changes of the route that the metadata log does not have yet: the enabled flag of each."""
        at_us = self.world.between(0, 2 * half_us - DISABLED_S * S)
        self._call_later(at_us, at_us, lambda: self.waiting.append(False))
        self._call_later(at_us + DISABLED_S * S, at_us + DISABLED_S * S, lambda: self.waiting.append(True))

    def _call_later(self, low_us: int, high_us: int, change: Any) -> None:
        self.world.after(self.world.between(low_us, high_us), change)

    def _create(self) -> None:
        self.cluster.want_topic(LATE, PARTITIONS[LATE], 3, min_insync_replicas="2", **self.small)

    def _grow(self, name: str, count: int) -> None:
        if name in self.cluster.topics and self.cluster.topics[name].partitions < count:
            self.world.deliver(f"{name} grows to {count} partitions")
            self.world.reached["target grows"] += 1
            self.cluster.grow_topic(name, count)

    def apply(self) -> None:
        while self.waiting:
            enabled = self.waiting.pop(0)
            self.world.deliver(f"the route is {'enabled' if enabled else 'disabled'}")
            self.routes.declare(enabled=enabled)


def places_of(cluster: Cluster) -> tuple[dict[bytes, tuple[int, int, bytes]], set[bytes]]:
    """({value: (partition, offset, key)} of each committed record of the source that ever was, values of aborted ones)"""
    topic = cluster.image.topic_named(SOURCE)
    assert topic is not None and cluster.archive is not None
    places: dict[bytes, tuple[int, int, bytes]] = {}
    aborted: set[bytes] = set()
    for p in range(PARTITIONS[SOURCE]):
        committed, ended = decided_records(cluster, (SOURCE, p))
        stands = {offset for offset, _ in committed}
        aborted |= {v for _, v in ended}
        data = cluster.archive.batches_of(TopicPartition(topic.topic_id, p))
        for at, header in records.batches(data):
            if not header.is_control:
                for r in records.records_of(data, at, header):
                    if r.offset in stands:
                        places[r.value or b""] = (p, r.offset, r.key or b"")
    return places, aborted - places.keys()


def verify(
    cluster: Cluster,
    world: World,
    lost: dict[int, set[int]],
    targets: Mapping[str, tuple[int, ...]] = MappingProxyType(GROWN),
    routed_key: Callable[[str, bytes, bytes], bytes] = lambda target, value, key: key,
) -> None:
    """`targets`: the numbers of partitions that each has had; one that is not in `GROWN` gets all records. `routed_key`: the key of a copy, by target, value and key."""
    places, aborted = places_of(cluster)
    for target, counts in targets.items():
        found: Counter[bytes] = Counter()
        for partition in range(cluster.topics[target].partitions):
            newest: dict[int, int] = {}
            for record in records_of(cluster, target, partition):
                value = record.value or b""
                found[value] += 1
                if value in aborted:
                    raise Violation(f"{target}-{partition} has {value!r} of an aborted transaction")
                place = places.get(value)
                key = None if place is None else routed_key(target, value, place[2])
                if place is None or key is None or record.key != key:
                    raise Violation(f"{target}-{partition} has {value!r} with key {record.key!r}; source: {place}")
                if partition not in {key_partition(key, n) for n in counts}:
                    raise Violation(f"{target}-{partition} has {value!r}, whose key belongs to another partition")
                if place[1] <= newest.get(place[0], -1):
                    raise Violation(f"{target}-{partition}: {value!r} of {place[:2]} follows offset {newest[place[0]]}")
                newest[place[0]] = place[1]
        expected = {v for v, (_, _, key) in places.items() if target not in GROWN or target in wanted_targets(key)}
        if twice := [v for v, n in found.items() if n > 1]:
            raise Violation(f"{target} has {twice[:3]} more than once, of {[places[v] for v in twice[:3]]}")
        missing = [v for v in sorted(expected - found.keys()) if places[v][1] not in lost[places[v][0]]]
        if missing:
            raise Violation(f"{target} lacks {missing[:3]}, {len(missing)} records: {[places[v] for v in missing[:3]]}")
        if extra := found.keys() - expected:
            raise Violation(f"{target} has {sorted(extra)[:3]}, which do not match")
        world.reached[f"records in {target}"] += len(found)
        world.reached["records that retention took"] += len(expected - found.keys())
    world.reached["aborted records"] += len(aborted)


def live(world: World, history: History, faults_s: float, faults_max: int | None) -> None:
    fault_kinds, faults_s = FaultKinds.draw(world), min(faults_s, FAULTS_S_MAX)
    kind, retention = world.rng.choice((1, 2)), world.rng.choice(RETENTIONS)
    world.deliver(f"fault kinds: {fault_kinds}; transactions of kind {kind}, retention.bytes {retention}")
    history.compacted.add(SOURCE)  # so that records have keys
    with appends_watched(world), losses_watched(world) as lost:
        settings = {**SETTINGS, "log.retention.check.interval.ms": "1000"}
        cluster = Cluster(world, settings=settings, probes=PROBES[world.seed % 2], cold=COLD[world.seed % 3])
        InvariantChecker(cluster)
        cluster.archive = Archive(cluster, (SOURCE,))
        small = {"segment_bytes": world.rng.choice(("4096", "65536"))}
        for name in (GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC):
            cluster.want_topic(name, 1, 3, min_insync_replicas="2", cleanup_policy="compact", **small)
        cluster.want_topic(
            SOURCE, PARTITIONS[SOURCE], 3, min_insync_replicas="2", segment_bytes="2048", retention_bytes=retention
        )
        for name in (COPIES, MATCHING):
            cluster.want_topic(name, PARTITIONS[name], 3, min_insync_replicas="2", **small)
        cluster.run_until(cluster.is_settled, 30, "the cluster's beginning")
        routes = RouteWorld(cluster)
        routes.declare()
        cluster.run_until(routes.is_started, 30, "the first positions of the route")
        producers = [Producer(cluster, history, f"p{p}.{n}", SOURCE, p, 150) for p in range(2) for n in "ab"]
        transactors = [RoutedTransactor(cluster, Ledger(), f"p{n}.t", f"id-{n}", kind) for n in (0, 1)]
        world.run(world.now_us + 1 * S)
        operator = Operator(cluster, routes, small, faults_s)
        injector = FaultInjector(cluster, history, fault_kinds, faults_max)
        end_us = world.now_us + int(faults_s * S)
        while world.now_us < end_us and not injector.is_exhausted:
            world.run(end_us, lambda: injector.is_exhausted or bool(operator.waiting))
            operator.apply()
        if injector.is_exhausted:
            world.run(max(end_us, world.now_us + AFTERMATH_S * S))
        operator.apply()
        injector.stop_faults()
        cluster.run_until(cluster.is_settled, RECOVERY_S_MAX, "all replicas in sync after the last fault")
        for producer in producers:
            producer.stopped = True
        for transactor in transactors:
            transactor.stopped = True
        cluster.run_until(
            lambda: all(p.idle for p in producers) and all(t.idle for t in transactors),
            40,
            "the last responses to the producers",
        )
        sources = [(SOURCE, p) for p in range(PARTITIONS[SOURCE])]
        cluster.run_until(
            lambda: all(is_decided(cluster, s) for s in sources), DECIDED_S, "every transaction to be decided"
        )
        cluster.run_until(routes.is_drained, RECOVERY_S_MAX, "all records routed and the positions committed")
        cluster.run_until(cluster.level, 20, "equal high watermarks")
        logs_agree(cluster, but=(GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC))
        cluster.archive.check_logs()
        verify(cluster, world, lost)
