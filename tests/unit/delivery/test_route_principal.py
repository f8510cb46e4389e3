"""A route with a principal: permissions that are missing, removed and added, and quotas."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from brokerd.cluster.quota_entities import FETCH, PRODUCE
from brokerd.cluster.routes import Route
from brokerd.delivery.route_partition import RoutePartition
from brokerd.delivery.route_port import RouteProblem, RouteState
from brokerd.delivery.route_principal import RoutePrincipal
from brokerd.wire.errors import ErrorCode
from tests.unit.delivery.test_route_partition import Bench, direct, route, route_all_to

ALICE, BOB = "User:alice", "User:bob"
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED.name


def with_principal(*bindings: dict[str, Any], principal: str = ALICE, generation: int = 1) -> Route:
    return replace(route(*(bindings or (route_all_to(),)), generation=generation), principal=principal)


def start_routing(*bindings: dict[str, Any], principal: str = ALICE) -> tuple[Bench, RoutePartition]:
    bench = Bench()
    running = bench.lead(with_principal(*bindings, principal=principal))
    bench.run(running)
    return bench, running


def test_nothing_is_read_or_sent_without_the_permission_to_read_the_source() -> None:
    bench, running = start_routing()
    bench.write("a")
    bench.run(running, responses=False)
    assert len(bench.sent) == 1, "this batch is in flight"
    bench.denied.add((ALICE, "s"))
    bench.write("b")
    bench.respond(ErrorCode.NOT_ENOUGH_REPLICAS)
    bench.run(running, ms=2_000)
    assert bench.values() == [] and not bench.sent, "the record that was read before is not sent again either"
    assert running.state is RouteState.BLOCKED
    assert running.problems[0] == ("s", RouteProblem.SOURCE_NOT_AUTHORIZED, DENIED)
    assert json.loads(bench.committed.metadata)["problems"][0] == ["s", "source_not_authorized", DENIED]
    bench.denied.clear()
    bench.run(running, ms=2_000)
    assert bench.values() == ["a", "b"] and running.state is RouteState.RUNNING and running.problems == []


def test_a_target_without_permission_gets_nothing_and_others_continue() -> None:
    bench, running = start_routing(direct("k"), direct("x", "u"))
    bench.denied.add((ALICE, "u"))
    bench.write("0")
    bench.write("1", "x")
    bench.write("2")
    bench.run(running, ms=2_000)
    assert bench.values() == ["0", "2"] and not bench.logs.get((bench.topics["u"].topic_id, 0))
    assert running.problems == [("u", RouteProblem.TARGET_NOT_AUTHORIZED, DENIED)]
    assert running.state is RouteState.BLOCKED and running.position == 1, "nothing is left out"
    bench.denied.clear()
    bench.run(running, ms=2_000)
    assert [v for p in range(4) for v in bench.values("u", p)] == ["1"] and running.position == 3
    assert running.state is RouteState.RUNNING


def test_a_target_without_permission_limits_what_is_read(monkeypatch: Any) -> None:
    monkeypatch.setattr("brokerd.delivery.route_partition.BUFFERED_RECORDS_MAX", 3)
    bench, running = start_routing()
    bench.denied.add((ALICE, "t"))
    for n in range(10):
        bench.write(str(n))
    bench.run(running, ms=1_000)
    assert running._next_offset == 3 and not bench.sent
    bench.denied.clear()
    bench.run(running, ms=2_000)
    assert bench.values() == [str(n) for n in range(10)]


def test_a_route_without_a_principal_asks_and_counts_nothing() -> None:
    bench, running = start_routing(principal="")
    bench.denied |= {("", "s"), ("", "t")}
    bench.waits_ms = {PRODUCE: 60_000, FETCH: 60_000}
    bench.write("a")
    bench.run(running)
    assert bench.values() == ["a"] and not bench.counted and running.state is RouteState.RUNNING


def test_a_new_principal_applies_after_what_was_matched_before() -> None:
    bench, running = start_routing()
    bench.denied |= {(ALICE, "s"), (BOB, "t")}
    bench.write("a")
    bench.run(running, ms=1_000)
    assert not bench.sent and bench.values() == []
    running.change(with_principal(principal=BOB, generation=2))
    bench.run(running, ms=8_000)
    assert running.problems == [("t", RouteProblem.TARGET_NOT_AUTHORIZED, DENIED)], "bob may read, and not write"
    running.change(with_principal(principal="", generation=3))
    bench.run(running, ms=8_000)
    assert bench.values() == ["a"] and running.state is RouteState.RUNNING


def test_a_route_waits_after_the_batch_that_exceeds_the_quota_of_written_bytes() -> None:
    bench, running = start_routing()
    bench.waits_ms[PRODUCE] = 5_000
    bench.write("a")
    bench.run(running)
    assert bench.values() == ["a"] and running.state is RouteState.RUNNING, "nothing waits"
    bench.write("b")
    bench.run(running, ms=2_000)
    assert bench.values() == ["a"] and not running.buffered_bytes, "it does not fill the buffers of the broker"
    assert running.state is RouteState.THROTTLED and running.problems == []
    assert json.loads(bench.committed.metadata)["state"] == "throttled"
    bench.run(running, ms=4_000)
    assert bench.values() == ["a", "b"] and running.state is RouteState.RUNNING


def test_a_route_waits_after_the_batch_that_exceeds_the_quota_of_read_bytes_and_sends_it() -> None:
    bench, running = start_routing()
    bench.waits_ms[FETCH] = 5_000
    bench.write("a")
    bench.run(running, ms=1_000)
    bench.write("b")
    bench.run(running, ms=1_000)
    assert bench.values() == ["a"] and running.state is RouteState.THROTTLED
    bench.run(running, ms=4_000)
    assert bench.values() == ["a", "b"]


@pytest.mark.parametrize("quota", [FETCH, PRODUCE])
def test_a_changed_limit_or_principal_ends_the_wait(quota: str) -> None:
    """A quota of 0 is a wait of weeks, and a route does not connect again like a client."""
    for another_principal in (False, True):
        bench, running = start_routing()
        bench.limits[quota], bench.waits_ms[quota] = 0.0, 2**31 - 1
        bench.write("a")
        bench.run(running)
        bench.write("b")
        bench.run(running, ms=60_000)
        assert bench.values() == ["a"] and running.state is RouteState.THROTTLED
        if another_principal:
            running.change(with_principal(principal=BOB, generation=2))
        else:
            bench.limits[quota] = 1_000.0
        bench.run(running, ms=8_000)
        assert bench.values() == ["a", "b"] and running.state is RouteState.RUNNING


def test_bytes_are_counted_once_when_a_target_has_appended_them() -> None:
    bench, running = start_routing()
    bench.write("a")
    read = len(bench.batches[0])
    bench.run(running, responses=False)
    bench.respond(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert not bench.counted[ALICE, PRODUCE], "a rejected batch is not counted"
    bench.run(running, responses=False, ms=1_000)
    written = len(bench.sent[0].batch)
    bench.respond()
    bench.run(running)
    assert bench.counted == {(ALICE, PRODUCE): written, (ALICE, FETCH): read}
    again = bench.lead(with_principal())
    bench.committed = bench.committed._replace(offset=0)
    bench.run(again, ms=1_000)
    assert bench.values() == ["a"] and bench.counted[ALICE, PRODUCE] == written, "the target had the record already"
    assert bench.counted[ALICE, FETCH] == 2 * read, "the next leader has read it again"


def test_bytes_that_are_matched_again_are_not_counted_again() -> None:
    bench, running = start_routing()
    bench.denied.add((ALICE, "t"))
    bench.write("a")
    bench.run(running, ms=1_000)
    running.change(with_principal(generation=2))
    bench.run(running, ms=8_000)
    assert running.route.generation == 2 and bench.counted[ALICE, FETCH] == len(bench.batches[0])


def test_a_batch_that_was_passed_is_counted_once() -> None:
    bench = Bench()
    principal = RoutePrincipal(bench)
    principal.refresh(ALICE, bench.now)
    for next_offset in (3, 3, 2, 5):
        principal.on_read(next_offset, 100, bench.now)
    assert bench.counted == {(ALICE, FETCH): 200}
