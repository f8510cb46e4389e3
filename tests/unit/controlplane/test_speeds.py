"""A move's throttle follows what the brokers tell of their producers."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane import adaptive, kafka
from controlplane.models import Change, Move
from controlplane.selectors import move_loads
from controlplane.selectors import moves as selectors
from controlplane.services import Refused, advancing, moves, speeds
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
TO_23 = {"kind": "partitions", "partitions": [{"topic": "flights", "partition": 0, "replicas": [2, 3]}]}
ADAPTIVE = {"cap": 100_000_000, "floor": 1_000_000}


class Brokers:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.counts = {b: [0] * (len(adaptive.BOUNDS_MS) + 1) for b in (1, 2, 3)}
        self.waits_ms = dict.fromkeys((1, 2, 3), 4.0)
        self.away: set[int] = set()
        self.now = 1000.0
        monkeypatch.setattr(kafka, "produce_times", self.tell)
        monkeypatch.setattr(speeds.time, "time", lambda: self.now)

    def tell(self, host: str, port: int) -> list[int]:
        broker = port - 9000
        if broker in self.away:
            raise kafka.NoAnswer("gone")
        return list(self.counts[broker])

    def second(self, move: Move) -> int:
        """A hundred requests at each broker, and a look."""
        self.now += 1
        for b, ms in self.waits_ms.items():
            self.counts[b][adaptive.bucket(ms)] += 100
        for move_id in speeds.due():
            speeds.mind(move_id)
        move.refresh_from_db()
        return int(move.throttle_bytes_per_s or 0)


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    return Brokers(monkeypatch)


@pytest.fixture
def move(world: World, brokers: Brokers) -> Move:
    world.topic("flights", (1, 2))
    move = moves.plan_move(TO_23, who="alice", why="x")
    moves.throttle_move(move.pk, None, adaptive=ADAPTIVE, who="alice", why="gently")
    moves.start_move(move.pk, who="alice")
    advancing.advance_move(move.pk)
    return Move.objects.get(pk=move.pk)


def test_it_begins_at_the_floor_grows_while_producers_are_calm_and_ends_at_its_cap(
    move: Move, brokers: Brokers, world: World
) -> None:
    assert move.throttle_bytes_per_s == 1_000_000
    rates = [brokers.second(move) for _ in range(30)]
    assert rates == sorted(rates) and rates[-1] == 100_000_000
    assert rates[: adaptive.FIRST_SECONDS + 1] == [1_000_000] * (adaptive.FIRST_SECONDS + 1), (
        "a look to count from, and five that teach"
    )
    assert rates[adaptive.FIRST_SECONDS + 6] > 2_000_000
    world.apply_rows()
    assert world.image.broker_configs[2][1]["leader.replication.throttled.rate"] == "100000000"
    assert (move.adaptive or {})["baseline"] == 5.0


def test_one_broker_whose_producers_suffer_is_enough_to_slow_down_within_five_seconds(
    move: Move, brokers: Brokers
) -> None:
    for _ in range(30):
        brokers.second(move)
    brokers.waits_ms[3] = 180.0
    rates = [brokers.second(move) for _ in range(5)]
    assert rates[:2] == [100_000_000, 50_000_000] and rates[-1] <= 100_000_000 / 2**4
    brokers.waits_ms[3] = 4.0
    assert brokers.second(move) > rates[-1]


def test_a_broker_that_tells_nothing_makes_it_go_at_the_floor(move: Move, brokers: Brokers) -> None:
    for _ in range(20):
        brokers.second(move)
    brokers.away.add(2)
    rates = [brokers.second(move) for _ in range(5)]
    assert rates[-1] == 1_000_000


def test_a_fixed_throttle_ends_it_and_the_record_says_both(move: Move, brokers: Brokers) -> None:
    brokers.second(move)
    moves.throttle_move(move.pk, 7_000_000, who="bea", why="enough")
    assert [brokers.second(move) for _ in range(3)] == [7_000_000] * 3
    told = [c.after for c in Change.objects.filter(verb="move.throttle").order_by("id")]
    assert told == [ADAPTIVE, 7_000_000]


def test_a_look_writes_no_rate_that_is_hardly_another(
    move: Move, brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adaptive, "GROW", 1.04)
    for _ in range(adaptive.FIRST_SECONDS + 1):
        brokers.second(move)
    before = move.version
    rates = [brokers.second(move) for _ in range(2)]
    assert rates == [1_000_000] * 2 and move.version == before
    assert brokers.second(move) > 1_100_000 and move.version == before + 1


def test_what_producers_feel_is_kept_of_a_move_that_nobody_makes_adaptive(move: Move, brokers: Brokers) -> None:
    moves.throttle_move(move.pk, 7_000_000, who="bea", why="enough")
    for n in range(10):
        brokers.waits_ms[2] = 4.0 if n < 6 else 180.0
        brokers.second(move)
    rows = [(w.at, w.p99_ms) for w in move_loads.move_waits(move.pk)]
    assert rows == [(1001.0, None), (1004.0, 5.0), (1007.0, 200.0), (1010.0, 200.0)], "each three seconds"
    row = selectors.move_row(move.pk)
    assert row is not None and (row.producers_p99_ms, row.throttle_bytes_per_s, row.adaptive) == (
        200.0,
        7_000_000,
        None,
    )
    brokers.away.add(1)
    for _ in range(3):
        brokers.second(move)
    assert move_loads.move_waits(move.pk)[-1].p99_ms is None, "who did not tell may be the one who suffers"


def test_nothing_under_way_is_no_blindness(world: World, brokers: Brokers) -> None:
    world.topic("flights", (1, 2))
    move = moves.plan_move(TO_23, who="alice", why="x")
    moves.throttle_move(move.pk, None, adaptive=ADAPTIVE, who="alice")
    moves.start_move(move.pk, who="alice")
    assert speeds.mind(move.pk) is None


@pytest.mark.parametrize(
    "said", [{}, {"cap": 10}, {"cap": 5_000_000, "floor": 6_000_000}, {"cap": 5_000_000, "floor": 3}]
)
def test_bounds_that_make_no_sense_are_refused(move: Move, said: dict[str, Any]) -> None:
    with pytest.raises(Refused) as refused:
        moves.throttle_move(move.pk, None, adaptive=said, who="alice")
    assert refused.value.field == "throttle_bytes_per_s"
