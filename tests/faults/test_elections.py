"""Elections after the loss of the whole ISR or of half the cluster, and what readers see of them: R5, R11, R12, R13, R19.

All tests but the last share a cluster of three. A power failure is simulated by an older copy of a broker's directory and another kernel boot id.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from brokerd.storage.checkpoints import HIGH_WATERMARKS
from brokerd.storage.meta_properties import META
from brokerd.wire.errors import ErrorCode
from controlplane.clients.broker_samples import TruncationSample, sample_broker
from controlplane.clients.connection import KafkaConnection
from controlplane.controller.events import DesiredTopic
from tests import log_phrases
from tests.cluster.local import LocalCluster, Rows, wait_for
from tests.faults.raw import RawConnection
from tests.faults.scene import (
    LogLines,
    attempt,
    check_records,
    cluster,
    create,
    heal_cluster,
    leader,
    produce,
    state,
    values_of,
    wait_for_equal_logs,
    wait_until_recovered,
)

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    settings = {"replica.high.watermark.checkpoint.interval.ms": "200", "replica.lag.time.max.ms": "3000"}
    with cluster(tmp_path_factory.mktemp("elections"), 3, **settings) as running:
        yield running


@pytest.fixture
def c(shared_cluster: LocalCluster) -> LocalCluster:
    return heal_cluster(shared_cluster, delete_topics=True)


def numbers(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{i}" for i in range(count)]


def restart_alone(c: LocalCluster, broker_id: int) -> None:
    before = c.image.broker_epoch(broker_id)
    c.start_broker(broker_id)
    wait_for(lambda: c.image.broker_epoch(broker_id) not in (None, before), f"broker {broker_id}'s new registration")
    wait_for(lambda: len(c.image.live_brokers()) == 1, "the end of the others' sessions")


def test_r5_a_leader_with_a_wiped_disk_neither_leads_nor_halts_the_others(c: LocalCluster) -> None:
    """KAFKA-3410: followers ahead of an emptied leader halted. The partition stays offline until an ISR member is back, and copies everything from it."""
    create(c, "r5", min_insync=2, replicas=(1, 2, 3))
    written = numbers("r", 50)
    produce(c, "r5", written)
    create(c, "r5-unclean", replicas=(1, 2, 3), unclean_leader_election_enable="true")
    produce(c, "r5-unclean", written)
    for i in c.ports:
        c.kill(f"broker-{i}")
    shutil.rmtree(c.folder / "data-1")
    restart_alone(c, 1)
    assert leader(c, "r5") == -1, "an empty replica leads: all acknowledged records are lost"
    wait_for(lambda: leader(c, "r5-unclean") == 1, "an empty leader, where that is allowed")
    c.start_broker(2)
    wait_for(lambda: leader(c, "r5") == 2, "an ISR member to lead")
    c.start_broker(3)
    wait_until_recovered(c)
    assert all(c.processes[f"broker-{i}"].poll() is None for i in c.ports)
    check_records(c, "r5", written)
    assert values_of(wait_for_equal_logs(c, "r5-unclean")) == []


def test_r11_the_last_isr_member_loses_its_tail_and_no_committed_record_is_lost(c: LocalCluster) -> None:
    """KIP-966: both followers leave a leader alone, below min.insync.replicas. It loses power and its tail. The committed records must win."""
    create(c, "r11", min_insync=2, replicas=(1, 2, 3))
    produce(c, "r11", numbers("a", 20))
    c.kill("broker-1")
    older = c.folder / "older"
    shutil.copytree(c.folder / "data-1", older)
    c.start_broker(1)
    wait_until_recovered(c)
    wait_for(lambda: leader(c, "r11") == 1, "the preferred leader to lead again")
    produce(c, "r11", numbers("b", 20))
    c.kill("broker-2")
    c.kill("broker-3")
    wait_for(lambda: set(state(c, "r11").isr_ids) == {1}, "the last replica standing")
    assert attempt(c, "r11", ["alone"], message_timeout_ms=1_500), "a write was acknowledged below min.insync.replicas"
    c.kill("broker-1")
    shutil.rmtree(c.folder / "data-1")
    older.rename(c.folder / "data-1")
    after_a_power_cut(c.folder / "data-1")
    restart_alone(c, 1)
    assert leader(c, "r11") == -1, "it leads without records that it had acknowledged"
    c.start_broker(2)
    c.start_broker(3)
    wait_until_recovered(c)
    check_records(c, "r11", numbers("a", 20) + numbers("b", 20))


def after_a_power_cut(folder: Path) -> None:
    meta = folder / META
    lines = [f"boot.id={uuid4()}" if x.startswith("boot.id=") else x for x in meta.read_text().splitlines()]
    meta.write_text("\n".join(lines) + "\n")


def test_r19_an_unclean_election_happens_only_if_allowed_and_its_loss_is_reported(c: LocalCluster) -> None:
    """The only in-sync replica is dead. A replica without its last records is alive."""
    for name, allowed in (("clean", "false"), ("unclean", "true")):
        create(c, name, replicas=(1, 2), unclean_leader_election_enable=allowed)
        produce(c, name, numbers("both", 10))
    c.kill("broker-2")
    for name in ("clean", "unclean"):
        wait_for(lambda name=name: set(state(c, name).isr_ids) == {1}, "the ISR without broker 2")  # type: ignore[misc]
        produce(c, name, numbers("one", 5))
    checkpoint = c.folder / "data-1" / HIGH_WATERMARKS
    wait_for(lambda: "unclean 0 15" in checkpoint.read_text(), "the high watermark on the disk")
    c.rows.reports.clear()
    c.kill("broker-1")
    c.start_broker(2)
    wait_for(lambda: leader(c, "unclean") == 2, "the unclean election")
    assert leader(c, "clean") == -1
    # The controller reports the election after the brokers may know the leader.
    reported = wait_for(lambda: [r for r in c.rows.reports if r.kind == "unclean"], "the report of the election")
    assert {str(r.subject) for r in reported} == {"partition unclean-0"}
    assert "unclean leader election: broker 2 was elected" in reported[0].text
    log_lines = LogLines(c, "broker-1")
    c.start_broker(1)
    wait_until_recovered(c)
    log_lines.wait(f"{log_phrases.TRUNCATED}unclean-0 end=15 new_end=10")
    topic_id = c.image.topic_ids["unclean"]
    (lost,) = wait_for(lambda: truncations(c, 1, topic_id), "the truncation in the response of the broker")
    assert (lost.first_offset, lost.end_offset, lost.high_watermark) == (10, 15, 15)
    assert lost.leader_epoch == state(c, "unclean").leader_epoch
    assert abs(lost.at_ms - time.time() * 1000) < 60_000 and not truncations(c, 2, topic_id)
    assert values_of(wait_for_equal_logs(c, "unclean")) == numbers("both", 10)
    assert values_of(wait_for_equal_logs(c, "clean")) == numbers("both", 10) + numbers("one", 5)


def truncations(c: LocalCluster, broker_id: int, topic_id: UUID) -> list[TruncationSample]:
    """As the control plane reads them from the broker. A broker also reports those of earlier tests, after each restart."""
    found = sample_broker(KafkaConnection("127.0.0.1", c.ports[broker_id]), broker_id, {}, {}, with_sizes=True)
    assert found.truncations is not None
    return [t for t in found.truncations if t.topic_id == topic_id]


@pytest.mark.long
def test_r12_the_end_offset_that_a_consumer_sees_never_goes_back(c: LocalCluster) -> None:
    """KIP-207: the leader dies twice while records arrive. A time without an end offset is allowed."""
    create(c, "r12", min_insync=2, replicas=(1, 2, 3))
    produce(c, "r12", ["first"])
    stop, reported, read = threading.Event(), [1], []

    def watch_end_offset() -> None:
        consumer = Consumer({"bootstrap.servers": c.bootstrap, "group.id": "r12", "log_level": 0})
        consumer.assign([TopicPartition("r12", 0, 0)])
        while not stop.is_set():
            try:
                reported.append(consumer.get_watermark_offsets(TopicPartition("r12", 0), timeout=1)[1])
            except KafkaException:
                pass
            read.extend(m.offset() for m in consumer.consume(100, 0.05) if not m.error())
        consumer.close()

    looking = threading.Thread(target=watch_end_offset)
    looking.start()
    written = ["first"]
    for turn in range(2):
        written += numbers(f"t{turn}-", 200)
        produce(c, "r12", written[-200:-100], enable_idempotence=True)
        dead = leader(c, "r12")
        c.kill(f"broker-{dead}")
        produce(c, "r12", written[-100:], enable_idempotence=True)
        c.start_broker(dead)
        wait_until_recovered(c)
    wait_for(lambda: len(read) >= len(written), "the consumer to have read all")
    stop.set()
    looking.join(30)
    assert reported == sorted(reported), "the end offset went back"
    assert read == list(range(len(written)))
    check_records(c, "r12", written)


def test_r13_a_producers_state_survives_the_deletion_of_its_records(c: LocalCluster) -> None:
    """KIP-360, KAFKA-5793: the producer's records are deleted, the broker is killed, and the last batch is sent again."""
    create(c, "r13", replicas=(1,), segment_bytes=16_384)
    me = {"producer_id": 4711, "producer_epoch": 0}
    client = RawConnection(c, 1)
    for i in range(60):
        response = client.produce("r13", ["x" * 1000], **me, base_sequence=i)
        assert (response.error_code, response.base_offset) == (ErrorCode.NONE, i)
    admin = AdminClient({"bootstrap.servers": c.bootstrap, "log_level": 0})
    deleted = admin.delete_records([TopicPartition("r13", 0, 60)])
    assert next(iter(deleted.values())).result(30).low_watermark == 60
    c.kill("broker-1")
    c.start_broker(1)
    wait_until_recovered(c)
    client = RawConnection(c, 1)
    response = client.produce("r13", ["x" * 1000], **me, base_sequence=59)
    assert (response.error_code, response.base_offset) == (ErrorCode.NONE, 59), "the duplicate was not recognised"
    response = client.produce("r13", ["next"], **me, base_sequence=60)
    assert (response.error_code, response.base_offset) == (ErrorCode.NONE, 60)


