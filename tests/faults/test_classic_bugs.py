"""The classic data-loss bugs of ISR replication, provoked on processes: R1, R2, R3, R8, R10, R20 (docs/safety.md names them all).

Each test drives the very order of events that once lost data in other brokers; the verifier reads back through a client and compares the
replicas' segments byte for byte. Random faults under load are test_failover's.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from kazoo.client import KazooClient

from brokerd.coordinator.leading import partition_of
from brokerd.wire import records
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
"""A broker may be away for some seconds and keep its seat: that is the window in which these bugs live."""


def test_r1_a_follower_that_restarts_does_not_cut_to_its_high_watermark_and_then_lead(tmp_path: Path) -> None:
    """KIP-101, first scenario: the follower holds an acknowledged record beyond the high watermark it wrote down; it restarts, and the
    leader dies before it has answered a single fetch. The record must be there."""
    with cluster(tmp_path, 2, **PATIENT) as c:
        create(c, "r1", min_insync=2)
        written = [f"r{i}" for i in range(20)]
        produce(c, "r1", written)
        first = leader(c, "r1")
        follower = 3 - first
        c.kill(f"broker-{follower}")
        assert high_watermark_on_disk(c, follower, "r1") < 20, (
            "the high watermark was written down already: the scenario did not happen"
        )
        freeze(c, f"broker-{first}")
        c.start_broker(follower)
        wait_for(lambda: c.log(f"broker-{follower}").count("metadata loaded") == 2, "the restart")
        c.kill(f"broker-{first}")
        wait_for(lambda: leader(c, "r1") == follower, "the follower to lead")
        c.start_broker(first)  # below min.insync.replicas nothing counts as committed, so nothing is shown
        assert values_of(wait_for_equal_logs(c, "r1")) == written
        assert read(c, "r1") == written


def test_r2_after_both_died_with_tails_of_different_length_the_logs_converge_by_epoch(tmp_path: Path) -> None:
    """KIP-101, second scenario: other records at the same offsets. The leader's epoch decides, not the length."""
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
        wait_for(lambda: leader(c, "r2") == shorter, "the shorter one to lead")
        produce(c, "r2", ["new1", "new2"])
        c.start_broker(longer)
        assert values_of(wait_for_equal_logs(c, "r2")) == [*shared, "new1", "new2"]
        assert "truncated from" in c.log(f"broker-{longer}")
        assert read(c, "r2") == [*shared, "new1", "new2"]


def test_r3_leadership_to_and_fro_with_an_epoch_missing_on_one_side_still_converges(tmp_path: Path) -> None:
    """KIP-279: A leads, B leads, A leads again without ever having seen B's epoch; each wrote one record that the other has not."""
    with cluster(tmp_path, 2, **{**PATIENT, "zookeeper.session.timeout.ms": "3000"}) as c:
        create(c, "r3", min_insync=2)  # who leaves the ISR below this stays electable
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


def test_r8_a_broker_whose_session_was_lost_takes_its_own_seat_again(tmp_path: Path) -> None:
    """KAFKA-1387, KAFKA-7165: frozen past its session, and killed and back within it. One seat each time, with a new number."""
    with cluster(tmp_path, 2, **{**PATIENT, "zookeeper.session.timeout.ms": "3000"}) as c:
        create(c, "r8")
        produce(c, "r8", ["before"])
        zk = KazooClient(f"127.0.0.1:{c.zookeeper_port}")
        zk.start(timeout=20)
        try:
            seats = next(p for p in ("/brokers/ids", "/brokers") if zk.exists(p))

            def seat() -> int:
                names = [n for n in zk.get_children(seats) if n.split("-")[0] == "1"]
                assert len(names) <= 1, names
                stat = zk.exists(f"{seats}/{names[0]}") if names else None
                return stat.czxid if stat else 0

            first = wait_for(seat, "broker 1's seat")
            freeze(c, "broker-1")
            wait_for(lambda: not seat(), "the session's end")
            thaw(c, "broker-1")
            second = wait_for(seat, "broker 1 to sit again")
            assert second > first
            c.kill("broker-1")
            c.start_broker(1)  # while the dead one's session lives on
            third = wait_for(lambda: (s := seat()) > second and s, "broker 1 to take its own seat over")
            time.sleep(4)  # the dead session's end must not take the new seat with it
            assert seat() == third
            wait_for(lambda: len(state(c, "r8").isr) == 2, "the full ISR")
            assert {s.incarnation for s in state(c, "r8").isr if s.broker_id == 1} == {third}
            produce(c, "r8", ["after"])
            assert read(c, "r8") == ["before", "after"]
        finally:
            zk.stop()
            zk.close()


