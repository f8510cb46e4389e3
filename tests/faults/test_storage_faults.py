"""Damaged folders: what a broker does with a torn tail, a flipped bit, lost or lying shortcuts, an emptied folder, somebody else's folder.

One cluster for all; each test has a topic of its own. Acknowledged records are what counts: none may be lost, and a copy that has lost some may not
lead before it has them again. Full disks are test_full_disk's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from brokerd.identity import META
from brokerd.storage import checkpoints
from brokerd.storage.disk import OsDisk
from brokerd.storage.recovery import EPOCHS
from brokerd.storage.snapshots import Snapshots
from brokerd.wire import records
from tests.cluster.local import LocalCluster, wait_for
from tests.faults.scene import (
    Said,
    cluster,
    create,
    folder_of,
    healed,
    high_watermark_on_disk,
    leader,
    produce,
    recovered,
    segments,
    state,
    values_of,
    wait_for_equal_logs,
    whole,
)

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]
SEGMENT_BYTES = 16_384
RECORDS = 120
"""Of 300 bytes, one batch each: two closed segments and an active one."""
UNVOUCHED = 100
"""A closed segment is flushed in the background and vouched for from then on; what follows is checked at the next start after a kill."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    settings = {"replica.high.watermark.checkpoint.interval.ms": "200", "replica.lag.time.max.ms": "10000"}
    with cluster(tmp_path_factory.mktemp("storage"), 3, **settings) as running:
        yield running


@pytest.fixture
def c(shared: LocalCluster) -> LocalCluster:
    return healed(shared)


def written_topics(c: LocalCluster, *names: str) -> dict[str, list[str]]:
    """Topics of several segments, all of it acknowledged and below every written-down high watermark."""
    written = {name: [f"{name}-{i:04d}".ljust(300, ".") for i in range(RECORDS)] for name in names}
    for name, values in written.items():
        create(c, name, min_insync=2, segment_bytes=SEGMENT_BYTES, index_interval_bytes=1024)
        produce(c, name, values[:UNVOUCHED], batch_num_messages=1)
    folders = [folder_of(c, i, name) for i in c.ports for name in names]
    wait_for(lambda: all(vouched_for(f) >= int(active(f).stem) for f in folders), "the flush of what is closed")
    for name, values in written.items():
        produce(c, name, values[UNVOUCHED:], batch_num_messages=1)
    for i in c.ports:
        wait_for(
            lambda i=i: all(high_watermark_on_disk(c, i, n) == RECORDS for n in names), "the high watermarks on disk"
        )  # type: ignore[misc]
    return written


def active(folder: Path) -> Path:
    found = sorted(folder.glob("*.log"))
    assert len(found) > 2, "too few segments: the scenario did not happen"
    return found[-1]


def vouched_for(folder: Path) -> int:
    """The offset below which a start takes the log as it is, whatever came before it."""
    snapshots = Snapshots(folder, OsDisk())
    found = [snapshots.read(int(p.stem)) for p in folder.glob("*.snapshot")]
    return max((s.offset for s in found if s is not None and s.flushed), default=0)


