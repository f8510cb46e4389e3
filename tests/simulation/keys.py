"""Worlds of look-ups by key: keyed records in topics with `weir.index.keys`, small segments, the faults of `run`, records that are written to leaders of
an earlier epoch and truncated later, retention, compaction, DeleteRecords, and operators who change the index. `python -m tests.simulation --keys`.

Invariants, for each response of a broker (`LookupWatch`): newest first, each match is a committed record of the log that matches the query, and no
such record is missing in the offset range that the response covers. The end of the range does not go back from a response to a later one, not after an
election either. The reference is a scan of the bytes of the segment files, without sparse indexes.
At the end (`indexes_agree`): each closed segment of each replica has an index, each active one is indexed but for its last PART_BYTES, and the search of
each key with these indexes finds what a scan finds. Active segments are indexed in small parts, with few entries in memory.
Does not check transactions (unit tests do).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from crc32c import crc32c

from brokerd.apis import key_lookups
from brokerd.apis.fetch_sessions import PartitionRequest
from brokerd.apis.key_lookups import KeyLookupServer, PartitionKeyLookup
from brokerd.cluster.model import TopicPartition
from brokerd.maintenance import key_indexing, segment_indexing
from brokerd.replication.replica import Replica
from brokerd.storage.appended_keys import AppendedKeys, CollectedRange
from brokerd.storage.key_index import header_seed
from brokerd.storage.key_search import KeyCriteria, SegmentSearch, SegmentView
from brokerd.storage.segment import IndexFileState, Segment
from brokerd.wire import records, versioned
from brokerd.wire.apis import ApiKey
from brokerd.wire.compression import GZIP, NONE
from brokerd.wire.messages import DeleteRecordsRequest, FetchRequest, FetchResponse, ProduceRequest
from brokerd.wire.messages.key_lookups import VERSION, KeyLookupRequest, KeyLookupResponse, LookupStop
from brokerd.wire.records import Record
from brokerd.wire.steps import Steps
from tests.simulation.checkers import History, InvariantChecker, Violation, logs_agree
from tests.simulation.clients import Client
from tests.simulation.cluster import COLD, Cluster
from tests.simulation.fault_injector import FaultInjector, FaultKinds
from tests.simulation.run import PROBES, RECOVERY_S_MAX, leader_replica
from tests.simulation.world import S, World

PLAIN, COMPACTED = "orders", "latest"
PLACES = ((PLAIN, 0), (COMPACTED, 0))
SETTINGS = {"log.retention.check.interval.ms": "1000", "log.cleaner.backoff.ms": "1500"}
HEADER = "customer"
KEYS, CUSTOMERS = 24, 5
COMPRESSED_EVERY = 7
"""The number of batches of a producer per compressed one."""
INDEX = {"weir_index_keys": "true", "weir_index_header": HEADER}
CHANGES = (
    {"weir_index_keys": "false"},
    {"weir_index_keys": "true"},
    {"weir_index_header": ""},
    {"weir_index_header": HEADER},
    {"segment_bytes": "4096"},
)
PART_BYTES, ENTRIES_MAX = 250, 40
ROUND_MS, RETRY_MS = 200, 1_000
"""Indexing in virtual time: a truncation must find indexes, and a world has 25 seconds."""
UNBOUNDED = 1 << 40
FINAL_MATCHES = 5
"""Matches of one response of a query at the end."""
FINAL = (("", b"k0"), ("", b"k7"), ("", b"none"), (HEADER, b"c2"))
READ_COMMITTED = 1
FINAL_DURATION_MS = 2_000
"""Shorter than the time-out of a client, which would otherwise send a long look-up again and again."""


# -- the reference ---------------------------------------------------------------------------------------------------------
class LogScan:
    """Reads all records of a log from the bytes of its segment files. Decoded files are kept by content."""

    def __init__(self) -> None:
        self._decoded: dict[tuple[int, int, int], tuple[Record, ...]] = {}

    def records_of(self, replica: Replica) -> dict[int, Record]:
        """{offset: record}, from the log start to the log end."""
        found: dict[int, Record] = {}
        for segment in replica.log.segments:
            found.update({r.offset: r for r in self.segment(segment) if r.offset >= replica.log.start_offset})
        return found

    def segment(self, segment: Segment) -> tuple[Record, ...]:
        disk: Any = segment.disk
        data = bytes(disk.names[segment.path].live[: segment.size])
        content = (segment.base_offset, len(data), crc32c(data))
        if content not in self._decoded:
            self._decoded[content] = tuple(
                r
                for pos, header in records.batches(data)
                if not header.is_control
                for r in records.records_of(data, pos, header)
            )
        return self._decoded[content]


def matches_query(query: KeyLookupRequest, record: Record) -> bool:
    if query.header_name:
        if (query.header_name, query.key) not in record.headers:
            return False
    elif record.key != query.key:
        return False
    return record.timestamp >= query.from_ms and (query.to_ms < 0 or record.timestamp <= query.to_ms)


@dataclass(slots=True)
class LookupWatch:
    """Compares each response with the log of its leader, as the log was when the look-up began and when it ended."""

    world: World
    scan: LogScan
    history: History | None = None
    ends: dict[str, int] = field(default_factory=dict)
    """{partition: the largest end offset of a response}"""
    begun: dict[int, tuple[dict[int, Record], int]] = field(default_factory=dict)
    """{id of a look-up in progress: (records of the log, largest end offset) at its start}"""

    @contextmanager
    def patch_lookups(self) -> Iterator[None]:
        search, finish = KeyLookupServer._part, KeyLookupServer._finish
        add, removed = key_lookups._add, Segment.remove_key_index
        take = AppendedKeys.take
        watch = self

        def take_and_count(appended: AppendedKeys, position: int) -> CollectedRange | None:
            collected = take(appended, position)
            if collected is not None:
                whole = not collected.start and collected.end == position
                watch.world.reached["entries collected by appends"] += 1
                watch.world.reached["all entries of a segment collected by appends"] += whole
            return collected

        def part_and_check(
            server: KeyLookupServer, send_request: PartitionRequest, *, committed: bool
        ) -> Steps[PartitionKeyLookup]:
            replica = send_request.replica
            first = watch._records(replica) if replica is not None else {}
            end = watch.ends.get(replica.name, 0) if replica is not None else 0
            found = yield from search(server, send_request, committed=committed)
            watch.begun[id(found)] = first, end
            return found

        def on_finished(
            server: KeyLookupServer, found: PartitionKeyLookup, committed: bool, done: Callable[[], None]
        ) -> None:
            def on_checked() -> None:
                first, end = watch.begun.pop(id(found))
                if found.data.key_lookup:
                    assert found.request.replica is not None
                    watch._check(found.request.replica, found.request, found.data, first, end)
                done()

            finish(server, found, committed, on_checked)

        def search_and_count(lookup: Any, segment: Segment, job: SegmentSearch) -> None:
            if job.part is not None and job.used_index:
                watch.world.reached["look-up in a part of an index"] += 1
                watch.world.reached["look-up in runs of a part"] += bool(job.part.runs)
                watch.world.reached["look-up with a part of an index and matches"] += bool(job.matches)
            add(lookup, segment, job)

        def remove_and_count(segment: Segment) -> None:
            if segment.key_index is IndexFileState.CURRENT:
                watch.world.reached["key index removed"] += 1
            if segment.key_index_part is not None:
                watch.world.reached["part of a key index removed"] += 1
            removed(segment)

        with ExitStack() as stack:
            for where, name, value in (
                (KeyLookupServer, "_part", part_and_check),
                (KeyLookupServer, "_finish", on_finished),
                (key_lookups, "_add", search_and_count),
                (Segment, "remove_key_index", remove_and_count),
                (segment_indexing, "ROUND_MS_MIN", ROUND_MS),
                (segment_indexing, "RETRY_MS", RETRY_MS),
                (key_indexing, "PART_BYTES", PART_BYTES),
                (key_indexing, "ENTRIES_MAX", ENTRIES_MAX),
                (key_indexing, "COLLECTS_APPENDED", True),
                (AppendedKeys, "take", take_and_count),
            ):
                stack.enter_context(patch.object(where, name, value))
            yield

    def _records(self, replica: Replica) -> dict[int, Record]:
        """The scan costs no time of the broker."""
        spent_us = self.world.spent_us
        try:
            return self.scan.records_of(replica)
        finally:
            self.world.spent_us = spent_us

    def _may_lose_records(self, replica: Replica) -> bool:
        """With one in-sync replica, a power failure or a failed disk may lose records that were exposed."""
        return bool(self.history and self.history.unpromised) and replica.config.min_insync_replicas < 2

    def _check(
        self,
        replica: Replica,
        send_request: PartitionRequest,
        data: FetchResponse.PartitionData,
        first: dict[int, Record],
        end: int,
    ) -> None:
        query = versioned.decode(KeyLookupRequest, send_request.requested.key_lookup, VERSION)
        response = versioned.decode(KeyLookupResponse, data.key_lookup, VERSION)
        name = f"{replica.name}: the look-up of {query.key!r} {query.header_name}"
        offsets = [m.offset for m in response.matches]
        if offsets != sorted(set(offsets), reverse=True) or len(offsets) > query.matches_max:
            raise Violation(f"{name} has the offsets {offsets}, not newest first")
        if response.end_offset < end and not self._may_lose_records(replica):
            raise Violation(f"{name} ends at {response.end_offset}, an earlier response ended at {end}")
        self.ends[replica.name] = max(self.ends.get(replica.name, 0), response.end_offset)
        low = response.start_offset if response.stop == LookupStop.LOG_START else response.next_before_offset
        high = response.end_offset if query.before_offset < 0 else min(query.before_offset, response.end_offset)
        for match in response.matches:
            found = Record(
                match.offset, match.timestamp, match.key, match.value, tuple((h.name, h.value) for h in match.headers)
            )
            if first.get(match.offset) != found or not matches_query(query, found) or not low <= match.offset < high:
                raise Violation(f"{name} found {found}, the log has {first.get(match.offset)}, range {low} to {high}")
        last = self._records(replica)
        wanted = {o for o, r in last.items() if low <= o < high and matches_query(query, r)}
        if missing := sorted(wanted - set(offsets)):
            raise Violation(f"{name} from {low} to {high} misses {missing}, which a scan finds; it found {offsets}")
        reached = self.world.reached
        reached["look-up with an index"] += response.segments_indexed > 0
        reached["look-up with an index and matches"] += response.segments_indexed > 0 and bool(offsets)
        reached["look-up that scanned closed segments"] += response.segments_scanned > 1
        reached["look-up to be continued"] += response.stop != LookupStop.LOG_START


def indexes_agree(cluster: Cluster, scan: LogScan) -> None:
    """The search of each segment of each replica with its index, or with the part of it, finds all records of each key, and of each header value."""
    for node, replica, segment, active in segments(cluster):
        by_key: dict[tuple[str, bytes], list[int]] = {("", b"none"): []}
        for record in scan.segment(segment):
            assert record.key is not None
            by_key.setdefault(("", record.key), []).insert(0, record.offset)
            if replica.config.index_header:
                by_key.setdefault((HEADER, dict(record.headers)[HEADER] or b""), []).insert(0, record.offset)
        for (header, key), expected in by_key.items():
            seed = None if active else header_seed(replica.config.index_header)
            search = SegmentSearch(
                SegmentView.of(segment, active=active),
                KeyCriteria(key, header),
                segment.end_offset,
                len(expected) + 1,
                UNBOUNDED,
                seed,
                segment.key_index_part,
            )
            search.run()
            found = [r.offset for r in search.matches]
            if search.used_index != (not active or segment.key_index_part is not None):
                raise Violation(f"{replica.name} on {node}: no valid index of {segment}: {search.index_problem}")
            if found != expected:
                raise Violation(f"{replica.name} on {node}: the index of {segment} finds {found}, a scan {expected}")


def segments(cluster: Cluster) -> Iterator[tuple[str, Replica, Segment, bool]]:
    """(name of the broker, replica, segment, whether it is the active one)."""
    for node in cluster.brokers.values():
        for replica in node.broker.replica_manager.hosted.values():
            for segment in replica.log.segments if replica.topic in (PLAIN, COMPACTED) else ():
                if segment.size:
                    yield node.name, replica, segment, segment is replica.log.segments[-1]


def all_indexed(cluster: Cluster) -> bool:
    def indexed_end(segment: Segment) -> int:
        part = segment.key_index_part
        return part.log_end if part is not None else 0

    return all(
        s.size - indexed_end(s) < PART_BYTES if active else s.key_index is IndexFileState.CURRENT
        for _, _, s, active in segments(cluster)
    )


# -- clients ---------------------------------------------------------------------------------------------------------------
class KeyProducer(Client):
    """Writes keyed records, mostly with acks=1 and never twice. A leader of an earlier epoch accepts them, and truncates them later."""

    def __init__(self, cluster: Cluster, history: History, name: str, place: tuple[str, int]) -> None:
        super().__init__(cluster, name)
        self.history, self.place = history, place
        self.number = self.batches = 0
        self.idle = False
        self.enter(self._next)

    def _next(self) -> None:
        if self.stopped:
            self.idle = True
            return
        leader = self.leaders.get(self.place)
        if leader is None:
            self.refresh(lambda: self.call_later(self._next))
            return
        batch = [self._record(i) for i in range(self.world.between(1, 4))]
        self.batches += 1
        codec = NONE if self.batches % COMPRESSED_EVERY else GZIP
        data = bytes(records.build(batch, compression=codec))
        part = ProduceRequest.PartitionProduceData(index=self.place[1], records=data)
        topics = [ProduceRequest.TopicProduceData(name=self.place[0], partition_data=[part])]
        body = ProduceRequest(acks=-1 if self.world.chance(0.2) else 1, timeout_ms=1_000, topic_data=topics)
        self.send_request(leader, ApiKey.PRODUCE, 9, body, self._on_response)

    def _record(self, offset: int) -> Record:
        self.number += 1
        key = b"k%d" % self.world.between(0, KEYS - 1)
        headers = ((HEADER, b"c%d" % self.world.between(0, CUSTOMERS - 1)), ("other", b"c1"))
        width = self.world.between(1, 120)
        return Record(offset, self.clock().wall_ms, key, f"{self.name}:{self.number:0{width}d}".encode(), headers)

    def _on_response(self, body: Any) -> None:
        if body is None or body.responses[0].partition_responses[0].error_code:
            self.leaders.pop(self.place, None)
        else:
            self.history.acks += 1
        self.call_later(self._next, self.world.between(1, 120))


class KeySearcher(Client):
    """Asks the broker that it believes to lead. It continues incomplete look-ups, and deletes old records from time to time."""

    def __init__(
        self, cluster: Cluster, name: str, place: tuple[str, int], *, deletes: float, on_delete: Callable[[int], None]
    ) -> None:
        """`on_delete`: called with the new log start offset of each DeleteRecords request."""
        super().__init__(cluster, name)
        self.place, self.deletes, self.on_delete = place, deletes, on_delete
        self.found: list[int] = []
        """Offsets of the current look-up, over all its responses."""
        self.complete: list[tuple[KeyLookupRequest, list[int]]] = []
        self.queries: list[KeyLookupRequest] = []
        """To be asked next, before random ones."""
        self.last: list[KeyLookupRequest] = []
        """The queries of the end: their responses are compared with one scan."""
        self.enter(self._next)

    def _next(self) -> None:
        if self.stopped and not self.queries:
            return
        self.found = []
        if self.queries:
            self._send_request(self.queries.pop())
        elif self.world.chance(self.deletes):
            self._delete()
        else:
            self._send_request(self._query())

    @property
    def all_responded(self) -> bool:
        return all(any(q is last for q, _ in self.complete) for last in self.last)

    def _query(self) -> KeyLookupRequest:
        rng, by_header = self.world.rng, self.world.chance(0.3)
        key = b"c%d" % rng.randrange(CUSTOMERS + 1) if by_header else b"k%d" % rng.randrange(KEYS + 1)
        now_ms = self.clock().wall_ms
        return KeyLookupRequest(
            key=key,
            header_name=HEADER if by_header else "",
            from_ms=now_ms - rng.randrange(15_000) if self.world.chance(0.2) else -1,
            to_ms=now_ms - rng.randrange(15_000) if self.world.chance(0.2) else -1,
            matches_max=rng.choice((1, 3, 100)),
            bytes_max=rng.choice((1, 5_000, UNBOUNDED)),
            duration_ms_max=rng.choice((100, 5_000)),
        )

    def _send_request(self, query: KeyLookupRequest) -> None:
        leader = self.leaders.get(self.place)
        if leader is None:
            self.refresh(lambda: self.call_later(lambda: self._send_request(query)))
            return
        wanted = FetchRequest.FetchPartition(
            partition=self.place[1],
            fetch_offset=0,
            partition_max_bytes=0,
            key_lookup=versioned.encode(query, VERSION),
        )
        topics = [FetchRequest.FetchTopic(topic=self.place[0], partitions=[wanted])]
        body = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=0, isolation_level=READ_COMMITTED, topics=topics)
        self.send_request(leader, ApiKey.FETCH, 12, body, lambda response: self._on_response(query, response))

    def _on_response(self, query: KeyLookupRequest, body: Any) -> None:
        part = body.responses[0].partitions[0] if body is not None and body.responses else None
        if part is None or part.error_code:
            self.leaders.pop(self.place, None)
            # A look-up that takes longer than the time-out of this client never ends. At the end only the last queries are sent again.
            replaced = self.stopped and not any(query is last for last in self.last)
            self.call_later(self._next if replaced else lambda: self._send_request(query))
            return
        response = versioned.decode(KeyLookupResponse, part.key_lookup, VERSION)
        self.found += [m.offset for m in response.matches]
        if response.stop == LookupStop.LOG_START:
            self.complete.append((query, self.found))
        elif any(query is last for last in self.last) if self.stopped else self.world.chance(0.7):
            query.before_offset = response.next_before_offset
            self.call_later(lambda: self._send_request(query), 1)
            return
        self.call_later(self._next, 1 if self.queries else self.world.between(20, 400))

    def _delete(self) -> None:
        leader, topic = self.leaders.get(self.place), self.cluster.image.topic_named(self.place[0])
        if leader is None or topic is None:
            self.call_later(self._next)
            return
        hosted = self.cluster.brokers[leader].broker.replica_manager.hosted.get(TopicPartition(topic.topic_id, 0))
        start, end = (hosted.start_offset, hosted.core.high_watermark) if hosted is not None else (0, 0)
        r = DeleteRecordsRequest
        part = r.DeleteRecordsPartition(partition_index=0, offset=start + max(0, end - start) // 3)
        self.on_delete(part.offset)
        body = r(topics=[r.DeleteRecordsTopic(name=self.place[0], partitions=[part])], timeout_ms=2_000)
        self.send_request(leader, ApiKey.DELETE_RECORDS, 2, body, lambda response: self.call_later(self._next))


class KeyFaultInjector(FaultInjector):
    """Adds operators who switch the index on and off, and change its record header."""

    def __init__(self, cluster: Cluster, history: History, fault_kinds: FaultKinds, faults_max: int | None) -> None:
        super().__init__(cluster, history, fault_kinds, faults_max)
        self._kinds += [self._change_index] * 3

    def _change_index(self) -> None:
        name, configs = self.world.rng.choice((PLAIN, COMPACTED)), self.world.rng.choice(CHANGES)
        self.world.deliver(f"an operator changes {name}: {configs}")
        self.cluster.change_topic(name, **configs)


# -- the world -------------------------------------------------------------------------------------------------------------
class KeyWorld:
    """A world of look-ups by key. `keys_remote` has one with tiered storage."""

    final_matches = FINAL_MATCHES

    def __init__(self, world: World) -> None:
        self.world = world
        self.scan = LogScan()

    def watch(self, history: History) -> LookupWatch:
        return LookupWatch(self.world, self.scan, history)

    @property
    def settings(self) -> dict[str, str]:
        return SETTINGS

    def plain_configs(self) -> dict[str, str]:
        return {"min_insync_replicas": "1", "retention_bytes": self.world.rng.choice(("20000", "60000"))}

    def injector(
        self, cluster: Cluster, history: History, fault_kinds: FaultKinds, faults_max: int | None
    ) -> KeyFaultInjector:
        return KeyFaultInjector(cluster, history, fault_kinds, faults_max)

    def on_topics_created(self, cluster: Cluster) -> None:
        """The topics exist."""

    def on_delete(self, offset: int) -> None:
        """A client requests the deletion of the records of the plain topic below the offset."""

    def check_logs(self, cluster: Cluster) -> None:
        logs_agree(cluster, but=(COMPACTED,))

    def live(self, history: History, faults_s: float, faults_max: int | None) -> None:
        world, scan = self.world, self.scan
        fault_kinds = FaultKinds.draw(world)
        world.deliver(f"fault_kinds: {fault_kinds}")
        with self.watch(history).patch_lookups():
            cluster = Cluster(world, settings=self.settings, probes=PROBES[world.seed % 2], cold=COLD[world.seed % 3])
            InvariantChecker(cluster)
            small = {"segment_bytes": "2048", "index_interval_bytes": world.rng.choice(("128", "4096"))}
            cluster.want_topic(PLAIN, 1, 3, **self.plain_configs(), **small, **INDEX)
            compact = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.05"}
            cluster.want_topic(COMPACTED, 1, 3, min_insync_replicas="2", **small, **compact, **INDEX)
            cluster.run_until(cluster.is_settled, 30, "the cluster's beginning")
            self.on_topics_created(cluster)
            producers = [KeyProducer(cluster, history, f"p{i}{n}", p) for i, p in enumerate(PLACES) for n in "ab"]
            searchers = [
                KeySearcher(cluster, f"s{i}", p, deletes=0.02 * (1 - i), on_delete=self.on_delete)
                for i, p in enumerate(PLACES)
            ]
            world.run(world.now_us + 1 * S)
            injector = self.injector(cluster, history, fault_kinds, faults_max)
            injector.run(faults_s)
            for searcher in searchers:
                searcher.deletes = 0
            for name in (PLAIN, COMPACTED):
                cluster.change_topic(name, **INDEX)
            cluster.run_until(cluster.is_settled, RECOVERY_S_MAX, "all replicas in sync after the last fault")
            for producer in producers:
                producer.stopped = True
            cluster.run_until(lambda: all(p.idle for p in producers), 20, "the last responses to the producers")
            cluster.run_until(cluster.level, 20, "equal high watermarks")
            cluster.run_until(lambda: all_indexed(cluster), RECOVERY_S_MAX, "an index of each segment on each broker")
            indexes_agree(cluster, scan)
            self.ask_all(cluster, searchers)
            self.check_logs(cluster)

    def records(self, cluster: Cluster, place: tuple[str, int]) -> dict[int, Record]:
        """{offset: record} that a complete look-up searches."""
        return self.scan.records_of(leader_replica(cluster, *place))

    def ask_all(self, cluster: Cluster, searchers: list[KeySearcher]) -> None:
        """Some keys and header values are looked up in parts, to the end: all responses together have the records that a scan of the leader's log finds.
        Compaction may remove a record after its response: a scan before the queries has it."""
        before = {searcher.place: self.records(cluster, searcher.place) for searcher in searchers}
        for searcher in searchers:
            searcher.complete.clear()
            searcher.queries = [
                KeyLookupRequest(
                    key=key,
                    header_name=header,
                    matches_max=self.final_matches,
                    bytes_max=20_000 * self.final_matches // FINAL_MATCHES,
                    duration_ms_max=FINAL_DURATION_MS,
                )
                for header, key in FINAL
            ]
            searcher.last = [*searcher.queries]
            searcher.stopped = True
        cluster.run_until(lambda: all(s.all_responded for s in searchers), 120, "complete look-ups of the last keys")
        for searcher in searchers:
            log = self.records(cluster, searcher.place)
            for query, found in searcher.complete:
                wanted = sorted((o for o, r in log.items() if matches_query(query, r)), reverse=True)
                removed = {o for o in before[searcher.place] if o not in log}
                if any(query is last for last in searcher.last) and [o for o in found if o not in removed] != wanted:
                    raise Violation(f"{searcher.place}: {query.key!r}: the responses have {found}, a scan {wanted}")


def live(world: World, history: History, faults_s: float, faults_max: int | None) -> None:
    KeyWorld(world).live(history, faults_s, faults_max)
