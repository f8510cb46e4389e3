"""Worlds of a route that changes keys and reads a compacted source, under the faults of `run`. `python -m tests.simulation --route-keys`.

Each key is written several times, and compaction removes the earlier records, many of them before they are routed. Invariants: the newest record of each
key, and each other record that no leader found compacted, is exactly once in each target whose binding matches, with the key of its binding and in the
partition of this key. Records of one source partition are in order in each target partition. Does not check: changes of the definition, transactions,
retention.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from brokerd.cluster.model import GROUP_OFFSETS_TOPIC, Now, TopicPartition
from brokerd.delivery.route_partition import RoutePartition
from brokerd.runtime.routing import ReplicaRoutePort
from brokerd.wire import records
from brokerd.wire.murmur2 import key_partition
from brokerd.wire.records import Record
from tests.simulation.archive import Archive
from tests.simulation.checkers import History, InvariantChecker, Violation, logs_agree
from tests.simulation.clients import Producer
from tests.simulation.cluster import COLD, Cluster
from tests.simulation.fault_injector import AFTERMATH_S, FaultInjector, FaultKinds
from tests.simulation.routes import PARTITIONS, SOURCE, RouteWorld, appends_watched, records_of, route_last_records
from tests.simulation.run import PROBES, leader_replica
from tests.simulation.world import S, World

CHANGED, DROPPED, KEPT = "changed", "dropped", "kept"
TARGETS = {CHANGED: 3, DROPPED: 3, KEPT: 2}
HEADER = "customer"
CUSTOMERS = 7
BINDINGS = [
    {"target": CHANGED, "match": {"kind": "all"}, "key_from_header": HEADER},
    {"target": DROPPED, "match": {"kind": "pattern", "value": "p0.#"}, "drop_key": True},
    {"target": KEPT, "match": {"kind": "headers_any", "headers": [{"name": HEADER, "value": None}]}},
]
SETTINGS = {"log.cleaner.backoff.ms": "1000"}
COMPACTED = {"cleanup_policy": "compact", "segment_bytes": "2048", "min_cleanable_dirty_ratio": "0.05"}


class CustomerProducer(Producer):
    """Two of three records have the header with the new key."""

    def record(self, position: int, value: bytes) -> Record:
        made = super().record(position, value)
        number = int(value.rpartition(b":")[2])
        return made._replace(headers=((HEADER, customer_of(number)),)) if number % 3 else made


def customer_of(number: int) -> bytes:
    return b"customer-%d" % (number % CUSTOMERS)


def routed_key(target: str, record: Record) -> bytes | None:
    """The key of the copy, by the rules of `BINDINGS`, written again. Raises KeyError if the record does not match."""
    customer = dict(record.headers).get(HEADER)
    match target:
        case "changed":
            return customer if customer is not None else record.key
        case "dropped" if (record.key or b"").startswith(b"p0."):
            return None
        case "kept" if customer is not None:
            return record.key
    raise KeyError(target)


@contextmanager
def compaction_watched(world: World) -> Iterator[dict[int, set[int]]]:
    """{source partition: offsets that a leader of it did not find in the log when it read there}"""
    read, missing = RoutePartition._read_records, defaultdict[int, set[int]](set)
    port_read = ReplicaRoutePort.read
    reading: list[RoutePartition] = []

    def watch_records(self: RoutePartition, now: Now) -> None:
        reading.append(self)
        try:
            read(self, now)
        finally:
            reading.pop()

    def watch_read(self: ReplicaRoutePort, offset: int, bytes_max: int, upto: int) -> bytes | memoryview | None:
        data = port_read(self, offset, bytes_max, upto)
        if data is not None and reading:
            found = [(h.base_offset, h.next_offset) for _, h in records.batches(memoryview(data))]
            present = {r.offset for r in records.iterate(memoryview(data))}
            end = found[-1][1] if found else upto
            gone = set(range(offset, end)) - present
            missing[reading[-1]._partition] |= gone
            world.reached["records compacted before they were routed"] += len(gone)
        return data

    RoutePartition._read_records = watch_records  # type: ignore[method-assign]
    ReplicaRoutePort.read = watch_read  # type: ignore[method-assign]
    try:
        yield missing
    finally:
        RoutePartition._read_records = read  # type: ignore[method-assign]
        ReplicaRoutePort.read = port_read  # type: ignore[method-assign]


def committed_source_records(cluster: Cluster) -> dict[bytes, tuple[int, Record]]:
    """{value: (partition, record)} of each committed record that ever was in the source."""
    topic = cluster.image.topic_named(SOURCE)
    assert topic is not None and cluster.archive is not None
    return {
        r.value or b"": (p, r)
        for p in range(PARTITIONS[SOURCE])
        for r in records.iterate(memoryview(cluster.archive.batches_of(TopicPartition(topic.topic_id, p))))
    }


def verify(cluster: Cluster, world: World, compacted: dict[int, set[int]]) -> None:
    source = committed_source_records(cluster)
    newest: dict[tuple[int, bytes | None], int] = {}
    for p, r in source.values():
        newest[p, r.key] = max(r.offset, newest.get((p, r.key), -1))
    required = {v for v, (p, r) in source.items() if r.offset not in compacted[p] or newest[p, r.key] == r.offset}
    for target, count in TARGETS.items():
        counted: Counter[bytes] = Counter()
        for partition in range(count):
            last: dict[int, int] = {}
            for copy in records_of(cluster, target, partition):
                value = copy.value or b""
                counted[value] += 1
                if value not in source:
                    raise Violation(f"{target}-{partition} has {value!r}, which is not in the source")
                p, original = source[value]
                try:
                    key = routed_key(target, original)
                except KeyError:
                    raise Violation(f"{target}-{partition} has {value!r}, which does not match") from None
                if copy.key != key:
                    raise Violation(f"{target}-{partition} has {value!r} with key {copy.key!r} instead of {key!r}")
                if partition != (key_partition(key, count) if key else p % count):
                    raise Violation(f"{target}-{partition} has {value!r}, whose key {key!r} belongs elsewhere")
                if original.offset <= last.get(p, -1):
                    raise Violation(f"{target}-{partition}: {value!r} at {original.offset} follows offset {last[p]}")
                last[p] = original.offset
        if twice := [v for v, n in counted.items() if n > 1]:
            raise Violation(f"{target} has {twice[:3]} more than once")
        missing = [v for v in sorted(required - counted.keys()) if matches(target, source[v][1])]
        if missing:
            raise Violation(f"{target} lacks {missing[:3]}, {len(missing)} records: {[source[v] for v in missing[:3]]}")
        world.reached[f"records in {target}"] += len(counted)
    world.reached["records that compaction took"] += len(source) - len(required)


def matches(target: str, record: Record) -> bool:
    try:
        routed_key(target, record)
    except KeyError:
        return False
    return True


def live(world: World, history: History, faults_s: float, faults_max: int | None) -> None:
    fault_kinds = FaultKinds.draw(world)
    world.deliver(f"fault kinds: {fault_kinds}")
    history.compacted.add(SOURCE)
    with appends_watched(world), compaction_watched(world) as compacted:
        cluster = Cluster(world, settings=SETTINGS, probes=PROBES[world.seed % 2], cold=COLD[world.seed % 3])
        InvariantChecker(cluster)
        cluster.archive = Archive(cluster, (SOURCE,))
        small = {"segment_bytes": world.rng.choice(("4096", "65536"))}
        cluster.want_topic(GROUP_OFFSETS_TOPIC, 1, 3, min_insync_replicas="2", cleanup_policy="compact", **small)
        cluster.want_topic(SOURCE, PARTITIONS[SOURCE], 3, min_insync_replicas="2", **COMPACTED)
        for name in (DROPPED, KEPT):
            cluster.want_topic(name, TARGETS[name], 3, min_insync_replicas="2", **small)
        cluster.run_until(cluster.is_settled, 30, "the cluster's beginning")
        routes = RouteWorld(cluster)
        routes.declare(bindings=BINDINGS)
        cluster.run_until(routes.is_started, 30, "the first positions of the route")
        producers = [CustomerProducer(cluster, history, f"p{p}.{n}", SOURCE, p, 150) for p in range(2) for n in "ab"]
        world.run(world.now_us + 1 * S)
        injector = FaultInjector(cluster, history, fault_kinds, faults_max)
        world.run(world.now_us + int(faults_s * S / 2), lambda: injector.is_exhausted)
        # The position does not pass the records of the missing target, so the other half of the run starts behind compaction.
        cluster.want_topic(CHANGED, TARGETS[CHANGED], 3, min_insync_replicas="2", **small)
        world.run(world.now_us + int(faults_s * S / 2), lambda: injector.is_exhausted)
        if injector.is_exhausted:
            world.run(world.now_us + AFTERMATH_S * S)
        injector.stop_faults()
        route_last_records(cluster, routes, producers)
        logs_agree(cluster, but=(GROUP_OFFSETS_TOPIC, SOURCE))
        for p in range(PARTITIONS[SOURCE]):
            present = {v for v, (at, _) in committed_source_records(cluster).items() if at == p}
            if lost := [v for v in history.acknowledged[SOURCE, p] if v not in present]:
                raise Violation(
                    f"{SOURCE}-{p} lacks {lost[:3]} up to {leader_replica(cluster, SOURCE, p).core.high_watermark}"
                )
        verify(cluster, world, compacted)
