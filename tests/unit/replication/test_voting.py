"""A broker's part in a vote: its report while the partition has no leader, and the leader change record of a new leader."""

from __future__ import annotations

from dataclasses import replace

from brokerd.cluster.model import NO_BROKER_EPOCH, NO_LEADER, PartitionState, ReplicaIncarnation
from brokerd.cluster.znodes import LogEndReport
from brokerd.replication.voting import LEADER_CHANGE_KEY
from brokerd.storage.disk import DiskFailed, DiskFull
from brokerd.wire import records
from tests.simulation.disk import SimDisk
from tests.unit.replication.test_relocations import TP
from tests.unit.replication.test_replica_manager import SingleLeader, change_state

ALONE = PartitionState((1,), (ReplicaIncarnation(1, 11),), 1, 11, leader_epoch=5, voters=(1,))
VOTE = replace(ALONE, leader=NO_LEADER, leader_broker_epoch=NO_BROKER_EPOCH, leader_epoch=6)


def control_keys(harness: SingleLeader) -> list[bytes | None]:
    log = harness.replica.log
    data = log.read(0, 1 << 20, log.end_offset).bytes()
    return [r.key for at, h in records.batches(data) if h.is_control for r in records.records_of(data, at, h)]


def test_a_replica_reports_its_log_end_while_there_is_no_leader() -> None:
    harness = SingleLeader(SimDisk())
    change_state(harness, VOTE)
    voting = harness.replica_manager.voting
    assert voting.log_ends() == [LogEndReport(*TP, 6, -1, 0)]
    change_state(harness, replace(ALONE, leader_epoch=7))
    assert voting.log_ends() == []
    change_state(harness, replace(VOTE, leader_epoch=8))
    assert voting.log_ends() == [LogEndReport(*TP, 8, 7, 1)], "the epoch of its leader change record"
    harness.replica_manager.fail(harness.replica, DiskFailed("Input/output error"))
    assert voting.log_ends() == []


def test_a_partition_without_voters_has_neither_reports_nor_leader_change_records() -> None:
    harness = SingleLeader(SimDisk())
    change_state(harness, replace(VOTE, voters=()))
    assert harness.replica_manager.voting.log_ends() == []
    change_state(harness, replace(ALONE, voters=(), leader_epoch=7))
    assert harness.replica.log.end_offset == 0


def test_a_leader_appends_one_leader_change_record_per_epoch() -> None:
    harness = SingleLeader(SimDisk())
    change_state(harness, ALONE)
    change_state(harness, ALONE)
    assert control_keys(harness) == [LEADER_CHANGE_KEY]
    assert harness.replica.core.high_watermark == 1, "the only voter has it"
    change_state(harness, replace(ALONE, leader_epoch=6))
    assert control_keys(harness) == [LEADER_CHANGE_KEY] * 2
    assert harness.replica.log.epochs.entries[-2:] == [(5, 0), (6, 1)]


def test_a_leader_with_a_full_disk_appends_it_later() -> None:
    disk = SimDisk()
    harness = SingleLeader(disk)
    voting, replica = harness.replica_manager.voting, harness.replica
    append = replica.log.append

    def raise_disk_full(*_: object) -> None:
        raise DiskFull("no space left on device")

    replica.log.append = raise_disk_full  # type: ignore[assignment,method-assign]
    change_state(harness, ALONE)
    assert replica.log.end_offset == 0 and replica.append_problem == "no space left on device"
    replica.log.append = append  # type: ignore[method-assign]
    failed: list[object] = []
    assert voting.append_leader_change(replica, harness.now, lambda r, e: failed.append(e)) and not failed
    assert replica.append_problem is None and control_keys(harness) == [LEADER_CHANGE_KEY]


def test_an_io_error_takes_the_replica_offline() -> None:
    harness = SingleLeader(SimDisk())

    def raise_disk_failed(*_: object) -> None:
        raise DiskFailed("Input/output error")

    harness.replica.log.append = raise_disk_failed  # type: ignore[assignment,method-assign]
    change_state(harness, ALONE)
    assert harness.replica_manager.offline() == {TP}
