"""Moves between a broker's directories, on a disk that can be cut off at any step: what was written before is there after, once."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest

from brokerd.cluster.configs import TopicConfig
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import BrokerUp, ClusterCreated, PartitionChanged, TopicCreated, TopicDeleted, TopicReady
from brokerd.cluster.model import Now, PartitionState, Seat, TopicPartition
from brokerd.logdirs import LogDirs, future_name, future_of
from brokerd.partitions import Partitions
from brokerd.relocations import Relocations
from brokerd.replica import Replica
from brokerd.storage import checkpoints, tails
from brokerd.storage.disk import DiskFull
from brokerd.upkeep import Upkeep
from brokerd.waiters import Waiters
from brokerd.wire import records
from brokerd.wire.errors import ErrorCode
from brokerd.wire.records import Record
from tests.simulation.disk import Crashed, SimDisk
from tests.unit.storage.test_log import everything

A, B = Path("/disk-a"), Path("/disk-b")
TP = TopicPartition(UUID(int=7), 0)
LONGEST = "t" * 249


class House:
    """One broker's partitions, their upkeep and their moves; jobs run when told to."""

    def __init__(
        self,
        disk: SimDisk,
        *,
        deep: bool = False,
        name: str = "t",
        configs: dict[str, str] | None = None,
        at: Path = A,
        lost: Callable[[str], None] = lambda what: None,
    ) -> None:
        self.disk, self.name = disk, name
        self.now = Now(1_000_000, 2_000_000)
        self.jobs: list[tuple[Callable[[], object], Callable[[BaseException | None], None]]] = []
        for d in (A, B):
            disk.mkdir(d)
        dirs = LogDirs((A, B), disk)
        for d in dirs.all:
            d.deep = deep
        self.partitions = Partitions(
            1, dirs, disk, Waiters(), lag_ms_max=10_000,
            topic_config=lambda t: TopicConfig.from_overrides(t.configs),
        )  # fmt: skip
        self.partitions.copies.tell_lost = lost
        self.doubted = 0
        dirs.on_error = self._doubt
        self.relocations = Relocations(self.partitions, self, lambda: self.now, bytes_per_s_max=lambda: 1 << 62)
        self.upkeep = Upkeep(self.partitions, self, lambda: self.now)
        self.image = Image()
        state = PartitionState((1,), (Seat(1, 11),), 1, 11)
        for record in (
            ClusterCreated("c"), BrokerUp(1, 11, "u", "h", 1), TopicCreated(TP.topic_id, name, 1, configs or {}, 1),
            PartitionChanged(TP.topic_id, 0, state), TopicReady(TP.topic_id),
        ):  # fmt: skip
            self.image.apply(record)
        dirs.preferred[f"{name}-0"] = dirs.at(at) or dirs.all[0]
        self.partitions.registered(11, self.now)
        self.partitions.load(self.image, self.now)
        self.relocations.resume(self.now)

    def _doubt(self) -> None:
        self.doubted += 1

    def submit(
        self, run: Callable[[], object], done: Callable[[BaseException | None], None], *, urgent: bool = False
    ) -> None:
        self.jobs.append((run, done))

    @property
    def replica(self) -> Replica:
        return self.partitions.hosted[TP]

    def ask(self, path: Path) -> ErrorCode:
        return self.relocations.ask(self.name, 0, str(path), self.now)

    def append(self, count: int = 1) -> None:
        for _ in range(count):
            data = bytearray(records.build([Record(0, 2_000_000, b"k", b"%d" % self.replica.log.end_offset)]))
            self.replica.log.append(data, records.check(data), 0, self.now)
            self.partitions.appended(self.replica, self.now)

    def work(self) -> None:
        """What one turn of the loop and the other threads do."""
        self.relocations.tick(self.now)
        self.upkeep.commit(self.now)
        jobs, self.jobs = self.jobs, []
        for run, done in jobs:
            error: BaseException | None = None
            try:
                run()
            except Exception as e:
                error = e
            done(error)

    def settle(self, busy: Callable[[], object] = lambda: None) -> None:
        for _ in range(200):
            if not self.relocations.under_way and not self.jobs and not self.partitions.unflushed:
                return
            busy()
            self.work()
        raise AssertionError(f"never done: {self.relocations.under_way}")

    def values(self) -> list[bytes]:
        return [r.value or b"" for r in everything(self.replica.log)]

    def folders(self) -> list[Path]:
        return sorted(f for f in self.disk.folders if f.parent in (A, B))


