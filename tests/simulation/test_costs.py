"""Time within a loop iteration: work makes a broker's event loop busy, messages wait meanwhile, and no iteration may take too long."""

from __future__ import annotations

import pytest

from brokerd.membership.identity import BrokerIdentity
from brokerd.storage.log_start import StoredLogStart
from brokerd.wire.errors import ErrorCode
from tests.simulation.checkers import Violation
from tests.simulation.scene import Scene
from tests.simulation.world import MS, Node, S, World

SECONDS = 30
LOST_BELOW_THE_START = (2, 10)
"""Seeds in which the power cut keeps records of the log, but fewer than the log start offset."""


def test_events_of_a_busy_process_wait_and_arrivals_precede_timers() -> None:
    world = World(1)
    node = Node(world, "node")
    seen: list[tuple[str, int]] = []

    def spend_and_record(name: str, cost_us: int = 0) -> None:
        seen.append((name, world.now_us // MS))
        world.spend(cost_us)

    node.post(1 * MS, lambda: spend_and_record("long", 10 * MS))
    node.post(2 * MS, lambda: spend_and_record("timer"), timer=True)
    node.post(3 * MS, lambda: spend_and_record("first", 4 * MS))
    node.post(4 * MS, lambda: spend_and_record("second"))
    node.post(30 * MS, lambda: spend_and_record("later"))
    world.run(1 * S)
    assert seen == [("long", 1), ("first", 11), ("second", 15), ("timer", 15), ("later", 30)]


def test_an_arrival_waits_behind_earlier_arrivals_of_a_busy_process() -> None:
    """Seed 541: a broker got the response with entry 9 of the metadata log before the response with entry 6."""
    world = World(1)
    node = Node(world, "node")
    seen: list[str] = []
    node.post(1 * MS, lambda: world.spend(10 * MS))
    node.post(2 * MS, lambda: seen.append("timer"), timer=True)
    node.post(3 * MS, lambda: seen.append("first"))
    node.post(11 * MS, lambda: seen.append("second"))
    node.post(11 * MS, lambda: seen.append("later timer"), timer=True)
    world.run(1 * S)
    assert seen == ["first", "second", "timer", "later timer"]


def test_a_process_that_dies_while_it_is_busy_does_nothing_more() -> None:
    world = World(1)
    node = Node(world, "node")
    seen: list[str] = []
    node.post(1 * MS, lambda: world.spend(10 * MS))
    node.post(2 * MS, lambda: seen.append("of the life before"))
    world.run(5 * MS)
    node.crash()
    node.live()
    node.post(0, lambda: seen.append("of this life"))
    world.run(1 * S)
    assert seen == ["of this life"]


def test_the_next_life_of_a_busy_process_is_not_busy() -> None:
    """Seed 270: a broker that was killed in an iteration of half a minute did nothing after its restart before that half minute was over."""
    world = World(1)
    node = Node(world, "node")
    seen: list[tuple[str, int]] = []
    node.post(1 * MS, lambda: world.spend(30 * S))
    node.post(2 * MS, lambda: seen.append(("of the life before", 0)))
    world.run(5 * MS)
    node.crash()
    node.live()
    node.post(1 * MS, lambda: world.spend(10 * MS))
    node.post(2 * MS, lambda: seen.append(("of this life", world.now_us // MS)))
    world.run(60 * S)
    assert seen == [("of this life", 16)]


def on_slow_disks(seed: int) -> None:
    """Each flush takes seconds on every broker, while the metadata log and the partition grow."""
    scene = Scene(seed, min_insync=2)
    for node in scene.cluster.brokers.values():
        node.slow_until_us = scene.world.now_us + SECONDS * S
    for i in range(SECONDS):
        scene.cluster.want_topic(f"another-{i}", 1, 2)
        scene.write(f"r{i}")
        scene.pass_ms(1_000)
    assert scene.end() == [f"r{i}" for i in range(SECONDS)]


@pytest.mark.parametrize("seed", range(1, 4))
def test_no_loop_iteration_waits_for_a_slow_disk(seed: int) -> None:
    on_slow_disks(seed)


def test_a_flush_on_the_event_loop_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BrokerIdentity, "_save", BrokerIdentity._save_and_wait)
    with pytest.raises(Violation, match="waited for the disk"):
        on_slow_disks(1)


def opened_on_a_slow_disk(seed: int) -> tuple[int, list[str]]:
    """(log start offset at opening, records at the end). Records below a log start offset that was flushed are lost with the records behind them."""
    scene = Scene(seed, brokers=1)
    scene.write(*(f"r{i}" for i in range(12)))
    assert scene.delete_below(8) == (ErrorCode.NONE, 8)
    node = scene.cluster.brokers[1]
    node.power_cut()
    node.slow_until_us = scene.world.now_us + SECONDS * S
    node.start()
    scene.cluster.run_until(lambda: scene.tp in node.broker.replica_manager.hosted, 30, "the log to be open")
    opened_at = node.broker.replica_manager.hosted[scene.tp].log.start_offset
    scene.pass_ms(SECONDS * 1_000)
    scene.cluster.run_until(lambda: scene.leads_now(node), 30, "the broker to lead")
    node.power_cut()
    node.start()
    scene.cluster.run_until(lambda: scene.leads_now(node), 30, "the broker to lead again")
    scene.pass_ms(300)
    scene.write("after")
    return opened_at, scene.end()


@pytest.mark.parametrize("seed", LOST_BELOW_THE_START)
def test_a_log_that_ends_below_its_flushed_start_opens_without_waiting(seed: int) -> None:
    """Shares 79: the lowered log start offset was flushed within the iteration that opens the log."""
    opened_at, found = opened_on_a_slow_disk(seed)
    assert 0 < opened_at < 8, "the records are not lost: the scenario did not happen"
    assert found == ["after"]


def test_a_flush_of_the_lowered_start_on_the_event_loop_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    def mutated_lower(self: StoredLogStart) -> None:
        self.write()
        flush = self.plan()
        assert flush is not None
        flush.run()

    monkeypatch.setattr(StoredLogStart, "lower", mutated_lower)
    with pytest.raises(Violation, match="one iteration of its event loop"):
        opened_on_a_slow_disk(LOST_BELOW_THE_START[0])
