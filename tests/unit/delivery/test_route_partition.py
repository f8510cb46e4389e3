"""A route on one source partition with its log, its targets and its committed position in memory."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID
from zlib import crc32

from brokerd.cluster.model import Now
from brokerd.cluster.routes import Route, route_of
from brokerd.delivery import route_partition
from brokerd.delivery.route_partition import RoutePartition
from brokerd.delivery.route_port import RoutePosition, RouteProblem, RouteState, Target
from brokerd.delivery.route_producer import NOTHING, UNKNOWN, last_source_offset
from brokerd.wire import records
from brokerd.wire.compression import GZIP, LZ4, NONE
from brokerd.wire.errors import ErrorCode
from brokerd.wire.records import Record

SOURCE = UUID(int=1)
OK, CONFLICT = ErrorCode.NONE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def route(*bindings: dict[str, Any], generation: int = 1, start: str = "earliest", partitions: int = 1) -> Route:
    value = {"route_id": "r-1", "source": "s", "start": start, "partitions_at_start": partitions}
    return route_of("r", generation, {**value, "bindings": list(bindings)})


def route_all_to(target: str = "t") -> dict[str, Any]:
    return {"target": target, "match": {"kind": "all"}}


def direct(key: str, target: str = "t") -> dict[str, Any]:
    return {"target": target, "match": {"kind": "key", "value": key}}


@dataclass
class SentBatch:
    topic_id: UUID
    partition: int
    batch: bytes
    expected: int
    done: Callable[[ErrorCode, int, Now], None]


class Bench:
    """`RoutePort` in memory: one source partition and target topics."""

    def __init__(self) -> None:
        self.now = Now(10_000, 1_790_000_000_000)
        self.batches: list[bytes] = []
        self.start_offset = self.high_watermark = 0
        self.stable: int | None = None
        self.aborts: list[tuple[int, int, int]] = []
        self.topics: dict[str, Target] = {
            "t": Target(UUID(int=2), 1, 1_000_000),
            "u": Target(UUID(int=3), 4, 1_000_000),
        }
        self.sent: list[SentBatch] = []
        self.logs: dict[tuple[UUID, int], list[Record]] = {}
        self.last: dict[tuple[UUID, int], int] = {}
        self.committed = RoutePosition(-1, "")
        self.waiting: list[Callable[[], None]] = []
        self.coordinator = ErrorCode.NONE
        self.commits = 0
        self.woken = False
        self.has_room = True
        self.denied: set[tuple[str, str]] = set()
        """(principal, topic) without the permission to read the source "s", or to write to a target."""
        self.waits_ms: dict[str, int] = {}
        """{quota: the time that a principal waits after its next batch}"""
        self.limits: dict[str, float] = {}
        self.counted: Counter[tuple[str, str]] = Counter()
        """Bytes by principal and quota."""

    # -- the port --------------------------------------------------------------------------------------------------------
    @property
    def last_stable_offset(self) -> int:
        return self.high_watermark if self.stable is None else self.stable

    @property
    def end_offset(self) -> int:
        return self.high_watermark

    def read(self, offset: int, bytes_max: int, upto: int) -> bytes | None:
        return b"".join(b for b in self.batches if offset < records.peek(b).next_offset <= upto)

    def aborted_transactions(self, offset: int, upto: int) -> list[tuple[int, int, int]]:
        return self.aborts

    def target(self, topic: str) -> Target | None:
        return self.topics.get(topic)

    def send(self, topic_id: UUID, partition: int, batch: bytes, expected: int, done: Any) -> None:
        self.sent.append(SentBatch(topic_id, partition, batch, expected, done))

    def may_read(self, principal: str) -> bool:
        return self.may_write(principal, "s")

    def may_write(self, principal: str, topic: str) -> bool:
        return (principal, topic) not in self.denied

    def quota_limit(self, principal: str, quota: str) -> float | None:
        return self.limits.get(quota)

    def count_bytes(self, principal: str, quota: str, size: int, now: Now) -> int:
        self.counted[principal, quota] += size
        return self.waits_ms.pop(quota, 0)

    def wake(self) -> None:
        self.woken = True

    def fetch_position(self, done: Any) -> None:
        self.waiting.append(lambda: done(self.coordinator, self.committed, self.now))

    def commit_position(self, position: RoutePosition, done: Any) -> None:
        def respond() -> None:
            if not self.coordinator:
                self.committed = position
                self.commits += 1
            done(self.coordinator, self.now)

        self.waiting.append(respond)

    # -- for the tests ---------------------------------------------------------------------------------------------------
    def write(
        self, value: str, key: str | None = "k", *, producer_id: int = -1, control: bool = False, codec: int = NONE
    ) -> None:
        record = Record(0, self.now.wall_ms, None if key is None else key.encode(), value.encode())
        batch = records.build(
            [record],
            base_offset=self.high_watermark,
            producer_id=producer_id,
            producer_epoch=min(producer_id, 0),
            base_sequence=min(producer_id, 0),
            transactional=producer_id >= 0,
            control=control,
            compression=codec,
        )
        self.batches.append(batch)
        self.high_watermark += 1

    def append(self, sent: SentBatch) -> tuple[ErrorCode, int]:
        """The target partition: the rule of `RoutedAppends`."""
        at = sent.topic_id, sent.partition
        found = self.last.get(at, NOTHING)
        if found != sent.expected:
            return CONFLICT, found
        header = records.peek(sent.batch)
        self.last[at] = last_source_offset(header.producer_epoch, header.last_sequence)
        self.logs.setdefault(at, []).extend(records.iterate(sent.batch))
        return OK, -1

    def respond(self, error: ErrorCode = OK) -> None:
        sent = self.sent.pop(0)
        sent.done(*((error, -1) if error else self.append(sent)), self.now)

    def run(self, *running: RoutePartition, ms: int = 100, responses: bool = True) -> None:
        for _ in range(max(1, ms // 100)):
            self.now = Now(self.now.mono_ms + 100, self.now.wall_ms + 100)
            for r in running:
                r.tick(self.now)
            for _ in range(20):
                while self.waiting:
                    self.waiting.pop(0)()
                while responses and self.sent:
                    self.respond()
                for r in running:
                    r.tick(self.now)

    def lead(self, definition: Route | None = None, partition: int = 0) -> RoutePartition:
        return RoutePartition(definition or route(route_all_to()), SOURCE, partition, self)

    def values(self, topic: str = "t", partition: int = 0) -> list[str]:
        return [(r.value or b"").decode() for r in self.logs.get((self.topics[topic].topic_id, partition), [])]


def test_records_are_routed_in_order_and_the_position_is_committed() -> None:
    bench = Bench()
    running = bench.lead()
    for value in "abc":
        bench.write(value)
    bench.run(running, ms=2_000)
    assert bench.values() == ["a", "b", "c"]
    assert bench.committed.offset == 3 and running.routed == 3
    assert json.loads(bench.committed.metadata) == {
        "route": "r-1",
        "generation": 1,
        "state": "running",
        "lost": 0,
        "problems": [],
        "placement": {"targets": crc32(b"t"), "counts": "1", "later": []},
    }


def test_nothing_is_sent_before_the_first_position_is_committed() -> None:
    bench = Bench()
    bench.write("before")
    running = bench.lead(route(route_all_to(), start="latest"))
    bench.coordinator = ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.run(running, ms=1_000)
    bench.write("after")
    assert not bench.sent and running.state is RouteState.STARTING
    bench.coordinator = ErrorCode.NONE
    bench.high_watermark -= 1  # the leader has not learnt yet that "after" is replicated
    bench.run(running, ms=500)
    bench.high_watermark += 1
    bench.run(running, ms=500)
    assert bench.values() == ["after"]


def test_a_partition_added_after_the_route_is_routed_from_its_first_record() -> None:
    bench = Bench()
    bench.write("first")
    bench.run(bench.lead(route(route_all_to(), start="latest", partitions=1), partition=1), ms=500)
    assert bench.values() == ["first"]


def test_the_next_leader_sends_nothing_twice_and_leaves_nothing_out() -> None:
    bench = Bench()
    first = bench.lead()
    bench.run(first)
    for value in "abc":
        bench.write(value)
    first.tick(bench.now)
    bench.respond()  # the query what is there: the position was never known
    first.tick(bench.now)
    bench.append(bench.sent[0])  # appended, but the leader dies before the response and before a commit
    bench.sent.clear()
    assert bench.committed.offset == 0
    bench.write("d")
    bench.run(bench.lead(), ms=500)
    assert bench.values() == ["a", "b", "c", "d"]


def test_a_deposed_leader_cannot_append_again() -> None:
    bench = Bench()
    old = bench.lead()
    bench.run(old)
    for value in "abc":
        bench.write(value)
    old.tick(bench.now)
    bench.respond()
    old.tick(bench.now)
    late = bench.sent.pop()
    new = bench.lead()
    bench.write("d")
    bench.run(new, ms=500)
    assert bench.append(late) == (CONFLICT, 3)
    assert bench.values() == ["a", "b", "c", "d"]


def test_a_batch_whose_response_was_lost_is_not_written_twice() -> None:
    bench = Bench()
    running = bench.lead()
    bench.run(running)
    bench.write("a")
    running.tick(bench.now)
    bench.respond()
    running.tick(bench.now)
    bench.append(bench.sent[0])
    bench.respond(ErrorCode.NETWORK_EXCEPTION)
    bench.write("b")
    bench.run(running, ms=1_000)
    assert bench.values() == ["a", "b"]


def test_only_committed_records_below_the_last_stable_offset_are_routed() -> None:
    bench = Bench()
    running = bench.lead()
    bench.write("plain")
    bench.write("aborted", producer_id=7)
    bench.write("marker", producer_id=7, control=True)
    bench.write("open")
    bench.aborts = [(7, 1, 2)]
    bench.stable = 3
    bench.run(running, ms=2_000)
    assert bench.values() == ["plain"] and bench.committed.offset == 3
    bench.stable = None
    bench.run(running, ms=500)
    assert bench.values() == ["plain", "open"]


def test_a_missing_target_delays_the_route_and_others_continue() -> None:
    bench = Bench()
    running = bench.lead(route(direct("k", "missing"), route_all_to("t")))
    for value in "ab":
        bench.write(value)
    bench.run(running, ms=2_000)
    assert bench.values() == ["a", "b"]
    assert bench.committed.offset == 0 and running.state is RouteState.BLOCKED
    assert running.problems == [("missing", RouteProblem.TARGET_MISSING, "NONE")]
    bench.topics["missing"] = Target(UUID(int=9), 1, 1_000_000)
    running.topics_changed()
    bench.run(running, ms=2_000)
    assert bench.values("missing") == ["a", "b"] and bench.values() == ["a", "b"]
    assert bench.committed.offset == 2 and running.state is RouteState.RUNNING


def test_a_target_that_rejects_is_named_and_tried_again() -> None:
    bench = Bench()
    running = bench.lead()
    bench.run(running)
    bench.write("large")
    running.tick(bench.now)
    bench.respond()
    running.tick(bench.now)
    bench.respond(ErrorCode.MESSAGE_TOO_LARGE)
    bench.run(running, responses=False, ms=1_100)
    assert running.problems == [("t", RouteProblem.TARGET_REJECTED, "MESSAGE_TOO_LARGE")]
    assert json.loads(bench.committed.metadata)["state"] == "blocked"
    bench.run(running, ms=1_100)
    assert bench.values() == ["large"] and json.loads(bench.committed.metadata)["problems"] == []


def test_a_slow_target_limits_what_is_read(monkeypatch: Any) -> None:
    monkeypatch.setattr(route_partition, "BUFFERED_RECORDS_MAX", 10)
    bench = Bench()
    running = bench.lead()
    bench.run(running)
    for i in range(50):
        bench.write(str(i))
    for _ in range(20):
        running.tick(bench.now)
    assert len(bench.sent) == 1 and running._buffered == 10
    bench.run(running, ms=500)
    assert bench.values() == [str(i) for i in range(50)]


def test_a_fan_out_to_many_targets_stops_within_a_batch(monkeypatch: Any) -> None:
    monkeypatch.setattr(route_partition, "BUFFERED_RECORDS_MAX", 4)
    bench = Bench()
    running = bench.lead(route(route_all_to("t"), route_all_to("u")))
    bench.run(running)
    found = [Record(i, 1, b"k", b"%d" % i) for i in range(9)]
    bench.batches.append(records.build(found))
    bench.high_watermark = 9
    running.tick(bench.now)
    assert running._buffered == 4
    bench.run(running, ms=500)
    assert bench.values() == [str(i) for i in range(9)] == [v for p in range(4) for v in bench.values("u", p)]


def test_a_broker_without_room_lets_each_route_continue_with_little() -> None:
    bench = Bench()
    running = bench.lead()
    bench.run(running)
    bench.has_room = False
    bench.write("a")
    running.tick(bench.now)
    bench.write("b")
    running.tick(bench.now)
    assert running._buffered == 1
    bench.run(running, ms=500)
    assert bench.values() == ["a", "b"]


def test_records_that_retention_deleted_are_counted_as_lost() -> None:
    bench = Bench()
    running = bench.lead()
    bench.run(running)
    for value in "abc":
        bench.write(value)
    bench.start_offset = 2
    bench.run(running, ms=2_000)
    assert bench.values() == ["c"] and running.lost == 2
    assert json.loads(bench.committed.metadata)["lost"] == 2
    later = bench.lead()
    bench.run(later, ms=200)
    assert later.lost == 2


def test_a_changed_definition_applies_after_what_was_matched_before() -> None:
    bench = Bench()
    running = bench.lead(route(route_all_to("t")))
    bench.run(running)
    bench.write("a")
    running.tick(bench.now)
    running.change(route(route_all_to("u"), generation=2))
    bench.run(running, ms=500)
    bench.write("b", None)
    bench.run(running, ms=500)
    assert bench.values("t") == ["a"] and bench.values("u") == ["b"]
    assert json.loads(bench.committed.metadata)["generation"] == 2


def test_a_change_removes_a_binding_whose_target_is_missing() -> None:
    bench = Bench()
    running = bench.lead(route(direct("k", "missing"), route_all_to("t")))
    for value in "ab":
        bench.write(value)
    bench.run(running, ms=500)
    running.change(route(route_all_to("t"), generation=2))
    bench.write("c")
    bench.run(running, ms=2_000)
    assert bench.values() == ["a", "b", "c"] and bench.committed.offset == 3


def test_records_matched_before_more_partitions_stay_where_they_are() -> None:
    bench = Bench()
    bench.topics["u"] = replace_partitions(bench.topics["u"], 1)
    running = bench.lead(route(route_all_to("u")))
    for i in range(20):
        bench.write(str(i), f"k{i}")
    bench.run(running, ms=500)
    bench.topics["u"] = replace_partitions(bench.topics["u"], 4)
    running.topics_changed()
    for i in range(20, 40):
        bench.write(str(i), f"k{i}")
    bench.run(running, ms=2_000)
    found = [v for p in range(4) for v in bench.values("u", p)]
    assert sorted(map(int, found)) == list(range(40))
    assert set(map(int, bench.values("u", 0))) >= set(range(20))


def test_a_leader_that_finds_a_grown_target_places_old_records_as_its_predecessor() -> None:
    bench = Bench()
    bench.topics["u"] = replace_partitions(bench.topics["u"], 1)
    first = bench.lead(route(route_all_to("u")))
    bench.run(first)
    for i in range(20):
        bench.write(str(i), f"k{i}")
    for _ in range(2):
        first.tick(bench.now)
        bench.respond()
    assert len(bench.values("u")) == 20 and bench.committed.offset == 0
    bench.topics["u"] = replace_partitions(bench.topics["u"], 4)
    for i in range(20, 40):
        bench.write(str(i), f"k{i}")
    bench.run(bench.lead(route(route_all_to("u"))), ms=2_000)
    for i in range(40, 60):
        bench.write(str(i), f"k{i}")
    bench.run(bench.lead(route(route_all_to("u"))), ms=2_000)
    found = [v for p in range(4) for v in bench.values("u", p)]
    assert sorted(map(int, found)) == list(range(60))
    assert set(map(int, bench.values("u", 0))) >= set(range(40)), (
        "the new leader had not read 20 to 39, but its predecessor may have"
    )
    assert len(found) > len(bench.values("u", 0)), "later records use the new partitions"


def test_a_target_that_grows_does_not_wait_for_a_partition_that_rejects() -> None:
    bench = Bench()
    bench.topics["u"] = replace_partitions(bench.topics["u"], 1)
    running = bench.lead(route(route_all_to("t"), route_all_to("u")))
    bench.run(running)
    bench.write("a", "k")
    running.tick(bench.now)
    for rejected in [s for s in bench.sent if s.topic_id == bench.topics["t"].topic_id]:
        bench.sent.remove(rejected)
        rejected.done(ErrorCode.MESSAGE_TOO_LARGE, -1, bench.now)
    bench.topics["u"] = replace_partitions(bench.topics["u"], 4)
    running.topics_changed()
    for i in range(20):
        bench.write(str(i), f"k{i}")
    bench.run(running, ms=10_000)
    found = [v for p in range(4) for v in bench.values("u", p)]
    assert sorted(found) == sorted(["a", *map(str, range(20))]) and bench.values("u", 0) != found


def test_records_that_are_matched_again_keep_the_number_of_partitions_of_their_time() -> None:
    bench = Bench()
    bench.topics["u"] = replace_partitions(bench.topics["u"], 1)
    running = bench.lead(route(direct("k0", "missing"), route_all_to("u")))
    bench.run(running)
    for i in range(20):
        bench.write(str(i), f"k{i % 7}")
    bench.run(running, ms=500)
    bench.topics["u"] = replace_partitions(bench.topics["u"], 4)
    running.topics_changed()
    bench.run(running, ms=500)
    running.change(route(direct("k0", "missing"), route_all_to("u"), generation=2))
    bench.run(running, ms=2_000)
    bench.topics["missing"] = Target(UUID(int=9), 1, 1_000_000)
    assert bench.committed.offset == 0
    bench.run(bench.lead(route(direct("k0", "missing"), route_all_to("u"), generation=2)), ms=2_000)
    assert sorted(map(int, bench.values("u", 0))) == list(range(20))
    assert not any(bench.values("u", p) for p in (1, 2, 3))
    assert bench.values("missing") == ["0", "7", "14"]


def test_a_number_of_partitions_is_used_after_it_is_committed() -> None:
    bench = Bench()
    running = bench.lead()
    bench.run(running)
    bench.topics["t"] = replace_partitions(bench.topics["t"], 2)
    running.topics_changed()
    bench.coordinator = ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.write("a")
    bench.run(running, ms=2_000)
    assert not bench.logs
    bench.coordinator = ErrorCode.NONE
    bench.run(running, ms=500)
    assert bench.values() + bench.values("t", 1) == ["a"]


def replace_partitions(target: Target, count: int) -> Target:
    return target._replace(partitions=count)


def test_a_recreated_route_ignores_the_position_of_the_deleted_one() -> None:
    bench = Bench()
    bench.write("a")
    bench.run(bench.lead(), ms=2_000)
    assert bench.committed.offset == 1
    bench.run(bench.lead(replace(route(route_all_to()), route_id="r-2")), ms=500)
    assert (bench.committed.offset, bench.values()) == (0, ["a"])


def test_a_target_that_forgot_the_producer_gets_the_next_records_only() -> None:
    bench = Bench()
    running = bench.lead()
    bench.write("a")
    bench.run(running, ms=2_000)
    bench.last.clear()  # producer.id.expiration.ms
    bench.write("b")
    bench.run(running, ms=500)
    assert bench.values() == ["a", "b"]


def test_a_closed_route_ignores_answers() -> None:
    bench = Bench()
    running = bench.lead()
    bench.run(running)
    bench.write("a")
    running.tick(bench.now)
    assert bench.sent[0].expected == UNKNOWN
    running.closed = True
    bench.respond()
    running.tick(bench.now)
    assert not bench.sent


def test_a_routed_batch_has_the_compression_of_its_source() -> None:
    bench = Bench()
    bench.topics["u"] = bench.topics["u"]._replace(recompresses=True)
    running = RoutePartition(route(route_all_to("t"), route_all_to("u")), SOURCE, 0, bench)
    codecs: dict[str, list[int]] = {"t": [], "u": []}
    for value, codec in (("x" * 500, GZIP), ("y" * 500, NONE), ("z" * 500, LZ4), ("short", GZIP)):
        bench.write(value, codec=codec)
        bench.run(running, responses=False)
        for sent in bench.sent:
            name = "t" if sent.topic_id == bench.topics["t"].topic_id else "u"
            codecs[name].append(records.peek(sent.batch).compression)
        bench.run(running)
    assert codecs == {"t": [GZIP, NONE, LZ4, NONE], "u": [NONE] * 4}, (
        "a batch that does not become smaller stays as it is"
    )
    found = [r.value for log in bench.logs.values() for r in log]
    assert sorted(found) == sorted([b"x" * 500, b"y" * 500, b"z" * 500, b"short"] * 2)
