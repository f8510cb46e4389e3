"""Opening a log after kill -9, after a power failure, after a clean stop, and with corrupt files."""

from __future__ import annotations

import random

import pytest

from brokerd.storage.disk import DiskFull
from brokerd.storage.log import Log
from brokerd.storage.producers import Duplicate
from brokerd.wire import records
from brokerd.wire.records import BatchHeader
from brokerd.wire.steps import run_now
from tests.simulation.disk import Crashed, SimDisk
from tests.unit.storage.test_log import (
    EVERYTHING,
    FOLDER,
    NOW,
    append,
    batch,
    batch_with_sequence,
    offsets,
    open_log,
    read_all,
    sim,
)

LAST = FOLDER / f"{0:020d}.log"


def batch_offsets_and_epochs(log: Log) -> list[tuple[int, int]]:
    """(offset, epoch) of every batch, after every record was read."""
    read_all(log)
    return [(h.base_offset, h.partition_leader_epoch) for h in log.headers(log.start_offset)]


def three_batches() -> tuple[SimDisk, list[int]]:
    disk = sim()
    log = open_log(disk)
    edges = [0]
    for i in range(3):
        append(log, batch_with_sequence(i * 2, 2), epoch=i)
        edges.append(log.size_bytes)
    return disk.killed(), edges


def test_a_log_of_a_killed_process_has_every_written_record() -> None:
    disk, _ = three_batches()
    log = open_log(disk)
    assert batch_offsets_and_epochs(log) == [(0, 0), (2, 1), (4, 2)]
    assert (log.batches_checked, log.bytes_cut, log.epochs.entries) == (3, 0, [(0, 0), (1, 2), (2, 4)])


def test_a_torn_tail_is_truncated_for_every_byte_of_the_last_two_batches() -> None:
    _, edges = three_batches()
    for length in range(edges[1], edges[3] + 1):
        disk, _ = three_batches()
        del disk.names[LAST].live[length:]
        log = open_log(disk)
        kept = max(i for i, edge in enumerate(edges) if edge <= length)
        assert log.end_offset == kept * 2
        assert disk.size(LAST) == edges[kept] == log.size_bytes
        assert log.bytes_cut == length - edges[kept]
        assert log.epochs.entries == [(i, i * 2) for i in range(kept)]
        repeat = records.peek(batch_with_sequence((kept - 1) * 2, 2))
        assert log.check_producer(repeat, NOW) == Duplicate((kept - 1) * 2, (kept - 1) * 2 + 1)
        assert append(log, batch_with_sequence(kept * 2, 2), epoch=9) == kept * 2
        assert [r.offset for r in read_all(log)] == list(range(kept * 2 + 2))


@pytest.mark.parametrize("bit", [0x01, 0x80])
def test_a_flipped_bit_in_a_batch_truncates_the_log_there(bit: int) -> None:
    _, edges = three_batches()
    for at in range(edges[1], edges[2]):
        disk, _ = three_batches()
        disk.names[LAST].live[at] ^= bit
        log = open_log(disk)
        in_batch = at - edges[1]
        if 8 <= in_batch < 12 and log.end_offset > 2:
            raise AssertionError("a wrong length was believed")
        if 12 <= in_batch < 16 and log.end_offset > 2:
            # The CRC does not cover the epoch. A wrong epoch between those of its neighbours is not detectable.
            assert [e for _, e in batch_offsets_and_epochs(log)] == sorted(e for _, e in batch_offsets_and_epochs(log))
            continue
        assert log.end_offset == 2, f"byte {in_batch} of the batch"
        assert batch_offsets_and_epochs(log) == [(0, 0)]


def test_garbage_after_the_last_batch_is_truncated() -> None:
    for rubbish in (b"\0" * 500, b"\xff" * 500, random.Random(1).randbytes(500), bytes(batch())[:-1]):
        disk, edges = three_batches()
        disk.names[LAST].live += rubbish
        log = open_log(disk)
        assert (log.end_offset, disk.size(LAST)) == (6, edges[3])


