"""The adaptive throttle of a move follows the produce latency that brokers report."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

import pytest

from brokerd.cluster.latency_buckets import BOUNDS_MS
from controlplane.clients import kafka
from controlplane.clients.connection import NoResponse
from controlplane.domain import throttle
from controlplane.models import Change, Move
from controlplane.selectors import move_loads
from controlplane.selectors import moves as selectors
from controlplane.services import Rejected, adaptive_throttle, move_worker, moves
from controlplane.services.adaptive_throttle import ThrottleBounds, bounds_of
from controlplane.services.move_planning import parse_scope
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
TO_23 = {"kind": "partitions", "partitions": [{"topic": "flights", "partition": 0, "replicas": [2, 3]}]}
ADAPTIVE = ThrottleBounds(100_000_000, 1_000_000)


class Brokers:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.counts = {b: [0] * (len(BOUNDS_MS) + 1) for b in (1, 2, 3)}
        self.waits_ms = dict.fromkeys((1, 2, 3), 4.0)
        self.away: set[int] = set()
        self.now = 1000.0
        monkeypatch.setattr(kafka, "produce_times", self.tell)
        monkeypatch.setattr(adaptive_throttle.time, "time", lambda: self.now)

    def tell(self, host: str, port: int) -> list[int]:
        broker = port - 9000
        if broker in self.away:
            raise NoResponse("gone")
        return list(self.counts[broker])

    def run_one_second(self, move: Move) -> int:
        """A hundred produce requests at each broker, and one update of the throttle."""
        self.now += 1
        for b, ms in self.waits_ms.items():
            self.counts[b][bisect_left(BOUNDS_MS, ms)] += 100
        for move_id in adaptive_throttle.due_moves():
            adaptive_throttle.update_adaptive_throttle(move_id)
        move.refresh_from_db()
        return int(move.throttle_bytes_per_s or 0)


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    return Brokers(monkeypatch)


@pytest.fixture
def move(world: World, brokers: Brokers) -> Move:
    world.topic("flights", (1, 2))
    move = moves.plan_move(parse_scope(TO_23), actor="alice", comment="x")
    moves.throttle_move(move.pk, None, adaptive=ADAPTIVE, actor="alice", comment="gently")
    moves.start_move(move.pk, actor="alice")
    move_worker.advance_move(move.pk)
    return Move.objects.get(pk=move.pk)


def test_the_rate_starts_at_the_floor_and_grows_to_the_cap_while_latency_is_low(
    move: Move, brokers: Brokers, world: World
) -> None:
    assert move.throttle_bytes_per_s == 1_000_000
    rates = [brokers.run_one_second(move) for _ in range(30)]
    assert rates == sorted(rates) and rates[-1] == 100_000_000
    assert rates[: throttle.FIRST_SECONDS + 1] == [1_000_000] * (throttle.FIRST_SECONDS + 1), (
        "a look to count from, and five that teach"
    )
    assert rates[throttle.FIRST_SECONDS + 6] > 2_000_000
    world.apply_rows()
    assert world.image.broker_configs[2][1]["leader.replication.throttled.rate"] == "100000000"
    assert move.adaptive is not None and move.adaptive.baseline == 5.0


def test_high_produce_latency_on_one_broker_reduces_the_rate_within_five_seconds(move: Move, brokers: Brokers) -> None:
    for _ in range(30):
        brokers.run_one_second(move)
    brokers.waits_ms[3] = 180.0
    rates = [brokers.run_one_second(move) for _ in range(5)]
    assert rates[:2] == [100_000_000, 50_000_000] and rates[-1] <= 100_000_000 / 2**4
    brokers.waits_ms[3] = 4.0
    assert brokers.run_one_second(move) > rates[-1]


def test_without_measurements_of_a_broker_the_rate_is_the_floor(move: Move, brokers: Brokers) -> None:
    for _ in range(20):
        brokers.run_one_second(move)
    brokers.away.add(2)
    rates = [brokers.run_one_second(move) for _ in range(5)]
    assert rates[-1] == 1_000_000


def test_a_fixed_throttle_replaces_the_adaptive_one_and_the_change_row_has_both(move: Move, brokers: Brokers) -> None:
    brokers.run_one_second(move)
    moves.throttle_move(move.pk, 7_000_000, actor="bea", comment="enough")
    assert [brokers.run_one_second(move) for _ in range(3)] == [7_000_000] * 3
    recorded = [c.after for c in Change.objects.filter(verb="move.throttle").order_by("id")]
    assert recorded == [ADAPTIVE._asdict(), 7_000_000]


def test_a_small_change_of_the_rate_is_not_written(
    move: Move, brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttle, "RAISE_FACTOR", 1.04)
    for _ in range(throttle.FIRST_SECONDS + 1):
        brokers.run_one_second(move)
    before = move.version
    rates = [brokers.run_one_second(move) for _ in range(2)]
    assert rates == [1_000_000] * 2 and move.version == before
    assert brokers.run_one_second(move) > 1_100_000 and move.version == before + 1


def test_produce_latency_is_stored_also_for_a_move_without_an_adaptive_throttle(move: Move, brokers: Brokers) -> None:
    moves.throttle_move(move.pk, 7_000_000, actor="bea", comment="enough")
    for n in range(10):
        brokers.waits_ms[2] = 4.0 if n < 6 else 180.0
        brokers.run_one_second(move)
    rows = [(w.at, w.p99_ms) for w in move_loads.producer_latency(move.pk)]
    assert rows == [(1001.0, None), (1004.0, 5.0), (1007.0, 200.0), (1010.0, 200.0)], "each three seconds"
    row = selectors.move_row(move.pk)
    assert row is not None and (row.producers_p99_ms, row.throttle_bytes_per_s, row.adaptive) == (
        200.0,
        7_000_000,
        None,
    )
    brokers.away.add(1)
    for _ in range(3):
        brokers.run_one_second(move)
    assert move_loads.producer_latency(move.pk)[-1].p99_ms is None, "who did not tell may be the one who suffers"


def test_a_move_without_running_copies_needs_no_measurement(world: World, brokers: Brokers) -> None:
    world.topic("flights", (1, 2))
    move = moves.plan_move(parse_scope(TO_23), actor="alice", comment="x")
    moves.throttle_move(move.pk, None, adaptive=ADAPTIVE, actor="alice")
    moves.start_move(move.pk, actor="alice")
    assert adaptive_throttle.update_adaptive_throttle(move.pk) is None


@pytest.mark.parametrize(
    "said", [{}, {"cap": 10}, {"cap": 5_000_000, "floor": 6_000_000}, {"cap": 5_000_000, "floor": 3}]
)
def test_invalid_bounds_are_rejected(move: Move, said: dict[str, Any]) -> None:
    with pytest.raises(Rejected) as rejection:
        moves.throttle_move(move.pk, None, adaptive=bounds_of(said), actor="alice")
    assert rejection.value.field == "throttle_bytes_per_s"
