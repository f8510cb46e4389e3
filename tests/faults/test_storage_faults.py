"""Damaged directories: a torn tail, a flipped bit, missing or wrong indexes and checkpoints, an emptied directory, another cluster's directory.

The tests share one cluster; each has its own topic. No acknowledged record may be lost, and a replica that lost some must not lead before it has them
again. Full disks are in test_full_disk.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from brokerd.storage import checkpoints
from brokerd.storage.meta_properties import META
from brokerd.storage.os_disk import OsDisk
from brokerd.storage.recovery import EPOCHS
from brokerd.storage.snapshots import Snapshots
from brokerd.wire import records
from tests import log_phrases
from tests.cluster.local import LocalCluster, wait_for
from tests.faults.scene import (
    LogLines,
    check_records,
    cluster,
    create,
    folder_of,
    heal_cluster,
    high_watermark_on_disk,
    leader,
    produce,
    segments,
    state,
    values_of,
    wait_for_equal_logs,
    wait_until_recovered,
)

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]
SEGMENT_BYTES = 16_384
RECORDS = 120
"""Records of 300 bytes, one batch each: two closed segments and an active one."""
UNVOUCHED = 100
"""A closed segment is flushed in the background and trusted from then on. Later segments are checked at the next start after a kill."""


@pytest.fixture(scope="module")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    settings = {"replica.high.watermark.checkpoint.interval.ms": "200", "replica.lag.time.max.ms": "10000"}
    with cluster(tmp_path_factory.mktemp("storage"), 3, **settings) as running:
        yield running


@pytest.fixture
def c(shared_cluster: LocalCluster) -> LocalCluster:
    return heal_cluster(shared_cluster)


def written_topics(c: LocalCluster, *names: str) -> dict[str, list[str]]:
    """Topics of several segments whose records are all acknowledged and below every checkpointed high watermark."""
    written = {name: [f"{name}-{i:04d}".ljust(300, ".") for i in range(RECORDS)] for name in names}
    for name, values in written.items():
        create(c, name, min_insync=2, segment_bytes=SEGMENT_BYTES, index_interval_bytes=1024)
        produce(c, name, values[:UNVOUCHED], batch_num_messages=1)
    folders = [folder_of(c, i, name) for i in c.ports for name in names]
    wait_for(
        lambda: all(trusted_offset(f) >= int(active_segment(f).stem) for f in folders),
        "the flush of the closed segments",
    )
    for name, values in written.items():
        produce(c, name, values[UNVOUCHED:], batch_num_messages=1)
    for i in c.ports:
        wait_for(
            lambda i=i: all(high_watermark_on_disk(c, i, n) == RECORDS for n in names), "the high watermarks on disk"
        )  # type: ignore[misc]
    return written


def active_segment(folder: Path) -> Path:
    found = sorted(folder.glob("*.log"))
    assert len(found) > 2, "too few segments: the scenario did not happen"
    return found[-1]


def trusted_offset(folder: Path) -> int:
    """The offset below which a start does not check the log, even after an unclean shutdown."""
    snapshots = Snapshots(folder, OsDisk())
    found = [snapshots.read(int(p.stem)) for p in folder.glob("*.snapshot")]
    return max((s.offset for s in found if s is not None and s.flushed), default=0)


def tear_last_batch(folder: Path) -> None:
    """Leaves half of the last batch, as an interrupted write does."""
    path = active_segment(folder)
    data = path.read_bytes()
    *_, last = records.batches(memoryview(data))
    path.write_bytes(data[: last[0] + last[1].size // 2])


def flip(path: Path, offset: int) -> None:
    """Flips one bit in the records of the batch at `offset`, in place: a running broker reads it too."""
    data = path.read_bytes()
    at, header = next((at, h) for at, h in records.batches(memoryview(data)) if h.base_offset == offset)
    with open(path, "r+b") as f:
        f.seek(at + header.size - 3)
        f.write(bytes([data[at + header.size - 3] ^ 0x10]))


def flip_in_the_middle(folder: Path) -> None:
    flip(active_segment(folder), RECORDS - 10)


def empty_folder(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


LOSSES = {
    tear_last_batch: "ends at 119, below its high watermark 120",
    flip_in_the_middle: "is damaged at offset 110",
    empty_folder: "ends at 0, below its high watermark 120",
}


def test_a_replica_that_lost_acknowledged_records_does_not_lead_and_recovers_from_the_others(c: LocalCluster) -> None:
    """All brokers die. The broker with the damaged log restarts first and alone. (A deleted directory is R10.)"""
    written = written_topics(c, *(damage.__name__ for damage in LOSSES))
    for i in c.ports:
        c.kill(f"broker-{i}")
    for damage in LOSSES:
        damage(folder_of(c, 1, damage.__name__))
    before, log_lines = c.image.broker_epoch(1), LogLines(c, "broker-1")
    c.start_broker(1)
    wait_for(
        lambda: c.image.broker_epoch(1) not in (None, before), "the new registration of the broker with the damaged log"
    )
    wait_for(lambda: len(c.image.live_brokers()) == 1, "the end of the others' sessions")
    for damage, says in LOSSES.items():
        assert leader(c, damage.__name__) == -1, "a replica that lost acknowledged records leads"
        assert 1 not in state(c, damage.__name__).isr_ids
        assert len(log_lines.lines(damage.__name__, says)) == 1
    assert len(log_lines.lines(log_phrases.LEAVES_EVERY_ISR)) == 1
    c.start_broker(2)
    c.start_broker(3)
    wait_until_recovered(c)
    for name, values in written.items():
        produce(c, name, ["after"])
        check_records(c, name, [*values, "after"])


def test_a_torn_write_costs_no_isr_membership(c: LocalCluster) -> None:
    """The torn batch was never acknowledged: it is truncated, and the broker stays in every ISR. A crash must not cost ISR membership."""
    written = written_topics(c, "killed")["killed"]
    torn = leader(c, "killed")
    c.kill(f"broker-{torn}")
    path = active_segment(folder_of(c, torn, "killed"))
    data = path.read_bytes()
    at, header = list(records.batches(memoryview(data)))[-1]
    half = bytearray(data[at : at + header.size // 2])
    half[:8] = RECORDS.to_bytes(8, "big")
    path.write_bytes(data + half)
    log_lines = LogLines(c, f"broker-{torn}")
    c.start_broker(torn)
    log_lines.wait(log_phrases.BROKER_REGISTERED)
    assert len(log_lines.lines(log_phrases.LOG_TRUNCATED, "end_offset=120", f"bytes={len(half)}")) == 1
    assert not log_lines.lines(log_phrases.LEAVES_EVERY_ISR)
    wait_until_recovered(c)
    check_records(c, "killed", written)


def test_missing_and_wrong_indexes_and_snapshots_cost_no_record_and_no_isr_membership(c: LocalCluster) -> None:
    """Indexes, snapshots and checkpoints of every replica are damaged at once: no other replica can repair them, so nothing may depend on them."""
    written = written_topics(c, *SHORTCUTS)
    for i in c.ports:
        c.kill(f"broker-{i}")
    for i in c.ports:
        for name, spoil in SHORTCUTS.items():
            assert spoil(folder_of(c, i, name)), f"nothing to spoil for {name}"
        (c.folder / f"data-{i}" / checkpoints.HIGH_WATERMARKS).unlink()
    spoiled = {p: p.read_bytes() for i in c.ports for p in folder_of(c, i, "wrong-snapshot").glob("*.snapshot")}
    assert len(spoiled) >= len(c.ports)
    log_lines = {i: LogLines(c, f"broker-{i}") for i in c.ports}
    for i in c.ports:
        c.start_broker(i)
    wait_until_recovered(c)
    for name, values in written.items():
        wait_for_equal_logs(c, name)
        assert by_offset(c, name, [119, 79, 39]) == [values[i] for i in (119, 79, 39)]
        produce(c, name, ["after"])
        check_records(c, name, [*values, "after"])
    for i in c.ports:
        assert not log_lines[i].lines(log_phrases.LEAVES_EVERY_ISR)
    # None of the damaged snapshots is left; one of the same name was written since.
    assert not [p for p, damaged in spoiled.items() if p.exists() and p.read_bytes() == damaged]
    # An index is read when a record is searched: by the leader of that time, which may not be the leader now.
    assert any(log_lines[i].lines("wrong-index", "rebuilt") for i in c.ports)


def remove(*suffixes: str) -> Callable[[Path], int]:
    def spoil(folder: Path) -> int:
        for suffix in suffixes:
            found = [p for p in folder.iterdir() if p.name.endswith(suffix)]
            assert found, f"{folder} has no {suffix}"
            for path in found:
                path.unlink()
        return len(suffixes)

    return spoil


def wrong_index(folder: Path) -> int:
    """Every entry but the first points to a position some bytes off its batch."""
    found = 0
    for path in folder.glob("*.index"):
        data = bytearray(path.read_bytes())
        for at in range(8, len(data), 8):
            data[at + 7] ^= 0x05
            found += 1
        path.write_bytes(data)
    return found


def wrong_snapshot(folder: Path) -> int:
    found = list(folder.glob("*.snapshot"))
    for path in found:
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 0x01
        path.write_bytes(data)
    return len(found)


SHORTCUTS: dict[str, Callable[[Path], int]] = {
    "missing": remove(".index", ".timeindex", ".snapshot", EPOCHS, checkpoints.PARTITION_METADATA),
    "wrong-index": wrong_index,
    "wrong-snapshot": wrong_snapshot,
}


def by_offset(c: LocalCluster, name: str, offsets: Sequence[int]) -> list[str]:
    """Reads each record by its own seek, which uses an index."""
    consumer = Consumer({"bootstrap.servers": c.bootstrap, "group.id": "seeker", "log_level": 0})
    out = []
    for offset in offsets:
        consumer.assign([TopicPartition(name, 0, offset)])
        message = consumer.poll(30)
        assert message is not None and not message.error() and message.offset() == offset
        out.append(message.value().decode())
    consumer.close()
    return out


def test_damage_in_a_leaders_log_does_not_spread_and_is_repaired_from_the_others(c: LocalCluster) -> None:
    """A bit flips in the running leader's log, and an emptied follower fetches that batch. The follower rejects the batch, retries, and stays out of the
    ISR. After the damaged leader's death an undamaged replica leads and restores the records that both lost.
    """
    written = written_topics(c, "rotten")["rotten"]
    rotten = leader(c, "rotten")
    emptied, sound = (i for i in c.ports if i != rotten)
    members_before = {member for member in state(c, "rotten").isr if member.broker_id == emptied}
    c.kill(f"broker-{emptied}")
    empty_folder(folder_of(c, emptied, "rotten"))
    flip_in_the_middle(folder_of(c, rotten, "rotten"))
    log_lines = LogLines(c, f"broker-{emptied}")
    c.start_broker(emptied)
    log_lines.wait(f"{log_phrases.APPENDS_SUSPENDED}rotten-0", "the fetched batch at offset 110 is damaged")
    # With its new broker epoch it is never in the ISR. The removal of its old one may be visible here slightly later than on the broker.
    assert {member for member in state(c, "rotten").isr if member.broker_id == emptied} <= members_before
    wait_for(lambda: emptied not in state(c, "rotten").isr_ids, "the emptied replica to leave the ISR")
    assert len(values_of(segments(c, emptied, "rotten"))) <= RECORDS - 10
    damaged_log_lines = LogLines(c, f"broker-{rotten}")
    c.kill(f"broker-{rotten}")
    log_lines.wait(f"{log_phrases.APPENDS_RESUMED}rotten-0")
    assert leader(c, "rotten") == sound
    c.start_broker(rotten)
    damaged_log_lines.wait("rotten-0", "is damaged at offset 110", log_phrases.LEAVES_EVERY_ISR)
    wait_until_recovered(c)
    check_records(c, "rotten", written)


def test_a_directory_of_another_cluster_is_not_served_and_not_changed(c: LocalCluster) -> None:
    written = written_topics(c, "foreign")["foreign"]
    meta = c.folder / "data-3" / META
    wait_for(lambda: "cluster.id=\n" not in meta.read_text(), "the directory to have its cluster id")
    c.kill("broker-3")
    own = meta.read_text()
    cluster_id = next(line for line in own.splitlines() if line.startswith("cluster.id="))
    meta.write_text(own.replace(cluster_id, "cluster.id=somebody-elses"))
    before, log_lines = segments(c, 3, "foreign"), LogLines(c, "broker-3")
    c.start_broker(3)
    log_lines.wait(log_phrases.PRODUCE_SUSPENDED, "belongs to cluster somebody-elses", "ZooKeeper has cluster")
    wait_for(lambda: c.image.broker_epoch(3) is None, "the end of its last session")
    produce(c, "foreign", ["while it is down"])
    assert not c.listening(3)
    assert not log_lines.lines("registered")
    assert segments(c, 3, "foreign") == before
    c.kill("broker-3")
    meta.write_text(own)
    c.start_broker(3)
    wait_until_recovered(c)
    check_records(c, "foreign", [*written, "while it is down"])
