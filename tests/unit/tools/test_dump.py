"""The dump prints the content of a log and reports inconsistencies."""

from __future__ import annotations

import random
from pathlib import Path
from uuid import UUID

import pytest

from brokerd.coordinator.classic import records as group_records
from brokerd.coordinator.classic.events import Member, Offset
from brokerd.coordinator.classic.group import Group
from brokerd.coordinator.consumer import records as consumer_records
from brokerd.coordinator.consumer.events import ConsumerGroupChange, GroupMetadata, GroupRecordKey
from brokerd.coordinator.consumer.reconciliation import MemberAssignment
from brokerd.coordinator.transactions import records as transaction_records
from brokerd.coordinator.transactions.transaction_events import TransactionMachineState
from brokerd.coordinator.transactions.transaction_events import TransactionMetadata as Ongoing
from brokerd.environment import Environment
from brokerd.membership.identity import BrokerIdentity
from brokerd.storage import checkpoints
from brokerd.storage.key_hashes import HashedKeys
from brokerd.storage.key_index_build import KeyIndexBuild
from brokerd.storage.log import Log
from brokerd.storage.log_dirs import LogDirs
from brokerd.storage.os_disk import OsDisk
from brokerd.tools import dump
from brokerd.wire import records
from brokerd.wire.records import Record
from tests.unit.storage.test_log import NOW, append, batch_with_sequence, config
from tests.unit.storage.test_transaction_index import end, write


