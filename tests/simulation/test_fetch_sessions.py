"""Followers in fetch sessions on complete brokers: idle partitions are not in requests, keep their ISR, and are fetched again when they change."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.replication.fetch_client import SendFetch
from brokerd.replication.fetcher_manager import FetcherManager, LeaderFetcher
from tests.simulation.scene import Scene

LAG = {"replica.lag.time.max.ms": "3000", "max.incremental.fetch.session.cache.slots": "1000"}


class FetchRequestCounter:
    """Counts the requests of every follower."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.sent: list[SendFetch] = []
        send = FetcherManager._send

        def record_and_send(fetchers: FetcherManager, source: LeaderFetcher, fetch: SendFetch) -> Any:
            self.sent.append(fetch)
            return send(fetchers, source, fetch)

        patch.setattr(FetcherManager, "_send", record_and_send)


@pytest.fixture
def lasting_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions that last: the simulation otherwise drops all of them every few seconds."""
    monkeypatch.setattr("tests.simulation.cluster.SESSIONS_LAST_US", (1 << 60, 1 << 60))


@pytest.mark.usefixtures("lasting_sessions")
def test_an_idle_partition_is_in_no_fetch_request_and_keeps_its_isr(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = FetchRequestCounter(monkeypatch)
    scene = Scene(1, 2, LAG, brokers=3)  # with two followers, the new high watermark reaches one of them late
    scene.write("a", "b")
    scene.pass_ms(1000)
    wire.sent.clear()
    before = scene.state
    scene.pass_ms(20_000)
    assert scene.state == before and len(before.isr) == 3
    assert len(wire.sent) > 20 and not any(f.partitions or f.forgotten or not f.session_epoch for f in wire.sent)
    for node in scene.cluster.brokers.values():
        assert node.broker.replica_manager.hosted[scene.tp].core.high_watermark == 2, (
            "the high watermark did not arrive"
        )
    scene.write("c")
    assert scene.end() == ["a", "b", "c"]


@pytest.mark.usefixtures("lasting_sessions")
def test_a_follower_without_fetches_leaves_the_isr_although_its_session_exists() -> None:
    scene = Scene(2, 1, LAG)
    scene.write("a")
    leader, follower = scene.pair()
    sessions = len(leader.broker.fetch_sessions)
    scene.cluster.network.cut.add((follower.name, leader.name))
    scene.cluster.run_until(lambda: scene.state.isr_ids == (leader.broker_id,), 10, "a smaller ISR")
    assert len(leader.broker.fetch_sessions) == sessions == 1
    scene.cluster.network.cut.clear()
    scene.write("b")
    assert scene.end() == ["a", "b"]


@pytest.mark.parametrize("seed", range(1, 6))
def test_fetch_sessions_may_be_dropped_at_any_moment(seed: int) -> None:
    scene = Scene(seed, 2, LAG)
    texts = [f"{i}" for i in range(40)]
    for text in texts:
        scene.write(text)
        for node in scene.cluster.brokers.values():
            if scene.world.chance(0.3):
                node.broker.fetch_sessions.end_all()
    assert scene.end() == texts
    assert len(scene.state.isr) == 2