def tear(folder: Path) -> None:
    """The last batch is half there, as a write that never came to its end leaves it."""
    path = active(folder)
    data = path.read_bytes()
    *_, last = records.batches(memoryview(data))
    path.write_bytes(data[: last[0] + last[1].size // 2])


def flip(path: Path, offset: int) -> None:
    """One bit of the records of the batch at `offset`, in place: a running broker sees it too."""
    data = path.read_bytes()
    at, header = next((at, h) for at, h in records.batches(memoryview(data)) if h.base_offset == offset)
    with open(path, "r+b") as f:
        f.seek(at + header.size - 3)
        f.write(bytes([data[at + header.size - 3] ^ 0x10]))


def flip_in_the_middle(folder: Path) -> None:
    flip(active(folder), RECORDS - 10)


def empty(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


LOSSES = {
    tear: "ends at 119, below its high watermark 120",
    flip_in_the_middle: "is damaged at offset 110",
    empty: "ends at 0, below its high watermark 120",
}


def test_a_copy_that_lost_acknowledged_records_may_not_lead_and_is_healed_by_the_others(c: LocalCluster) -> None:
    """All brokers die; the damaged one is the first and only one back. (A folder that is gone altogether is R10.)"""
    written = written_topics(c, *(damage.__name__ for damage in LOSSES))
    for i in c.ports:
        c.kill(f"broker-{i}")
    for damage in LOSSES:
        damage(folder_of(c, 1, damage.__name__))
    before, said = c.image.incarnation(1), Said(c, "broker-1")
    c.start_broker(1)
    wait_for(lambda: c.image.incarnation(1) not in (None, before), "the damaged one's new seat")
    wait_for(lambda: len(c.image.live_brokers()) == 1, "the end of the others' sessions")
    for damage, says in LOSSES.items():
        assert leader(c, damage.__name__) == -1, "a copy that lost acknowledged records leads"
        assert 1 not in state(c, damage.__name__).isr_ids
        assert len(said.lines(damage.__name__, says)) == 1
    assert len(said.lines("gives up its seats in every ISR")) == 1
    c.start_broker(2)
    c.start_broker(3)
    recovered(c)
    for name, values in written.items():
        produce(c, name, ["after"])
        whole(c, name, [*values, "after"])


def test_a_write_that_was_killed_half_way_costs_nobody_a_seat(c: LocalCluster) -> None:
    """The torn batch was never acknowledged: it is cut, and the broker keeps every seat (one seat per kill -9 would be a poor bargain)."""
    written = written_topics(c, "killed")["killed"]
    torn = leader(c, "killed")
    c.kill(f"broker-{torn}")
    path = active(folder_of(c, torn, "killed"))
    data = path.read_bytes()
    at, header = list(records.batches(memoryview(data)))[-1]
    half = bytearray(data[at : at + header.size // 2])
    half[:8] = RECORDS.to_bytes(8, "big")
    path.write_bytes(data + half)
    said = Said(c, f"broker-{torn}")
    c.start_broker(torn)
    said.wait("registered, incarnation")
    assert len(said.lines("cut after offset 120", f"{len(half)} torn bytes")) == 1
    assert not said.lines("gives up its seats")
    recovered(c)
    whole(c, "killed", written)


def test_lost_and_lying_shortcuts_cost_time_and_no_record_nor_seat(c: LocalCluster) -> None:
    """Indexes, snapshots and checkpoints of every copy, damaged at once: nobody is left to heal from, so nothing may depend on them."""
    written = written_topics(c, *SHORTCUTS)
    for i in c.ports:
        c.kill(f"broker-{i}")
    for i in c.ports:
        for name, spoil in SHORTCUTS.items():
            assert spoil(folder_of(c, i, name)), f"nothing to spoil for {name}"
        (c.folder / f"data-{i}" / checkpoints.HIGH_WATERMARKS).unlink()
    said = {i: Said(c, f"broker-{i}") for i in c.ports}
    for i in c.ports:
        c.start_broker(i)
    recovered(c)
    for name, values in written.items():
        wait_for_equal_logs(c, name)
        assert by_offset(c, name, [119, 79, 39]) == [values[i] for i in (119, 79, 39)]
        produce(c, name, ["after"])
        whole(c, name, [*values, "after"])
    for i in c.ports:
        assert not said[i].lines("gives up its seats")
        assert said[i].lines("lying-snapshot", "a snapshot that cannot be trusted is not used")
    assert said[leader(c, "lying-index")].lines("lying-index", "index", "rebuilt")


def remove(*suffixes: str) -> Callable[[Path], int]:
    def spoil(folder: Path) -> int:
        for suffix in suffixes:
            found = [p for p in folder.iterdir() if p.name.endswith(suffix)]
            assert found, f"{folder} has no {suffix}"
            for path in found:
                path.unlink()
        return len(suffixes)

    return spoil


def lying_index(folder: Path) -> int:
    """Every entry but the first points some bytes beside its batch."""
    found = 0
    for path in folder.glob("*.index"):
        data = bytearray(path.read_bytes())
        for at in range(8, len(data), 8):
            data[at + 7] ^= 0x05
            found += 1
        path.write_bytes(data)
    return found


def lying_snapshot(folder: Path) -> int:
    found = list(folder.glob("*.snapshot"))
    for path in found:
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 0x01
        path.write_bytes(data)
    return len(found)


SHORTCUTS: dict[str, Callable[[Path], int]] = {
    "missing": remove(".index", ".timeindex", ".snapshot", EPOCHS, checkpoints.PARTITION_METADATA),
    "lying-index": lying_index,
    "lying-snapshot": lying_snapshot,
}


def by_offset(c: LocalCluster, name: str, offsets: Sequence[int]) -> list[str]:
    """Each record by a seek of its own, which goes through an index."""
    consumer = Consumer({"bootstrap.servers": c.bootstrap, "group.id": "seeker", "log_level": 0})
    out = []
    for offset in offsets:
        consumer.assign([TopicPartition(name, 0, offset)])
        message = consumer.poll(30)
        assert message is not None and not message.error() and message.offset() == offset
        out.append(message.value().decode())
    consumer.close()
    return out


def test_damage_in_a_leader_does_not_spread_and_heals_from_the_others(c: LocalCluster) -> None:
    """A bit flips in the running leader's log, and a follower that was emptied asks for it: it refuses the batch, asks again, and stays out
    of the ISR. When the damaged leader has died an undamaged one leads, and gives back what was lost to both."""
    written = written_topics(c, "rotten")["rotten"]
    rotten = leader(c, "rotten")
    emptied, sound = (i for i in c.ports if i != rotten)
    seats_before = {seat for seat in state(c, "rotten").isr if seat.broker_id == emptied}
    c.kill(f"broker-{emptied}")
    empty(folder_of(c, emptied, "rotten"))
    flip_in_the_middle(folder_of(c, rotten, "rotten"))
    said = Said(c, f"broker-{emptied}")
    c.start_broker(emptied)
    said.wait("rotten-0 takes no records for now", "the fetched batch at offset 110 is damaged")
    # With its new seat it is never in the ISR; that the old one is out may be read here a moment later than there.
    assert {seat for seat in state(c, "rotten").isr if seat.broker_id == emptied} <= seats_before
    wait_for(lambda: emptied not in state(c, "rotten").isr_ids, "the emptied one to be out of the ISR")
    assert len(values_of(segments(c, emptied, "rotten"))) <= RECORDS - 10
    said_by_rotten = Said(c, f"broker-{rotten}")
    c.kill(f"broker-{rotten}")
    said.wait("rotten-0 takes records again")
    assert leader(c, "rotten") == sound
    c.start_broker(rotten)
    said_by_rotten.wait("rotten-0", "is damaged at offset 110", "gives up its seats")
    recovered(c)
    whole(c, "rotten", written)


def test_a_folder_of_another_cluster_serves_nothing_and_loses_nothing(c: LocalCluster) -> None:
    written = written_topics(c, "foreign")["foreign"]
    meta = c.folder / "data-3" / META
    wait_for(lambda: "cluster.id=\n" not in meta.read_text(), "the folder to know its cluster")
    c.kill("broker-3")
    own = meta.read_text()
    cluster_id = next(line for line in own.splitlines() if line.startswith("cluster.id="))
    meta.write_text(own.replace(cluster_id, "cluster.id=somebody-elses"))
    before, said = segments(c, 3, "foreign"), Said(c, "broker-3")
    c.start_broker(3)
    said.wait("serving nothing new", "belongs to cluster somebody-elses", "ZooKeeper holds cluster")
    wait_for(lambda: c.image.incarnation(3) is None, "the end of its last session")
    produce(c, "foreign", ["while it is away"])
    assert not c.listening(3)
    assert not said.lines("registered")
    assert segments(c, 3, "foreign") == before
    c.kill("broker-3")
    meta.write_text(own)
    c.start_broker(3)
    recovered(c)
    whole(c, "foreign", [*written, "while it is away"])