def log_with_segments(folder: Path) -> Log:
    log = Log.open(folder, config(segment_bytes="600", index_interval_bytes="0"), OsDisk(), NOW)
    checkpoints.write_partition_metadata(OsDisk(), folder, UUID(int=7))
    for i in range(9):
        append(log, batch_with_sequence(i * 2, 2), epoch=i // 3)
    log.raise_start(3)
    log.close()
    return log


def test_a_valid_log_is_dumped_without_problems(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log_with_segments(tmp_path)
    before = {p: p.read_bytes() for p in tmp_path.iterdir()}
    assert dump.main(["--records", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    for said in (str(UUID(int=7)), "log-start-offset 3", "(1 6)", "producer 7 epoch 0 sequence 4", "17 1000000 b'k'"):
        assert said in out
    assert {p: p.read_bytes() for p in tmp_path.iterdir()} == before, "it changes nothing"


def test_transactions_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = Log.open(tmp_path, config(), OsDisk(), NOW)
    checkpoints.write_partition_metadata(OsDisk(), tmp_path, UUID(int=7))
    for producer in (1, 2):
        write(log, producer)
    end(log, 1, False, coordinator_epoch=5)
    log.close()
    out = run_dump(capsys, tmp_path)
    assert "transactional, ABORT by coordinator epoch 5" in out
    assert "aborted transactions: producer 1 offsets 0..2, stable below 1" in out
    assert "a transaction open since offset 1" in out
    index = next(tmp_path.glob("*.txnindex"))
    assert "offsets 0..2" in run_dump(capsys, index)
    index.write_bytes(index.read_bytes()[:-1])
    assert "!!" in run_dump(capsys, tmp_path, status=1)


def test_a_key_index_is_described_and_a_damaged_one_is_a_complaint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    segment = log_with_segments(tmp_path).segments[0]
    build = KeyIndexBuild(OsDisk(), segment.path, segment.base_offset, segment.size, HashedKeys())
    build.run(segment.size)
    OsDisk().rename(build.temporary, build.target)
    assert f"entries in 1 runs for {segment.size} bytes of log" in run_dump(capsys, tmp_path)
    assert "1 runs" in run_dump(capsys, build.target)
    build.target.write_bytes(build.target.read_bytes()[:-1])
    assert "!!" in run_dump(capsys, tmp_path, status=1)


def test_the_transaction_state_log_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "__transaction_state-0"
    folder.mkdir()
    log = Log.open(folder, config(), OsDisk(), NOW)
    checkpoints.write_partition_metadata(OsDisk(), folder, UUID(int=7))
    ongoing = Ongoing(7, 1, 10_000, TransactionMachineState.ONGOING, frozenset({("flights", 3)}), 5, 6)
    pairs = [(b"\0\0\0\2id", transaction_records.value(ongoing)), (b"\0\0\0\2id", None), (b"?", b"?")]
    append(log, bytearray(records.build([Record(i, 0, k, v) for i, (k, v) in enumerate(pairs)])))
    log.close()
    out = run_dump(capsys, folder, "--records")
    assert "transactional id 'id': Ongoing, producer 7 epoch 1, time-out 10000 ms, since 5: flights-3" in out
    assert "transactional id 'id': tombstone" in out
    assert "unread" in out


def test_damage_is_shown_with_its_position(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = log_with_segments(tmp_path)
    last, first = log.segments[-1].path, log.segments[0].path
    last.write_bytes(last.read_bytes()[:-5])
    data = bytearray(first.read_bytes())
    data[70] ^= 1
    first.write_bytes(data)
    index = first.with_suffix(".index")
    index.write_bytes(random.Random(1).randbytes(16))
    assert dump.main([str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "!! the CRC" in out and "is incomplete" in out and "does not point to a batch" in out
    assert dump.main([str(tmp_path / "none")]) == 2


def run_dump(capsys: pytest.CaptureFixture[str], path: Path, *arguments: str, status: int = 0) -> str:
    assert dump.main([*arguments, str(path)]) == status, path
    out = capsys.readouterr()
    return out.out if status < 2 else out.err


def test_files_left_by_a_compaction_or_by_damage_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log_with_segments(tmp_path)
    for name in ("0-5.cleaned", "0-5.swap", f"{30:020d}.damaged", "x.deleted", "y.tmp"):
        (tmp_path / name).write_bytes(b"123")
    out = run_dump(capsys, tmp_path)
    for reported in ("unfinished compaction", "renames it", "kept for inspection", "discarded", "partly written"):
        assert reported in out


def test_commits_and_groups_are_shown_as_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "__consumer_offsets-3"
    folder.mkdir()
    log = Log.open(folder, config(), OsDisk(), NOW)
    group = Group("readers", generation=4, protocol_type="consumer", protocol="range", leader="m-1")
    group.members["m-1"] = Member("m-1", "left-hand", "app", "/10.0.0.1", 6_000, 9_000, (("range", b"x"),))
    facts = [
        ConsumerGroupChange(GroupRecordKey.GROUP, "", GroupMetadata(5)),
        ConsumerGroupChange(GroupRecordKey.CURRENT_ASSIGNMENT, "m-2", MemberAssignment(4, 3)),
        ConsumerGroupChange(GroupRecordKey.MEMBER, "m-2", None),
    ]
    pairs: list[tuple[bytes, bytes | None]] = [
        (group_records.offset_key("readers", "flights", 2), group_records.offset_value(Offset(41, 5, "note", 123))),
        (group_records.offset_key("readers", "flights", 2), None),
        (group_records.group_key("readers"), group_records.group_value(group, {"m-1": b"a"}, 99)),
        (group_records.group_key("readers"), None),
        (b"\x00\x63\x00\x00", b"?"),
        *((consumer_records.key("new", c), consumer_records.value(c)) for c in facts),
        (b"\x00\x04\x00\x03new", b"?"),
    ]
    append(log, bytearray(records.build([Record(i, 1, k, v) for i, (k, v) in enumerate(pairs)])))
    log.close()
    for path in (folder, log.segments[0].path):
        out = run_dump(capsys, path, "--records")
        for reported in (
            "0 1 group 'readers', flights-2: committed 41, leader epoch 5, 'note', at 123",
            "1 1 group 'readers', flights-2: tombstone",
            "2 1 group 'readers': generation 4, consumer, range, leader m-1, 1 members: m-1 of 'app' on /10.0.0.1, static 'left-hand'",
            "3 1 group 'readers': tombstone",
            "(unread: unsupported key version 99)",
            "5 1 group 'new', group: GroupMetadata(epoch=5, topics_hash=0)",
            "6 1 group 'new', current_assignment of 'm-2': MemberAssignment(epoch=4, previous_epoch=3,",
            "7 1 group 'new', member of 'm-2': tombstone",
            "8 1 group 'new', topics: b'?'",
        ):
            assert reported in out, out


def test_a_whole_directory_is_dumped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outside = Environment()
    data = tmp_path / "data"
    identity = BrokerIdentity(LogDirs([data], outside.disk), 3, outside)
    identity.store_last_entry("cluster-1", 9, "abc")
    (data / "t-0").mkdir()
    log_with_segments(data / "t-0")
    checkpoints.write_offsets(OsDisk(), data / checkpoints.HIGH_WATERMARKS, {("t", 0): 18})
    identity.stopped_cleanly(77)
    out = run_dump(capsys, data)
    for reported in ("broker.id = 3", "cluster.id = cluster-1", "incarnation 77", "t-0 18", f"topic id {UUID(int=7)}"):
        assert reported in out
    assert f"t-0: {len(list((data / 't-0').glob('*.log')))} segments" in out
