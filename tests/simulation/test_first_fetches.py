"""The first acknowledgements of a new topic, and after an election, do not wait for the end of a follower's waiting fetch (500 ms)."""

from __future__ import annotations

import pytest

from brokerd.cluster.model import TopicPartition
from brokerd.replication.first_fetches import FirstFetches
from brokerd.wire import records
from brokerd.wire.apis import ApiKey
from brokerd.wire.messages import ProduceRequest
from brokerd.wire.records import Record
from tests.simulation.scene import Scene
from tests.simulation.world import MS

WAIT_MS_MAX = 250
"""Half of replica.fetch.wait.max.ms. The delays of network, disks and ZooKeeper in these worlds are far shorter."""
SEEDS = range(1, 7)


def acknowledgement_ms(scene: Scene, topic: str, leader: int) -> float:
    """Duration of a produce request with acks=all."""
    data = records.build([Record(0, scene.client.clock().wall_ms, None, b"first")])
    partition = ProduceRequest.PartitionProduceData(index=0, records=bytes(data))
    topics = [ProduceRequest.TopicProduceData(name=topic, partition_data=[partition])]
    errors: list[int] = []
    began_us = scene.world.now_us
    scene.client.enter(
        lambda: scene.client.send_request(
            leader,
            ApiKey.PRODUCE,
            9,
            ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=topics),
            lambda body: errors.append(body.responses[0].partition_responses[0].error_code),
        )
    )
    scene.cluster.run_until(lambda: bool(errors), 10, "the acknowledgement")
    assert errors == [0]
    return (scene.world.now_us - began_us) / MS


def is_led_by(scene: Scene, broker_id: int, tp: TopicPartition) -> bool:
    replica = scene.cluster.brokers[broker_id].broker.replica_manager.hosted.get(tp)
    return replica is not None and replica.leads


def longest_of_new_topics(seed: int) -> float:
    """The topics are led by several brokers. Each broker waits for records of the idle topic `t` or of an earlier new topic."""
    scene = Scene(seed, 2, brokers=3)
    scene.pass_ms(3_000)
    longest = 0.0
    for name in ("first", "second", "third"):
        tp = TopicPartition(scene.cluster.want_topic(name, 1, 3, min_insync_replicas="2"), 0)

        def is_led(tp: TopicPartition = tp) -> bool:
            state = scene.cluster.image.partition(tp)
            return state is not None and state.leader >= 0 and is_led_by(scene, state.leader, tp)

        scene.cluster.run_until(is_led, 20, "a leader")
        state = scene.cluster.image.partition(tp)
        assert state is not None
        longest = max(longest, acknowledgement_ms(scene, name, state.leader))
    return longest


def after_an_election(seed: int) -> float:
    """Every broker leads other idle topics, so the fetches of all followers wait."""
    scene = Scene(seed, 2, brokers=3)
    for name in ("first", "second", "third"):
        scene.cluster.want_topic(name, 1, 3)
    scene.cluster.run_until(scene.cluster.is_settled, 30, "the topics")
    scene.write("before")
    scene.pass_ms(3_000)
    old = scene.state.leader
    scene.cluster.brokers[old].kill()
    scene.cluster.run_until(
        lambda: scene.state.leader not in (old, -1) and is_led_by(scene, scene.state.leader, scene.tp),
        30,
        "a new leader",
    )
    return acknowledgement_ms(scene, "t", scene.state.leader)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_new_topic_acknowledges_before_waiting_fetches_time_out(seed: int) -> None:
    assert longest_of_new_topics(seed) < WAIT_MS_MAX


@pytest.mark.parametrize("seed", SEEDS)
def test_a_new_leader_acknowledges_before_waiting_fetches_time_out(seed: int) -> None:
    assert after_an_election(seed) < WAIT_MS_MAX


def test_the_test_detects_a_leader_that_expects_no_fetches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FirstFetches, "on_partition_changed", lambda first_fetches, replica, now_ms: None)
    assert max(map(longest_of_new_topics, SEEDS)) > WAIT_MS_MAX
    assert max(map(after_an_election, SEEDS)) > WAIT_MS_MAX
