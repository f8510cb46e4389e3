"""Followers in fetch sessions, on whole brokers: what is idle is not on the wire, keeps its place, and is there again when something moves."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.net.fetcher import Fetchers, Source
from brokerd.replication import SendFetch
from tests.simulation.scene import Scene

LAG = {"replica.lag.time.max.ms": "3000", "max.incremental.fetch.session.cache.slots": "1000"}


class Wire:
    """What every follower sends."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.sent: list[SendFetch] = []
        send = Fetchers._send

        def counted(fetchers: Fetchers, leader: int, source: Source, fetch: SendFetch) -> Any:
            self.sent.append(fetch)
            return send(fetchers, leader, source, fetch)

        patch.setattr(Fetchers, "_send", counted)


@pytest.fixture
def lasting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions that last: the simulation loses all of them every few seconds."""
    monkeypatch.setattr("tests.simulation.cluster.SESSIONS_LAST_US", (1 << 60, 1 << 60))


@pytest.mark.usefixtures("lasting")
def test_an_idle_partition_is_named_by_nobody_and_keeps_its_isr(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire(monkeypatch)
    scene = Scene(1, 2, LAG, brokers=3)  # of two followers one hears late that the other has it, too
    scene.write("a", "b")
    scene.pass_ms(1000)
    wire.sent.clear()
    before = scene.state
    scene.pass_ms(20_000)
    assert scene.state == before and len(before.isr) == 3
    assert len(wire.sent) > 20 and not any(f.partitions or f.forgotten or not f.session_epoch for f in wire.sent)
    for node in scene.cluster.brokers.values():
        assert node.broker.partitions.hosted[scene.tp].core.high_watermark == 2, "the watermark never came"
    scene.write("c")
    assert scene.end() == ["a", "b", "c"]


@pytest.mark.usefixtures("lasting")
def test_a_follower_that_is_not_heard_leaves_the_isr_though_its_session_is_kept() -> None:
    scene = Scene(2, 1, LAG)
    scene.write("a")
    leader, follower = scene.pair()
    sessions = len(leader.broker.fetch_sessions)
    scene.cluster.network.cut.add((follower.name, leader.name))
    scene.cluster.until(lambda: scene.state.isr_ids == (leader.broker_id,), 10, "a smaller ISR")
    assert len(leader.broker.fetch_sessions) == sessions == 1
    scene.cluster.network.cut.clear()
    scene.write("b")
    assert scene.end() == ["a", "b"]


@pytest.mark.parametrize("seed", range(1, 6))
def test_sessions_may_go_at_any_moment(seed: int) -> None:
    scene = Scene(seed, 2, LAG)
    texts = [f"{i}" for i in range(40)]
    for text in texts:
        scene.write(text)
        for node in scene.cluster.brokers.values():
            if scene.world.chance(0.3):
                node.broker.fetch_sessions.end_all()
    assert scene.end() == texts
    assert len(scene.state.isr) == 2