def filled(**configs: str) -> House:
    house = House(SimDisk(), configs={"segment.bytes": "400", **{k.replace("_", "."): v for k, v in configs.items()}})
    house.append(20)
    house.settle()
    return house


def numbers(count: int) -> list[bytes]:
    return [b"%d" % i for i in range(count)]


def test_a_copy_moves_while_it_is_written_to_and_leaves_nothing_behind() -> None:
    house = filled()
    assert house.replica.log.folder == A / "t-0"
    region = house.replica.log.read(0, 1 << 20, 20).regions[0]
    assert house.ask(B) is ErrorCode.NONE and house.ask(B) is ErrorCode.NONE
    left = [30]

    def write() -> None:
        if left[0]:
            house.append(3)
            left[0] -= 1

    house.settle(write)
    assert house.replica.log.folder == B / "t-0" and house.folders() == [B / "t-0"]
    end = house.replica.log.end_offset
    assert end > 20 and house.values() == numbers(end) and house.replica.core.high_watermark == end
    assert region.file.pread(8, 0), "what is under way to a reader stays readable"
    house.append(5)
    assert checkpoints.read_offsets(house.disk, B / checkpoints.HIGH_WATERMARKS) == {("t", 0): end}
    again = House(house.disk.killed(), configs={"segment.bytes": "400"})
    assert again.values() == numbers(end + 5) and again.replica.log.folder == B / "t-0"


def test_where_every_acknowledgement_waits_for_the_disk_a_busy_log_moves_all_the_same() -> None:
    house = filled(flush_messages="1")
    house.ask(B)
    left = [100]

    def write() -> None:
        left[0] -= 1
        assert left[0], "it never came to an end"
        house.append(2)

    for _ in range(60):
        if not house.relocations.under_way:
            break
        write()
        house.work()
    assert not house.relocations.under_way
    house.settle()
    assert house.replica.log.flushing.sure_end == house.replica.log.end_offset
    assert house.values() == numbers(house.replica.log.end_offset)


def test_asked_for_its_old_place_the_move_is_off_and_asked_for_a_third_it_goes_there() -> None:
    house = filled()
    house.ask(B)
    house.relocations.tick(house.now)
    assert house.jobs, "a job is under way"
    assert house.ask(A) is ErrorCode.REPLICA_NOT_AVAILABLE, "for the moment"
    house.work()
    assert house.ask(A) is ErrorCode.NONE
    house.settle()
    assert house.folders() == [A / "t-0"] and not house.replica.moving and house.values() == numbers(20)


def test_what_cannot_be_is_answered_as_kafka_does() -> None:
    house = filled()
    assert house.ask(Path("/elsewhere")) is ErrorCode.LOG_DIR_NOT_FOUND
    assert house.relocations.ask("none", 0, str(B), house.now) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert house.relocations.ask("t", 9, str(B), house.now) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    house.partitions.log_dirs.fail(house.partitions.log_dirs.all[1], "EIO")
    assert house.ask(B) is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_live_copy_that_was_cut_takes_the_future_one_with_it() -> None:
    house = filled()
    house.ask(B)
    house.work()
    move = house.relocations.under_way[TP]
    assert move.future.end_offset == 5, "one segment at a time"
    for _ in range(3):
        house.work()
    house.replica.log.truncate_to(3)
    data = bytearray(records.build([Record(0, 2_000_000, b"k", b"another")]))
    house.replica.log.append(data, records.check(data), 5, house.now)
    house.settle()
    assert house.values() == [b"0", b"1", b"2", b"another"] and house.replica.log.last_epoch == 5
    assert house.replica.log.folder.parent == B


