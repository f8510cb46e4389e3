"""The classic data-loss bugs of ISR replication, reproduced on processes: R1, R2, R3, R8, R10, R20 (docs/safety.md lists them all).

Each test causes the exact order of events that once lost data in other brokers. It then reads back through a client and compares the replicas'
segments byte for byte. Random faults under load are in test_failover.py.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from kazoo.client import KazooClient

from brokerd.coordinator.shard import partition_of
from brokerd.wire import records
from tests import log_phrases
from tests.cluster.local import LocalCluster, wait_for
from tests.faults.scene import (
    cluster,
    create,
    freeze,
    high_watermark_on_disk,
    leader,
    produce,
    read,
    state,
    thaw,
    values_of,
    wait_for_equal_logs,
)

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]
PATIENT = {"zookeeper.session.timeout.ms": "8000", "replica.lag.time.max.ms": "60000"}
"""Long enough for a broker to be down for some seconds and keep its session: these bugs need that window."""


def test_r1_a_restarted_follower_does_not_truncate_to_its_high_watermark_and_then_lead(tmp_path: Path) -> None:
    """KIP-101, first scenario: the follower has an acknowledged record beyond its checkpointed high watermark. It restarts, and the leader dies before it
    has answered a fetch. The record must survive.
    """
    with cluster(tmp_path, 2, **PATIENT) as c:
        create(c, "r1", min_insync=2)
        written = [f"r{i}" for i in range(20)]
        produce(c, "r1", written)
        first = leader(c, "r1")
        follower = 3 - first
        c.kill(f"broker-{follower}")
        assert high_watermark_on_disk(c, follower, "r1") < 20, (
            "the high watermark was checkpointed already: the scenario did not happen"
        )
        freeze(c, f"broker-{first}")
        c.start_broker(follower)
        wait_for(lambda: c.log(f"broker-{follower}").count(log_phrases.METADATA_LOADED) == 2, "the restart")
        c.kill(f"broker-{first}")
        wait_for(lambda: leader(c, "r1") == follower, "the follower to lead")
        c.start_broker(first)  # below min.insync.replicas nothing is committed, so no consumer reads it
        assert values_of(wait_for_equal_logs(c, "r1")) == written
        assert read(c, "r1") == written


def test_r2_logs_with_different_tails_converge_by_leader_epoch(tmp_path: Path) -> None:
    """KIP-101, second scenario: different records at the same offsets. The leader epoch decides, not the length."""
    with cluster(tmp_path, 2, **PATIENT) as c:
        create(c, "r2")
        shared = [f"both{i}" for i in range(10)]
        produce(c, "r2", shared)
        longer = leader(c, "r2")
        shorter = 3 - longer
        freeze(c, f"broker-{shorter}")
        produce(c, "r2", ["alone1", "alone2", "alone3"], acks="1")
        assert set(state(c, "r2").isr_ids) == {1, 2}, "the ISR shrank: the scenario did not happen"
        c.kill(f"broker-{longer}")
        c.kill(f"broker-{shorter}")
        c.start_broker(shorter)
        wait_for(lambda: leader(c, "r2") == shorter, "the shorter replica to lead")
        produce(c, "r2", ["new1", "new2"])
        c.start_broker(longer)
        assert values_of(wait_for_equal_logs(c, "r2")) == [*shared, "new1", "new2"]
        assert log_phrases.TRUNCATED in c.log(f"broker-{longer}")
        assert read(c, "r2") == [*shared, "new1", "new2"]


def test_r3_logs_converge_after_leader_changes_with_an_epoch_missing_on_one_side(tmp_path: Path) -> None:
    """KIP-279: A leads, B leads, A leads again without ever seeing B's epoch. Each wrote one record that the other does not have."""
    with cluster(tmp_path, 2, **{**PATIENT, "zookeeper.session.timeout.ms": "3000"}) as c:
        create(c, "r3", min_insync=2)  # a replica that leaves the ISR below this size stays electable
        produce(c, "r3", ["both"])
        a = leader(c, "r3")
        b = 3 - a
        freeze(c, f"broker-{b}")
        produce(c, "r3", ["a, first epoch"], acks="1")
        c.kill(f"broker-{a}")
        thaw(c, f"broker-{b}")
        wait_for(lambda: leader(c, "r3") == b, "B to lead")
        produce(c, "r3", ["b, second epoch"], acks="1")
        freeze(c, f"broker-{b}")
        c.start_broker(a)
        wait_for(lambda: leader(c, "r3") == a, "A to lead again")
        produce(c, "r3", ["a, third epoch"], acks="1")
        epochs = state(c, "r3").leader_epoch
        thaw(c, f"broker-{b}")
        data = wait_for_equal_logs(c, "r3")
        assert values_of(data) == ["both", "a, first epoch", "a, third epoch"]
        written_in = [h.partition_leader_epoch for _, h in records.batches(memoryview(data))]
        assert written_in == sorted(written_in)
        assert written_in[-1] == epochs
        assert read(c, "r3") == values_of(data)