@pytest.mark.long
def test_every_partition_survives_the_loss_of_one_failure_domain(tmp_path: Path) -> None:
    """Two hosts with two brokers each: no partition has both replicas on one host."""
    c = LocalCluster(tmp_path, 4)
    c.internal_topics = ("__consumer_offsets",)  # the only one of its rows, with a placement over both hosts
    c.own_settings = {i: {"failure.domain": "host-a" if i < 3 else "host-b"} for i in c.ports}
    # Three replicas would need a third host. The two brokers that start first may share a host.
    places = {0: (1, 3), 1: (2, 4), 2: (3, 1), 3: (4, 2)}
    c.rows = Rows([DesiredTopic(uuid4(), "__consumer_offsets", 1, False, 4, 2, {"cleanup.policy": "compact"}, places)])
    with c:
        admin = AdminClient({"bootstrap.servers": c.bootstrap, "log_level": 0})
        names = [f"spread{i}" for i in range(3)]
        for created in admin.create_topics([NewTopic(name, 1, 2) for name in names]).values():
            created.result(30)
        for name in names:
            wait_for(lambda name=name: c.image.topic_named(name) and leader(c, name) >= 0, "a leader")  # type: ignore[misc]
            produce(c, name, numbers("before", 20))
        c.kill("broker-1")
        c.kill("broker-2")
        began = time.monotonic()
        wait_for(lambda: all(p.leader in (3, 4) for _, _, p in c.image.each_partition()), "leaders on the other host")
        assert time.monotonic() - began < 20
        for name in names:
            produce(c, name, numbers("meanwhile", 20))
        c.start_broker(1)
        c.start_broker(2)
        wait_until_recovered(c)
        for name in names:
            check_records(c, name, numbers("before", 20) + numbers("meanwhile", 20))
