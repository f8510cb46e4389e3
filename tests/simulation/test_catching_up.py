"""Replicas that catch up use another connection than those in the ISR: nobody waits for their records, and they return to the connection of the others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from brokerd.cluster.model import TopicPartition
from brokerd.replication.catch_up_pacing import CatchUpProgress
from brokerd.replication.fetch_client import SendFetch
from brokerd.replication.fetcher_manager import BEHIND_RESPONSES_MAX, FetcherManager, LeaderFetcher
from tests.simulation.busy_cores import busy_thread, count_pauses, live
from tests.simulation.run import run
from tests.simulation.scene import Scene
from tests.simulation.world import MS

SMALL = {
    "replica.lag.time.max.ms": "3000",
    "replica.fetch.max.bytes": "1024",
    "max.incremental.fetch.session.cache.slots": "1000",
}
"""A response has a few records of a partition, so that a lagging replica needs many of them."""
STALL_MS = 4_000


@contextmanager
def counted_fetches(patch: pytest.MonkeyPatch) -> Iterator[list[tuple[bool, SendFetch]]]:
    """(whether the connection is that of replicas that catch up, request) of every follower."""
    sent: list[tuple[bool, SendFetch]] = []
    send = FetcherManager._send

    def record_and_send(fetchers: FetcherManager, fetcher: LeaderFetcher, fetch: SendFetch) -> None:
        sent.append((fetcher.catching_up, fetch))
        send(fetchers, fetcher, fetch)

    with patch.context() as patched:
        patched.setattr(FetcherManager, "_send", record_and_send)
        yield sent


def count_fetches_of(sent: list[tuple[bool, SendFetch]], tp: TopicPartition, *, catching_up: bool) -> int:
    return sum(kind is catching_up and any(p.tp == tp for p in fetch.partitions) for kind, fetch in sent)


@pytest.mark.parametrize("seed", range(1, 9))
def test_a_restarted_replica_catches_up_and_keeps_its_isr_while_it_is_idle(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.simulation.cluster.SESSIONS_LAST_US", (1 << 60, 1 << 60))
    scene = Scene(seed, 1, SMALL)
    leader, follower = scene.pair()
    follower.kill()
    scene.cluster.run_until(lambda: scene.state.isr_ids == (leader.broker_id,), 10, "a smaller ISR")
    texts = [f"{i:0300}" for i in range(30)]
    scene.write(*texts)
    earlier = len(leader.broker.fetch_sessions)  # that of the killed broker
    with counted_fetches(monkeypatch) as sent:
        follower.start()
        scene.cluster.run_until(lambda: len(scene.state.isr) == 2, 20, "a complete ISR")
        scene.pass_ms(1_000)
        assert count_fetches_of(sent, scene.tp, catching_up=True) > 5
        assert count_fetches_of(sent, scene.tp, catching_up=False) <= 3, (
            "it changes the connection once it has all records"
        )
        (ended,) = [fetch for kind, fetch in sent if kind and fetch.forgotten]
        assert ended.forgotten == (scene.tp,) and not ended.partitions
        before = scene.state
        scene.pass_ms(20_000)
        assert scene.state == before, "the idle replica has left the ISR"
    assert len(leader.broker.fetch_sessions) == earlier + 1, "the session of the catch-up has not ended"
    assert scene.end() == texts


@pytest.mark.parametrize("seed", range(1, 4))
def test_acknowledgements_do_not_wait_for_a_replica_that_catches_up(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new replica is on a broker that also follows a partition with acks=all, and the leader's responses with old records take long."""
    scene = Scene(seed, 2, SMALL)
    leader, follower = scene.pair()
    respond = FetcherManager._on_response

    def respond_late(fetchers: FetcherManager, fetcher: LeaderFetcher, frame: Any) -> None:
        if fetcher.catching_up:
            fetchers.loop.call_later(STALL_MS, lambda now: respond(fetchers, fetcher, frame))
        else:
            respond(fetchers, fetcher, frame)

    monkeypatch.setattr(FetcherManager, "_on_response", respond_late)
    old = TopicPartition(scene.cluster.want_topic("old", 1, 2), 0)
    scene.cluster.run_until(scene.cluster.is_settled, 30, "the second topic")

    def isr_of_old() -> tuple[int, ...]:
        state = scene.cluster.image.partition(old)
        assert state is not None
        return state.isr_ids

    follower.kill()
    alone = (leader.broker_id,)
    scene.cluster.run_until(lambda: scene.state.isr_ids == isr_of_old() == alone, 10, "smaller ISRs")
    scene.pass_ms(300)  # the leader applies its new role
    for n in range(30):
        assert scene.send(leader.broker_id, f"{n:0300}", acks=1, topic="old") == 0
    follower.start()
    scene.cluster.run_until(lambda: len(scene.state.isr) == 2, 60, "a complete ISR of the live partition")
    scene.pass_ms(2 * STALL_MS)  # its first fetch, which has put it into the ISR, is answered together with old records
    began_us = scene.world.now_us
    texts = [f"{i}" for i in range(20)]
    scene.write(*texts)
    assert scene.world.now_us - began_us < STALL_MS * MS / 2
    assert isr_of_old() == alone, "the other replica has caught up too early for this test"
    monkeypatch.setattr(FetcherManager, "_on_response", respond)
    assert scene.end() == texts


