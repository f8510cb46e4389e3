"""Moves between directories of a broker, on a disk that can fail at any step: records written before exist afterwards, once."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest

from brokerd.cluster.configs import TopicConfig
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import BrokerUp, ClusterCreated, PartitionChanged, TopicCreated, TopicDeleted, TopicReady
from brokerd.cluster.model import Now, PartitionState, ReplicaIncarnation, TopicPartition
from brokerd.maintenance.log_maintenance import LogMaintenance
from brokerd.membership.controller_outbox import ControllerOutbox
from brokerd.replication.purgatory import Purgatory
from brokerd.replication.relocations import Relocations
from brokerd.replication.replica import Replica
from brokerd.replication.replica_manager import ReplicaManager
from brokerd.storage import checkpoints, observer_bootstrap
from brokerd.storage.disk import DiskFull
from brokerd.storage.log_dirs import LogDirs, future_name, future_of
from brokerd.wire import records
from brokerd.wire.errors import ErrorCode
from brokerd.wire.records import Record
from tests.simulation.disk import Crashed, SimDisk
from tests.unit.replication.hooks import RecordingHooks
from tests.unit.storage.test_log import read_all

A, B = Path("/disk-a"), Path("/disk-b")
TP = TopicPartition(UUID(int=7), 0)
LONGEST = "t" * 249


class Harness:
    """The partitions of one broker, their maintenance and relocations. The test runs the jobs."""

    def __init__(
        self,
        disk: SimDisk,
        *,
        deep: bool = False,
        name: str = "t",
        configs: dict[str, str] | None = None,
        at: Path = A,
        lost: Callable[[str], None] = lambda what: None,
        loads: bool = True,
    ) -> None:
        self.disk, self.name = disk, name
        self.now = Now(1_000_000, 2_000_000)
        self.jobs: list[tuple[Callable[[], object], Callable[[BaseException | None], None]]] = []
        for d in (A, B):
            disk.mkdir(d)
        dirs = LogDirs((A, B), disk)
        for d in dirs.all:
            d.deep = deep
        self.outbox, self.hooks = ControllerOutbox(), RecordingHooks(lost)
        self.replica_manager = ReplicaManager(
            1,
            dirs,
            disk,
            Purgatory(),
            self.outbox,
            self,
            self.hooks,
            lag_ms_max=10_000,
            topic_config=lambda t: TopicConfig.from_overrides(t.configs),
        )
        self.relocations = Relocations(self.replica_manager, self, lambda: self.now, bytes_per_s_max=lambda: 1 << 62)
        self.log_maintenance = LogMaintenance(self.replica_manager, self, lambda: self.now)
        self.image = Image()
        state = PartitionState((1,), (ReplicaIncarnation(1, 11),), 1, 11)
        for record in (
            ClusterCreated("c"),
            BrokerUp(1, 11, "u", "h", 1),
            TopicCreated(TP.topic_id, name, 1, configs or {}, 1),
            PartitionChanged(TP.topic_id, 0, state),
            TopicReady(TP.topic_id),
        ):
            self.image.apply(record)
        dirs.preferred[f"{name}-0"] = dirs.find(at) or dirs.all[0]
        if loads:
            self.load()

    def load(self) -> None:
        self.replica_manager.on_registered(11, self.now)
        self.replica_manager.load(self.image, self.now)
        self.relocations.resume(self.now)

    def submit(
        self, run: Callable[[], object], done: Callable[[BaseException | None], None], *, urgent: bool = False
    ) -> None:
        self.jobs.append((run, done))

    @property
    def replica(self) -> Replica:
        return self.replica_manager.hosted[TP]

    def request(self, path: Path) -> ErrorCode:
        return self.relocations.request(self.name, 0, str(path), self.now)

    def append(self, count: int = 1) -> None:
        for _ in range(count):
            data = bytearray(records.build([Record(0, 2_000_000, b"k", b"%d" % self.replica.log.end_offset)]))
            self.replica.log.append(data, records.check(data), 0, self.now)
            self.replica_manager.on_appended(self.replica, self.now)

    def run_iteration(self) -> None:
        """One iteration of the loop and the work of the other threads."""
        self.relocations.tick(self.now)
        self.log_maintenance.commit(self.now)
        jobs, self.jobs = self.jobs, []
        for run, done in jobs:
            error: BaseException | None = None
            try:
                run()
            except Exception as e:
                error = e
            done(error)

    def run_until_idle(self, busy: Callable[[], object] = lambda: None) -> None:
        for _ in range(200):
            if not self.relocations.under_way and not self.jobs and not self.replica_manager.unflushed:
                return
            busy()
            self.run_iteration()
        raise AssertionError(f"never done: {self.relocations.under_way}")

    def values(self) -> list[bytes]:
        return [r.value or b"" for r in read_all(self.replica.log)]

    def folders(self) -> list[Path]:
        return sorted(f for f in self.disk.folders if f.parent in (A, B))


def harness_with_records(**configs: str) -> Harness:
    harness = Harness(
        SimDisk(), configs={"segment.bytes": "400", **{k.replace("_", "."): v for k, v in configs.items()}}
    )
    harness.append(20)
    harness.run_until_idle()
    return harness


def numbers(count: int) -> list[bytes]:
    return [b"%d" % i for i in range(count)]


def test_a_replica_moves_between_directories_during_appends() -> None:
    harness = harness_with_records()
    assert harness.replica.log.folder == A / "t-0"
    region = harness.replica.log.read(0, 1 << 20, 20).regions[0]
    assert harness.request(B) is ErrorCode.NONE and harness.request(B) is ErrorCode.NONE
    left = [30]

    def write() -> None:
        if left[0]:
            harness.append(3)
            left[0] -= 1

    harness.run_until_idle(write)
    assert harness.replica.log.folder == B / "t-0" and harness.folders() == [B / "t-0"]
    end = harness.replica.log.end_offset
    assert end > 20 and harness.values() == numbers(end) and harness.replica.core.high_watermark == end
    assert region.file.pread(8, 0), "what is under way to a reader stays readable"
    assert harness.replica.bytes_in == harness.replica.log.size_bytes, "the copies are no traffic"
    harness.append(5)
    assert checkpoints.read_offsets(harness.disk, B / checkpoints.HIGH_WATERMARKS) == {("t", 0): end}
    again = Harness(harness.disk.killed(), configs={"segment.bytes": "400"})
    assert again.values() == numbers(end + 5) and again.replica.log.folder == B / "t-0"


def test_a_busy_log_with_flushed_acknowledgements_moves_too() -> None:
    harness = harness_with_records(flush_messages="1")
    harness.request(B)
    left = [100]

    def write() -> None:
        left[0] -= 1
        assert left[0], "it never came to an end"
        harness.append(2)

    for _ in range(60):
        if not harness.relocations.under_way:
            break
        write()
        harness.run_iteration()
    assert not harness.relocations.under_way
    harness.run_until_idle()
    assert harness.replica.log.flushing.acknowledgeable_end == harness.replica.log.end_offset
    assert harness.values() == numbers(harness.replica.log.end_offset)


def test_a_relocation_can_be_cancelled_or_redirected() -> None:
    harness = harness_with_records()
    harness.request(B)
    harness.relocations.tick(harness.now)
    assert harness.jobs, "a job is under way"
    assert harness.request(A) is ErrorCode.REPLICA_NOT_AVAILABLE, "for the moment"
    harness.run_iteration()
    assert harness.request(A) is ErrorCode.NONE
    harness.run_until_idle()
    assert harness.folders() == [A / "t-0"] and not harness.replica.moving and harness.values() == numbers(20)


def test_invalid_relocations_have_kafkas_errors() -> None:
    harness = harness_with_records()
    assert harness.request(Path("/elsewhere")) is ErrorCode.LOG_DIR_NOT_FOUND
    assert harness.relocations.request("none", 0, str(B), harness.now) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert harness.relocations.request("t", 9, str(B), harness.now) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    harness.replica_manager.log_dirs.fail(harness.replica_manager.log_dirs.all[1], "EIO")
    assert harness.request(B) is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_truncation_of_the_current_log_truncates_the_future_log() -> None:
    harness = harness_with_records()
    harness.request(B)
    harness.run_iteration()
    move = harness.relocations.under_way[TP]
    assert move.future.end_offset == 5, "one segment at a time"
    for _ in range(3):
        harness.run_iteration()
    harness.replica.log.truncate_to(3)
    data = bytearray(records.build([Record(0, 2_000_000, b"k", b"another")]))
    harness.replica.log.append(data, records.check(data), 5, harness.now)
    harness.run_until_idle()
    assert harness.values() == [b"0", b"1", b"2", b"another"] and harness.replica.log.last_epoch == 5
    assert harness.replica.log.folder.parent == B


def test_a_log_start_above_the_end_of_the_future_log_resets_the_future_log() -> None:
    harness = harness_with_records()
    harness.request(B)
    harness.run_iteration()
    harness.replica.log.raise_start(13)
    harness.run_until_idle()
    log = harness.replica.log
    assert (log.folder.parent, log.start_offset, log.end_offset) == (B, 13, 20)
    assert harness.values() == numbers(20)[13:]


def test_a_relocation_discards_a_running_compaction_and_prevents_new_ones() -> None:
    harness = harness_with_records(cleanup_policy="compact", min_cleanable_dirty_ratio="0")
    harness.log_maintenance.compact(harness.now)
    assert harness.jobs
    harness.request(B)
    harness.run_until_idle()
    assert harness.values() == numbers(20), "nothing was thinned while it moved"
    harness.log_maintenance.compact(harness.now)
    harness.run_iteration()
    harness.run_iteration()
    assert len(harness.values()) < 20


def test_a_producers_sequences_move_with_its_records() -> None:
    harness = harness_with_records()
    data = bytearray(records.build([Record(0, 1, b"k", b"20")], producer_id=9, producer_epoch=0, base_sequence=0))
    harness.replica.log.append(data, records.check(data), 0, harness.now)
    harness.append(9)
    harness.replica.log.raise_start(25)  # the batch is deleted, its sequence is known
    known = harness.replica.log.producers.to_json()
    harness.request(B)
    harness.run_until_idle()
    assert harness.replica.log.producers.to_json() == known != []


def test_a_full_target_directory_ends_the_relocation_and_frees_its_space() -> None:
    harness = harness_with_records()
    harness.disk.bytes_max = harness.disk.used() + 500
    harness.request(B)
    harness.run_until_idle()
    assert harness.folders() == [A / "t-0"] and not harness.replica.moving and not harness.replica.flush_suspended
    harness.append(3)
    assert harness.values() == numbers(23)


@pytest.mark.parametrize("failing", [A, B])
def test_a_directory_failure_during_a_relocation_affects_only_its_replicas(failing: Path) -> None:
    harness = harness_with_records()
    harness.request(B)
    harness.run_iteration()
    harness.disk.broken.add(failing)
    harness.run_until_idle()
    failed = [d.path for d in harness.replica_manager.log_dirs.all if d.failed]
    assert failed == [failing]
    assert (TP in harness.replica_manager.offline()) == (failing == A)
    if failing == B:
        assert harness.values() == numbers(20)


def test_a_topic_deleted_during_a_relocation_leaves_no_files() -> None:
    harness = harness_with_records()
    harness.request(B)
    harness.run_iteration()
    record = TopicDeleted(TP.topic_id, "t", 2)
    harness.image.apply(record)
    harness.replica_manager.apply(harness.image, [record], harness.now)
    harness.run_until_idle()
    assert harness.folders() == []


def test_a_future_replica_is_created_in_the_requested_directory() -> None:
    harness = Harness(SimDisk(), at=B)
    assert harness.replica.log.folder == B / "t-0"


def test_the_longest_topic_name_can_be_relocated_and_deleted() -> None:
    harness = Harness(SimDisk(), name=LONGEST)
    harness.append(3)
    folder = future_name(LONGEST, TP)
    assert len(folder) <= 255 and future_of(folder) == TP and future_of(f"{LONGEST}-0") is None
    harness.request(B)
    harness.run_until_idle()
    assert harness.replica.log.folder == B / f"{LONGEST}-0" and len(harness.values()) == 3
    names = [word for step in harness.disk.story if step.startswith("rename") for word in step.split()]
    assert max(map(len, names)) <= 255


def run_relocation_during_writes(disk: SimDisk) -> tuple[Harness, list[int]]:
    """A relocation during writes. Returns the harness and the acknowledged end offsets, each after its flush."""
    harness = Harness(disk, configs={"segment.bytes": "400", "flush.messages": "1"})
    sure: list[int] = []

    def write() -> None:
        harness.append(1)
        sure.append(harness.replica.log.flushing.acknowledgeable_end)

    for _ in range(7):
        write()
    harness.run_until_idle()
    disk.story.append("asked")
    harness.request(B)
    for _ in range(40):
        if not harness.relocations.under_way:
            break
        write()
        harness.run_iteration()
        sure.append(harness.replica.log.flushing.acknowledgeable_end)
    for _ in range(3):
        write()
        harness.run_until_idle()
    return harness, sure


def test_a_crash_at_any_step_of_a_relocation_loses_nothing_and_it_continues() -> None:
    whole = SimDisk()
    harness, sure = run_relocation_during_writes(whole)
    assert (
        harness.folders() == [B / "t-0"]
        and harness.values() == numbers(harness.replica.log.end_offset)
        and max(sure) > 9
    )
    first = whole.story.index("asked")
    assert whole.steps - first > 60
    for step in range(first, whole.steps + 1):
        for cut in (None, random.Random(step), random.Random(-step)):
            disk = SimDisk()
            disk.crash_at = step
            acknowledged: list[int] = []
            lived: list[Harness] = []
            original = Harness.append

            def append(self: Harness, count: int = 1) -> None:
                lived[:] = [self]  # noqa: B023
                acknowledged.append(self.replica.log.flushing.acknowledgeable_end)  # noqa: B023
                original(self, count)  # noqa: B023

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Harness, "append", append)
                with pytest.raises(Crashed):
                    run_relocation_during_writes(disk)
            written = lived[0].replica.log.end_offset
            left = disk.killed() if cut is None else disk.power_cut(cut)
            # As at a start: a future replica that is not renamed yet is no loss.
            assert checkpoints.lost_copies(left, [A, B]) == [], disk.story[-1]
            again = Harness(left, deep=cut is not None, configs={"segment.bytes": "400", "flush.messages": "1"})
            found = again.values()
            assert found == numbers(len(found)), f"{step} {disk.story[-1]}"
            least = max(acknowledged) if cut is not None else written
            assert len(found) >= least, f"{step} {cut is not None} {disk.story[-3:]}"
            again.append(2)
            again.request(B)
            again.run_until_idle()
            assert again.values() == numbers(len(found) + 2)
            assert [f for f in again.folders() if not f.name.endswith("-stray")] == [B / "t-0"], (
                f"{step} {disk.story[-1]}"
            )


def test_a_relocated_tail_keeps_its_initial_state() -> None:
    """The bootstrap state is not in the records: without it, an earlier undecided transaction would have no owner after a restart."""
    harness = Harness(SimDisk())
    harness.append(3)
    begun = bytearray(
        records.build(
            [Record(0, 2_000_000, b"k", b"open")], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True
        )
    )
    harness.replica.log.append(begun, records.check(begun), 0, harness.now)
    offset = observer_bootstrap.roll_for_bootstrap(harness.replica.log, harness.now)
    assert offset == 4
    snapshot = observer_bootstrap.bootstrap_snapshot_at(harness.replica.log, offset)
    assert snapshot is not None
    observer_bootstrap.begin(harness.replica.log, snapshot, harness.now)
    harness.append(5)
    harness.request(B)
    harness.run_until_idle()
    assert harness.replica.log.folder == B / "t-0" and harness.replica.log.start_offset == 4
    again = Harness(harness.disk.killed(), at=B)
    assert again.replica.log.producers.open == {7: 3} and again.values() == [b"%d" % i for i in range(4, 9)]


def test_a_log_whose_reset_fails_on_a_full_disk_goes_offline_without_ending_the_broker() -> None:
    harness = Harness(SimDisk())
    harness.append(3)
    log, step = harness.replica.log, 1
    while log.segments:
        harness.disk.fail_at[harness.disk.steps + step] = DiskFull("no space")
        try:
            log.reset_to(9, harness.now)
        except DiskFull as e:
            harness.replica_manager.fail(harness.replica, e)
        step += 1
        assert step < 20, "the disk never rejected the segment itself"
    assert harness.replica.offline_reason
    harness.log_maintenance.retain(harness.now)
    harness.log_maintenance.flush(harness.now)
    harness.replica_manager.replica_opening.checkpoint()
    assert harness.replica_manager.offline() == {TP}
    log.close()