def test_r8_a_broker_that_lost_its_session_registers_and_joins_the_isr_again(tmp_path: Path) -> None:
    """KAFKA-1387, KAFKA-7165: a broker frozen past its session, and one killed and restarted within it. Each time one registration, with a new epoch."""
    with cluster(tmp_path, 2, **{**PATIENT, "zookeeper.session.timeout.ms": "3000"}) as c:
        create(c, "r8")
        produce(c, "r8", ["before"])
        zk = KazooClient(f"127.0.0.1:{c.zookeeper_port}")
        zk.start(timeout=20)
        try:
            registrations = next(p for p in ("/brokers/ids", "/brokers") if zk.exists(p))

            def registration_epoch() -> int:
                names = [n for n in zk.get_children(registrations) if n.split("-")[0] == "1"]
                assert len(names) <= 1, names
                stat = zk.exists(f"{registrations}/{names[0]}") if names else None
                return stat.czxid if stat else 0

            first = wait_for(registration_epoch, "the registration of broker 1")
            freeze(c, "broker-1")
            wait_for(lambda: not registration_epoch(), "the session's end")
            thaw(c, "broker-1")
            second = wait_for(registration_epoch, "broker 1 to register again")
            assert second > first
            c.kill("broker-1")
            c.start_broker(1)  # the session of the killed process is still open
            third = wait_for(
                lambda: (s := registration_epoch()) > second and s, "broker 1 to take over its registration"
            )
            time.sleep(4)  # the end of the old session must not remove the new registration
            assert registration_epoch() == third
            wait_for(lambda: len(state(c, "r8").isr) == 2, "the full ISR")
            assert {s.broker_epoch for s in state(c, "r8").isr if s.broker_id == 1} == {third}
            produce(c, "r8", ["after"])
            assert read(c, "r8") == ["before", "after"]
        finally:
            zk.stop()
            zk.close()


def test_r10_an_emptied_replica_joins_no_isr_before_it_has_caught_up(tmp_path: Path) -> None:
    """KIP-497, KIP-903, KIP-841: an ISR proposal for a replica is in flight when its broker dies, loses its data and restarts at once."""
    settings = {"zookeeper.session.timeout.ms": "6000", "replica.lag.time.max.ms": "2000"}
    with cluster(tmp_path, 2, **settings) as c:
        create(c, "r10")
        written = [f"first{i}" for i in range(500)]
        produce(c, "r10", written)
        keeper = leader(c, "r10")
        emptied = 3 - keeper
        wait_for(lambda: high_watermark_on_disk(c, emptied, "r10") > 0, "the follower's checkpoint")
        before = c.image.broker_epoch(emptied)
        freeze(c, f"broker-{emptied}")
        wait_for(lambda: set(state(c, "r10").isr_ids) == {keeper}, "the ISR without it", 30)
        freeze(c, "zookeeper")  # proposals of the leader stay in flight from here on
        thaw(c, f"broker-{emptied}")
        time.sleep(1.0)  # it fetches, catches up and is proposed
        c.kill(f"broker-{emptied}")
        shutil.rmtree(c.folder / f"data-{emptied}" / "r10-0")
        freeze(c, f"broker-{keeper}")  # so that it cannot catch up quickly
        c.start_broker(emptied)
        thaw(c, "zookeeper")
        wait_for(
            lambda: c.image.broker_epoch(emptied) not in (None, before), "the new registration of the emptied broker"
        )
        c.kill(f"broker-{keeper}")
        wait_for(lambda: c.image.broker_epoch(keeper) is None, "the end of the only full replica")
        time.sleep(1.0)
        assert leader(c, "r10") == -1, "an empty replica leads: all acknowledged records are lost"
        assert log_phrases.REPLICAS_MISSING in c.log(f"broker-{emptied}")
        c.start_broker(keeper)
        assert values_of(wait_for_equal_logs(c, "r10")) == written
        assert read(c, "r10") == written


def test_r20_an_acknowledged_commit_survives_its_coordinator(tmp_path: Path) -> None:
    """The leader of the group's partition of __consumer_offsets is killed again and again while offsets are committed."""
    with cluster(tmp_path, 3) as c:
        create(c, "r20", min_insync=2)
        produce(c, "r20", ["x"] * 10)
        settings = {"bootstrap.servers": c.bootstrap, "group.id": "r20", "enable.auto.commit": False, "log_level": 0}
        consumer = Consumer(settings)
        partition = TopicPartition("r20", 0)
        acknowledged = number = 0

        def commit() -> bool:
            nonlocal acknowledged, number
            number += 1
            try:
                consumer.commit(offsets=[TopicPartition("r20", 0, number)], asynchronous=False)
            except Exception:
                return False
            acknowledged = number
            return True

        wait_for(commit, "the first commit")
        for _ in range(3):
            until = time.monotonic() + 1
            while time.monotonic() < until:
                commit()
            victim = coordinator(c, "r20")
            c.kill(f"broker-{victim}")
            wait_for(commit, "a commit after the coordinator's death")
            confirmed = acknowledged
            found = wait_for(lambda: committed_offset(settings, partition), "the committed offset")
            assert confirmed <= found <= number, f"acknowledged up to {confirmed}, asked up to {number}, kept {found}"
            c.start_broker(victim)
            wait_for(lambda: all(len(p.isr) == 3 for _, _, p in c.image.each_partition()), "the full ISR")
        consumer.close()


def coordinator(cluster: LocalCluster, group: str) -> int:
    topic = cluster.image.topic_named("__consumer_offsets")
    assert topic is not None
    return topic.partitions[partition_of(group, topic.partition_count)].leader


def committed_offset(settings: dict[str, object], partition: TopicPartition) -> int:
    reader = Consumer(settings)
    try:
        return int(reader.committed([partition], timeout=10)[0].offset)
    except Exception:
        return 0
    finally:
        reader.close()