def test_a_live_copy_whose_start_was_raised_beyond_the_future_ones_end_is_followed() -> None:
    house = filled()
    house.ask(B)
    house.work()
    house.replica.log.raise_start(13)
    house.settle()
    log = house.replica.log
    assert (log.folder.parent, log.start_offset, log.end_offset) == (B, 13, 20)
    assert house.values() == numbers(20)[13:]


def test_a_compaction_under_way_is_thrown_away_and_none_begins() -> None:
    house = filled(cleanup_policy="compact", min_cleanable_dirty_ratio="0")
    house.upkeep.compact(house.now)
    assert house.jobs
    house.ask(B)
    house.settle()
    assert house.values() == numbers(20), "nothing was thinned while it moved"
    house.upkeep.compact(house.now)
    house.work()
    assert len(house.values()) < 20


def test_a_producers_sequences_move_with_its_records() -> None:
    house = filled()
    data = bytearray(records.build([Record(0, 1, b"k", b"20")], producer_id=9, producer_epoch=0, base_sequence=0))
    house.replica.log.append(data, records.check(data), 0, house.now)
    house.append(9)
    house.replica.log.raise_start(25)  # the batch is gone, its sequence is known
    known = house.replica.log.producers.to_json()
    house.ask(B)
    house.settle()
    assert house.replica.log.producers.to_json() == known != []


def test_a_full_target_ends_the_move_and_gives_back_the_room() -> None:
    house = filled()
    house.disk.bytes_max = house.disk.used() + 500
    house.ask(B)
    house.settle()
    assert house.folders() == [A / "t-0"] and not house.replica.moving and not house.replica.held
    house.append(3)
    assert house.values() == numbers(23)


@pytest.mark.parametrize("failing", [A, B])
def test_a_directory_that_fails_during_a_move_takes_what_it_holds(failing: Path) -> None:
    house = filled()
    house.ask(B)
    house.work()
    house.disk.broken.add(failing)
    house.settle()
    failed = [d.path for d in house.partitions.log_dirs.all if d.failed]
    assert failed == [failing]
    assert (TP in house.partitions.offline()) == (failing == A)
    if failing == B:
        assert house.values() == numbers(20)


def test_a_topic_deleted_during_its_move_leaves_nothing() -> None:
    house = filled()
    house.ask(B)
    house.work()
    record = TopicDeleted(TP.topic_id, "t", 2)
    house.image.apply(record)
    house.partitions.apply(house.image, [record], house.now)
    house.settle()
    assert house.folders() == []


def test_a_copy_that_is_yet_to_come_goes_where_it_was_asked_for() -> None:
    house = House(SimDisk(), at=B)
    assert house.replica.log.folder == B / "t-0"


def test_the_longest_topic_name_can_move_and_go() -> None:
    house = House(SimDisk(), name=LONGEST)
    house.append(3)
    folder = future_name(LONGEST, TP)
    assert len(folder) <= 255 and future_of(folder) == TP and future_of(f"{LONGEST}-0") is None
    house.ask(B)
    house.settle()
    assert house.replica.log.folder == B / f"{LONGEST}-0" and len(house.values()) == 3
    names = [word for step in house.disk.story if step.startswith("rename") for word in step.split()]
    assert max(map(len, names)) <= 255