@pytest.mark.parametrize("seed", range(1, 4))
def test_a_replica_that_stays_behind_leaves_the_connection_of_the_others(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It left the ISR without a restart, so it follows the partition already."""
    scene = Scene(seed, 1, SMALL)
    scene.write("a")
    leader, follower = scene.pair()
    scene.cluster.network.cut.add((follower.name, leader.name))
    scene.cluster.run_until(lambda: scene.state.isr_ids == (leader.broker_id,), 10, "a smaller ISR")
    texts = [f"{i:0900}" for i in range(2 * BEHIND_RESPONSES_MAX)]
    scene.write(*texts)
    with counted_fetches(monkeypatch) as sent:
        scene.heal()
        scene.cluster.run_until(lambda: len(scene.state.isr) == 2, 30, "a complete ISR")
    assert count_fetches_of(sent, scene.tp, catching_up=True) > BEHIND_RESPONSES_MAX // 2
    assert scene.end() == ["a", *texts]


def catch_up_on_busy_cores(seed: int, min_insync: int, *, producing: bool) -> int:
    """Sum of the pauses in ms until a replica has caught up. All event loops wait for a core all the time."""
    scene = Scene(seed, min_insync, {**SMALL, "replica.fetch.wait.max.ms": "50"})
    other = scene.cluster.want_topic("live", 1, 1)
    scene.cluster.run_until(scene.cluster.is_settled, 30, "the second topic")
    texts = [f"{i:0900}" for i in range(60)]
    leader, follower = scene.pair()
    scene.write("first")
    scene.cluster.network.cut.add((follower.name, leader.name))
    scene.cluster.run_until(lambda: scene.state.isr_ids == (leader.broker_id,), 10, "a smaller ISR")
    for text in texts:
        assert scene.send(leader.broker_id, text, acks=1) == 0
    state = scene.cluster.image.partition(TopicPartition(other, 0))
    assert state is not None
    scene.pass_ms(1_500)
    for node in scene.cluster.brokers.values():
        node.thread_times = busy_thread(scene.world, lambda: 100)
    scene.heal()
    began_us = scene.world.now_us
    while len(scene.state.isr) < 2:
        if producing:
            assert scene.send(state.leader, "live", acks=1, topic="live") == 0
        scene.pass_ms(10)
        assert scene.world.now_us - began_us < 60_000 * MS, "the replica does not catch up"
    return count_pauses(scene.cluster)


@pytest.mark.parametrize("seed", range(1, 5))
def test_a_replica_pauses_while_producers_need_the_cpu(seed: int) -> None:
    assert catch_up_on_busy_cores(seed, 1, producing=True) > 100
    assert catch_up_on_busy_cores(seed, 1, producing=False) == 0
    assert catch_up_on_busy_cores(seed, 2, producing=True) == 0, "producers wait for this replica"


@pytest.mark.parametrize("seed", [2, 8])
def test_replicas_on_busy_cores_catch_up(seed: int) -> None:
    outcome = run(seed, life=live)
    assert outcome.violation is None
    assert outcome.acks


def outrun_replica(seed: int) -> int:
    """Sum of the pauses in ms until a replica has caught up, to which producers write more than it copies with the longest pauses."""
    settings = {**SMALL, "weir.catch.up.min.percent": "1", "replica.fetch.wait.max.ms": "50"}
    scene = Scene(seed, 1, settings)
    leader, follower = scene.pair()
    scene.cluster.network.cut.add((follower.name, leader.name))
    scene.cluster.run_until(lambda: scene.state.isr_ids == (leader.broker_id,), 10, "a smaller ISR")
    for node in scene.cluster.brokers.values():
        node.thread_times = busy_thread(scene.world, lambda: 100)
    texts = [f"{i:0900}" for i in range(60)]
    scene.write(*texts)
    scene.heal()
    began_us = scene.world.now_us
    while len(scene.state.isr) < 2:
        texts.append(f"{len(texts):0900}")
        scene.write(texts[-1])
        scene.pass_ms(10)
        assert scene.world.now_us - began_us < 30_000 * MS, "the replica does not catch up"
    assert scene.end() == texts
    return count_pauses(scene.cluster)


@pytest.mark.parametrize("seed", [1, 2, 4])
def test_a_replica_that_producers_outrun_gets_no_more_pauses(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert outrun_replica(seed) > 1_000
    monkeypatch.setattr(CatchUpProgress, "is_slow", lambda self, tp: False)
    with pytest.raises(AssertionError, match="does not catch up"):
        outrun_replica(seed)