def test_segments_after_a_damaged_one_are_renamed() -> None:
    disk = sim()
    log = open_log(disk, segment_bytes="400")
    for _ in range(9):
        append(log, batch(2))
    first, second = log.segments[0], log.segments[1]
    for name in [n for n in disk.names if n.suffix == ".snapshot"]:
        del disk.names[name]
    disk.names[second.path].live[-1] ^= 1
    disk = disk.killed()
    again = open_log(disk, segment_bytes="400")
    assert first.end_offset <= again.end_offset < second.end_offset
    renamed = [name.stem for name in disk.names if name.suffix == ".damaged"]
    assert renamed == [segment.path.stem for segment in log.segments[2:]] and again.segments[-1].path == second.path
    assert [r.offset for r in read_all(again)] == list(range(again.end_offset))
    append(again)


def test_after_a_clean_shutdown_no_segment_is_scanned() -> None:
    disk = sim()
    log = open_log(disk, segment_bytes="4000", index_interval_bytes="100")
    for i in range(60):
        append(log, batch_with_sequence(i * 2, 2), epoch=i // 20)
    log.flush()
    log.close()
    disk.reads = 0
    again = open_log(disk.killed(), segment_bytes="4000", index_interval_bytes="100")
    assert again.batches_checked == 0
    assert again.epochs.entries == log.epochs.entries and again.end_offset == 120
    assert again.producers.to_json() == log.producers.to_json()
    assert again.segments[-1].max_timestamp == log.segments[-1].max_timestamp
    assert [r.offset for r in read_all(again)] == list(range(120))
    append(again, batch_with_sequence(120))


def test_after_a_kill_only_records_after_the_last_snapshot_are_scanned() -> None:
    disk = sim()
    log = open_log(disk, segment_bytes="2000")
    for _ in range(50):
        append(log, batch(2))
    in_last = len(list(log.headers(log.segments[-1].base_offset)))
    again = open_log(disk.killed(), segment_bytes="2000")
    assert again.batches_checked == in_last
    assert batch_offsets_and_epochs(again) == batch_offsets_and_epochs(log)


def test_a_large_active_segment_has_intermediate_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("brokerd.storage.log_state.SNAPSHOT_BYTES", 2_000)
    disk = sim()
    log = open_log(disk, index_interval_bytes="300")
    for i in range(100):
        append(log, batch_with_sequence(i), epoch=i // 30)
    again = open_log(disk.killed(), index_interval_bytes="300")
    assert again.batches_checked < 25
    assert again.epochs.entries == log.epochs.entries
    assert again.producers.known[7].batches == log.producers.known[7].batches
    assert list(again.segments[0].index.offsets) == list(log.segments[0].index.offsets)
    assert [r.offset for r in read_all(again)] == list(range(100))


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_missing_truncated_or_wrong_index_is_rebuilt(suffix: str) -> None:
    def disk_with_log() -> SimDisk:
        disk = sim()
        log = open_log(disk, segment_bytes="2500", index_interval_bytes="200")
        for i in range(40):
            append(log, batch(2, timestamp=1_000 + i))
        log.close()
        return disk.killed()

    name = FOLDER / f"{0:020d}{suffix}"
    size = disk_with_log().size(name)
    assert size > 24

    def damaged_index_files() -> list[bytes | None]:
        good = bytes(disk_with_log().names[name].live)
        out: list[bytes | None] = [
            None,
            b"",
            good[:-1],
            good[:12],
            bytes(size),
            good[::-1],
            good + good,
            b"\xff" * size,
        ]
        for at in range(size):
            out.append(good[:at] + bytes([good[at] ^ 0x04]) + good[at + 1 :])
        return out

    for damage in damaged_index_files():
        disk = disk_with_log()
        if damage is None:
            del disk.names[name]
        else:
            disk.names[name].live[:] = damage
        log = open_log(disk, segment_bytes="2500", index_interval_bytes="200")
        first = log.segments[0]
        assert first.sure_newest() == 1_000 + first.end_offset // 2 - 1
        for at in range(0, 80, 7):
            assert offsets(log, at, bytes_max=400)[0] == at - at % 2
        assert [r.offset for r in read_all(log)] == list(range(80))
        assert run_now(log.max_timestamp()) == (78, 1_039)
        for wanted in (1_000, 1_011, 1_039):
            found = run_now(log.offset_for_timestamp(wanted, EVERYTHING))
            assert found is not None
            if suffix == ".index":
                assert found[:2] == ((wanted - 1_000) * 2, wanted)


def test_an_unreadable_snapshot_is_not_used() -> None:
    disk = sim()
    log = open_log(disk, segment_bytes="2000")
    for i in range(30):
        append(log, batch_with_sequence(i))
    log.close()
    for name, inode in disk.names.items():
        if name.suffix == ".snapshot":
            inode.live[len(inode.live) // 2] ^= 1
    again = open_log(disk.killed(), segment_bytes="2000")
    assert again.batches_checked == 30
    assert again.producers.known[7].batches == log.producers.known[7].batches


def test_a_snapshot_above_a_truncation_is_not_used_for_later_records() -> None:
    disk = sim()
    log = open_log(disk)
    for i in range(10):
        append(log, batch_with_sequence(i), epoch=1)
    log.close()
    log.truncate_to(4)
    for _ in range(20):
        append(log, batch(1, size=70), epoch=2)
    again = open_log(disk.killed())
    assert again.epochs.entries == [(1, 0), (2, 4)]
    assert again.producers.known[7].batches[-1][1] == 3


def test_an_empty_log_keeps_its_last_epoch_and_log_start() -> None:
    disk = sim()
    log = open_log(disk, retention_ms="1")
    append(log, epoch=6)
    log.retain(NOW._replace(wall_ms=9_000_000), 1)
    for deep in (False, True):
        again = open_log(disk.killed(), deep=deep)
        assert (again.start_offset, again.end_offset, again.last_epoch) == (1, 1, 6)


# -- power failures ----------------------------------------------------------------------------------------------------
def test_flushed_records_survive_every_power_cut() -> None:
    for seed in range(150):
        rng = random.Random(seed)
        disk = sim()
        log = open_log(disk, segment_bytes="1500")
        flushed = 0
        written: list[BatchHeader] = []
        for i in range(rng.randint(1, 40)):
            append(log, batch_with_sequence(i, rng.randint(1, 3)), epoch=i // 8)
            if rng.random() < 0.15:
                log.flush()
                flushed = log.end_offset
            if rng.random() < 0.1:
                log.close()
        written = list(log.headers(0))
        again = Log.open(FOLDER, log.config, disk.power_cut(rng), NOW, deep=True)
        assert again.end_offset >= flushed, f"seed {seed}"
        found = list(again.headers(0))
        assert found == written[: len(found)], f"seed {seed}"
        assert len(read_all(again)) == again.end_offset
        assert again.epochs.entries == [e for e in log.epochs.entries if e[1] < again.end_offset]


def test_no_power_cut_restores_a_truncated_tail() -> None:
    """A log is flushed, truncated and appended to. Whatever the disk kept, the recovered log equals an earlier state of the log, batch for batch."""
    for seed in range(300):
        rng = random.Random(seed)
        disk = sim()
        log = open_log(disk, segment_bytes="1500")
        ever: set[tuple[int, int, int]] = set()
        epoch = 0
        for _ in range(rng.randint(1, 30)):
            append(log, batch(rng.randint(1, 3), size=rng.randint(1, 300)), epoch=epoch)
            ever |= {(h.base_offset, h.partition_leader_epoch, h.crc) for h in log.headers(log.end_offset - 1)}
            if rng.random() < 0.2:
                log.flush()
            if rng.random() < 0.15:
                log.truncate_to(rng.randint(0, log.end_offset))
                epoch += 1
        again = Log.open(FOLDER, log.config, disk.power_cut(rng), NOW, deep=True)
        assert len(read_all(again)) == again.end_offset, f"seed {seed}"
        assert {(h.base_offset, h.partition_leader_epoch, h.crc) for h in again.headers(0)} <= ever, f"seed {seed}"


def test_truncated_records_do_not_return_before_the_next_segment() -> None:
    """Flushed, truncated in the middle of a segment, rolled and flushed again. The truncation must be on the disk by then."""
    for seed in range(20):
        disk = sim()
        log = open_log(disk, segment_bytes="1500")
        for _ in range(4):
            append(log, batch(size=300))
        log.flush()
        log.truncate_to(3)
        for _ in range(6):
            append(log, batch(size=500), epoch=1)
        assert log.segments[1].base_offset == 3
        log.flush()
        again = Log.open(FOLDER, log.config, disk.power_cut(random.Random(seed)), NOW, deep=True)
        assert list(again.headers(0)) == list(log.headers(0)), f"seed {seed}"


def test_a_flush_started_before_a_truncation_is_ignored() -> None:
    log = open_log()
    for _ in range(4):
        append(log)
    plan = log.flushing.plan(snapshot=True)
    assert plan is not None
    log.truncate_to(2)
    for _ in range(4):
        append(log)
    plan.run()
    log.flushing.on_finished(plan)
    assert log.snapshots.offsets == {}
    assert log.flushing.plan(snapshot=True) is not None


def test_a_flush_covers_the_records_at_its_planning_and_is_not_repeated() -> None:
    disk = sim()
    log = open_log(disk)
    append(log)
    plan = log.flushing.plan(snapshot=True)
    assert plan is not None
    append(log)
    plan.run()
    log.flushing.on_finished(plan)
    assert log.snapshots.offsets == {1: True}
    log.flush()
    assert log.flushing.plan(snapshot=True) is None


def test_flushes_are_due_by_count_and_by_time() -> None:
    log = open_log(flush_messages="3", flush_ms="500")
    assert not log.flushing.due(NOW), "an empty log"
    append(log, batch(1))
    assert log.flushing.due(NOW), "a new log, with its topic id"
    log.flush(NOW)
    append(log, batch(2))
    assert not log.flushing.due(NOW) and log.flushing.due(NOW._replace(mono_ms=500))
    append(log, batch(1))
    assert log.flushing.due(NOW)
    log.flush(NOW)
    assert not log.flushing.due(NOW._replace(mono_ms=900))


# -- crashes within the log's own steps ----------------------------------------------------------------------------------
def history(disk: SimDisk) -> list[int]:
    """Appends, rolls, a truncation, retention, a raised log start offset, a reset. Returns the acknowledged end offsets."""
    acknowledged: list[int] = []
    log = open_log(disk, segment_bytes="700", retention_bytes="1500")
    for i in range(12):
        append(log, batch_with_sequence(i, 2), epoch=i // 4)
        acknowledged.append(log.end_offset)
    log.retain(NOW, log.end_offset)
    log.raise_start(log.start_offset + 3)
    log.truncate_to(log.end_offset - 3)
    append(log, batch(3), epoch=7)
    log.close()
    log.reset_to(100)
    append(log, batch(3), epoch=8)
    log.close()
    return acknowledged


def test_a_log_opens_and_continues_after_a_crash_at_any_step() -> None:
    clean = sim()
    history(clean)
    for step in range(1, clean.steps + 1):
        disk = sim()
        disk.crash_at = step
        with pytest.raises(Crashed):
            history(disk)
        log = open_log(disk.killed(), segment_bytes="700")
        found = [r.offset for r in read_all(log)]
        assert found == list(range(log.start_offset, log.end_offset)), disk.story[-1]
        append(log, batch(2), epoch=99)
        assert [r.offset for r in read_all(log)] == list(range(log.start_offset, log.end_offset)), disk.story[-1]


def test_a_log_opens_and_continues_after_a_full_disk_at_any_step() -> None:
    clean = sim()
    history(clean)
    for step in range(1, clean.steps + 1):
        disk = sim()
        disk.fail_at[step] = DiskFull("no space")
        try:
            history(disk)
        except DiskFull:
            pass
        log = open_log(disk.killed(), segment_bytes="700")
        assert [r.offset for r in read_all(log)] == list(range(log.start_offset, log.end_offset)), disk.story[step - 1]