def story(disk: SimDisk) -> tuple[House, list[int]]:
    """A move under writes; the ends that were acknowledged, each after its flush."""
    house = House(disk, configs={"segment.bytes": "400", "flush.messages": "1"})
    sure: list[int] = []

    def write() -> None:
        house.append(1)
        sure.append(house.replica.log.flushing.sure_end)

    for _ in range(7):
        write()
    house.settle()
    disk.story.append("asked")
    house.ask(B)
    for _ in range(40):
        if not house.relocations.under_way:
            break
        write()
        house.work()
        sure.append(house.replica.log.flushing.sure_end)
    for _ in range(3):
        write()
        house.settle()
    return house, sure


def test_a_crash_at_any_step_of_a_move_loses_nothing_and_the_move_goes_on() -> None:
    whole = SimDisk()
    house, sure = story(whole)
    assert house.folders() == [B / "t-0"] and house.values() == numbers(house.replica.log.end_offset) and max(sure) > 9
    first = whole.story.index("asked")
    assert whole.steps - first > 60
    for step in range(first, whole.steps + 1):
        for cut in (None, random.Random(step), random.Random(-step)):
            disk = SimDisk()
            disk.crash_at = step
            acknowledged: list[int] = []
            lived: list[House] = []
            original = House.append

            def append(self: House, count: int = 1) -> None:
                lived[:] = [self]  # noqa: B023
                acknowledged.append(self.replica.log.flushing.sure_end)  # noqa: B023
                original(self, count)  # noqa: B023

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(House, "append", append)
                with pytest.raises(Crashed):
                    story(disk)
            written = lived[0].replica.log.end_offset
            left = disk.killed() if cut is None else disk.power_cut(cut)
            # As at a start: a copy about to take its name is no loss.
            assert checkpoints.lost_copies(left, [A, B]) == [], disk.story[-1]
            again = House(left, deep=cut is not None, configs={"segment.bytes": "400", "flush.messages": "1"})
            found = again.values()
            assert found == numbers(len(found)), f"{step} {disk.story[-1]}"
            least = max(acknowledged) if cut is not None else written
            assert len(found) >= least, f"{step} {cut is not None} {disk.story[-3:]}"
            again.append(2)
            again.ask(B)
            again.settle()
            assert again.values() == numbers(len(found) + 2)
            assert [f for f in again.folders() if not f.name.endswith("-stray")] == [B / "t-0"], (
                f"{step} {disk.story[-1]}"
            )


def test_a_tail_takes_what_it_began_with_along() -> None:
    """What was known at its beginning is not in its records: an undecided transaction of before would be nobody's after a restart."""
    house = House(SimDisk())
    house.append(3)
    begun = bytearray(
        records.build(
            [Record(0, 2_000_000, b"k", b"open")], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True
        )
    )
    house.replica.log.append(begun, records.check(begun), 0, house.now)
    offset = tails.roll_for_seed(house.replica.log, house.now)
    assert offset == 4
    seed = tails.seed_at(house.replica.log, offset)
    assert seed is not None
    tails.begin(house.replica.log, seed, house.now)
    house.append(5)
    house.ask(B)
    house.settle()
    assert house.replica.log.folder == B / "t-0" and house.replica.log.start_offset == 4
    again = House(house.disk.killed(), at=B)
    assert again.replica.log.producers.open == {7: 3} and again.values() == [b"%d" % i for i in range(4, 9)]


def test_a_log_whose_disk_refused_its_new_beginning_is_asked_by_nobody_and_ends_no_broker() -> None:
    house = House(SimDisk())
    house.append(3)
    log, step = house.replica.log, 1
    while log.segments:
        house.disk.fail_at[house.disk.steps + step] = DiskFull("no space")
        try:
            log.reset_to(9, house.now)
        except DiskFull as e:
            house.partitions.fail(house.replica, e)
        step += 1
        assert step < 20, "the disk never refused the segment itself"
    assert house.replica.offline_reason
    house.upkeep.retain(house.now)
    house.upkeep.flush(house.now)
    house.partitions.copies.checkpoint()
    assert house.partitions.offline() == {TP}
    log.close()