def test_r10_a_replica_that_comes_back_empty_is_in_no_isr_before_it_has_caught_up(tmp_path: Path) -> None:
    """KIP-497, KIP-903, KIP-841: the proposal to take it in is on its way when it dies, is emptied, and is back at once."""
    settings = {"zookeeper.session.timeout.ms": "6000", "replica.lag.time.max.ms": "2000"}
    with cluster(tmp_path, 2, **settings) as c:
        create(c, "r10")
        written = [f"first{i}" for i in range(500)]
        produce(c, "r10", written)
        keeper = leader(c, "r10")
        emptied = 3 - keeper
        wait_for(lambda: high_watermark_on_disk(c, emptied, "r10") > 0, "the follower's checkpoint")
        before = c.image.incarnation(emptied)
        freeze(c, f"broker-{emptied}")
        wait_for(lambda: set(state(c, "r10").isr_ids) == {keeper}, "the ISR without it", 30)
        freeze(c, "zookeeper")  # what the leader proposes from here on stays on its way
        thaw(c, f"broker-{emptied}")
        time.sleep(1.0)  # it fetches, it is in step, it is proposed
        c.kill(f"broker-{emptied}")
        shutil.rmtree(c.folder / f"data-{emptied}" / "r10-0")
        freeze(c, f"broker-{keeper}")  # so that it cannot catch up by being quick
        c.start_broker(emptied)
        thaw(c, "zookeeper")
        wait_for(lambda: c.image.incarnation(emptied) not in (None, before), "the emptied one's new seat")
        c.kill(f"broker-{keeper}")
        wait_for(lambda: c.image.incarnation(keeper) is None, "the end of the only full copy")
        time.sleep(1.0)
        assert leader(c, "r10") == -1, "an empty copy leads: everything acknowledged is lost"
        assert "gone from" in c.log(f"broker-{emptied}")
        c.start_broker(keeper)
        assert values_of(wait_for_equal_logs(c, "r10")) == written
        assert read(c, "r10") == written


def test_r20_a_commit_that_was_acknowledged_survives_its_coordinator(tmp_path: Path) -> None:
    """The leader of the group's partition of __consumer_offsets is killed again and again while offsets are committed."""
    with cluster(tmp_path, 3) as c:
        create(c, "r20", min_insync=2)
        produce(c, "r20", ["x"] * 10)
        settings = {"bootstrap.servers": c.bootstrap, "group.id": "r20", "enable.auto.commit": False, "log_level": 0}
        consumer = Consumer(settings)
        place = TopicPartition("r20", 0)
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
            told = acknowledged
            found = wait_for(lambda: _committed(settings, place), "the committed offset")
            assert told <= found <= number, f"acknowledged up to {told}, asked up to {number}, kept {found}"
            c.start_broker(victim)
            wait_for(lambda: all(len(p.isr) == 3 for _, _, p in c.image.each_partition()), "the full ISR")
        consumer.close()


def coordinator(cluster: LocalCluster, group: str) -> int:
    topic = cluster.image.topic_named("__consumer_offsets")
    assert topic is not None
    return topic.partitions[partition_of(group, topic.partition_count)].leader


def _committed(settings: dict[str, object], place: TopicPartition) -> int:
    reader = Consumer(settings)
    try:
        return int(reader.committed([place], timeout=10)[0].offset)
    except Exception:
        return 0
    finally:
        reader.close()
