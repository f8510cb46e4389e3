"""The scrub: damage in closed segments is found, twice, and told; what was replaced meanwhile is not damage; no more is read than may be."""

from __future__ import annotations

from types import SimpleNamespace

from brokerd.cluster.image import Image
from brokerd.cluster.metadata import PartitionChanged, TopicCreated
from brokerd.cluster.model import Now, PartitionState, Seat, TopicPartition
from brokerd.cluster.znodes import CORRUPT, DIVERGED, FINDINGS_MAX, LOST, decode_findings, encode_findings
from brokerd.findings import Findings
from brokerd.scrub import JOBS_PER_LOOK, Scrub
from brokerd.storage.disk import DiskFailed
from tests.unit.storage.test_log import NOW, append, opened, sim
from tests.unit.test_upkeep import TP, House

BATCHES = 40


def scrubbed(rate: int = 1_000_000) -> tuple[House, Scrub]:
    disk = sim()
    log = opened(disk, segment_bytes="1000")
    for _ in range(BATCHES):
        append(log)
    assert len(log.segments) > 4
    house = House(disk, log)
    clock = Clock()
    return house, Scrub(house, house, clock, lambda: rate)  # type: ignore[arg-type]


class Clock:
    """Half a minute from one call to the next: every look may begin a round."""

    def __init__(self) -> None:
        self.mono_ms = 0

    def __call__(self) -> Now:
        self.mono_ms += 30_000
        return Now(self.mono_ms, NOW.wall_ms)


def look(house: House, scrub: Scrub, times: int = 30) -> None:
    for _ in range(times):
        scrub.look(NOW)
        house.work()


def one(house: House) -> None:
    """The job that waits, and no other that it leads to."""
    run, done = house.jobs.pop(0)
    run()
    done(None)


def test_a_round_is_not_begun_anew_before_its_time_and_a_look_reads_a_few_slices_only() -> None:
    house, scrub = scrubbed()
    scrub._clock = lambda: NOW
    look(house, scrub, 40)
    assert scrub.rounds == 1 and scrub.bytes_read == sum(s.size for s in house.log.segments[:-1])
    house, scrub = scrubbed()
    scrub.look(NOW)
    ran = 0
    while house.jobs:
        one(house)
        ran += 1
    assert ran == JOBS_PER_LOOK, "the clock would allow for more rounds, the look does not"


def flip(house: House, segment: int, at: int = 90) -> None:
    house.disk.names[house.log.segments[segment].path].live[at] ^= 1


def test_a_flipped_bit_in_a_closed_segment_is_found_and_told_and_the_copy_serves_on() -> None:
    house, scrub = scrubbed()
    look(house, scrub)
    assert house.findings.told() == () and scrub.rounds >= 1
    flip(house, 2)
    look(house, scrub)
    (found,) = house.findings.told()
    assert (found.tp, found.kind) == (TP, CORRUPT)
    assert house.log.segments[2].path.name in found.text and "damaged" in found.text
    assert not house.failed and house.replica.offline_reason is None
    assert house.findings.changed


def test_the_segment_that_is_being_written_is_left_alone() -> None:
    house, scrub = scrubbed()
    flip(house, -1)
    look(house, scrub, 60)
    assert house.findings.told() == ()


def test_what_is_read_again_and_found_sound_is_no_damage() -> None:
    house, scrub = scrubbed()
    flip(house, 0)
    scrub.look(NOW)
    one(house)  # met for the first time
    flip(house, 0)  # the file was another one, or its page was
    look(house, scrub)
    assert house.findings.told() == ()


def test_a_segment_that_went_while_it_was_read_says_nothing() -> None:
    house, scrub = scrubbed()
    flip(house, 0)
    scrub.look(NOW)
    house.log.segments.pop(0)
    one(house)
    look(house, scrub)
    assert house.findings.told() == ()


def test_no_more_is_read_than_the_pace_allows_and_nothing_without_one() -> None:
    house, scrub = scrubbed(rate=200)
    look(house, scrub, 10)
    assert 200 <= scrub.bytes_read <= 10 * 200 + 200, "one batch at least each time, and debts are paid"
    idle_house, idle = scrubbed(rate=0)
    look(idle_house, idle)
    assert idle.bytes_read == 0 and idle.rounds == 0


def test_slices_add_up_to_the_whole_log_and_then_it_begins_anew() -> None:
    house, scrub = scrubbed(rate=300)
    closed = sum(s.size for s in house.log.segments[:-1])
    flip(house, -2)  # the last that is closed
    for _ in range(200):
        look(house, scrub, 1)
        if house.findings.told():
            break
    assert house.findings.told() and scrub.bytes_read >= closed - house.log.segments[-2].size


def test_a_device_that_gives_nothing_back_takes_the_replica_offline() -> None:
    house, scrub = scrubbed()
    scrub.look(NOW)
    ((run, done),) = house.jobs
    house.jobs.clear()
    done(DiskFailed("EIO", of_device=True))
    assert house.failed
    assert run is not None


def test_a_file_that_somebody_removed_is_told_and_no_device_is_blamed() -> None:
    house, scrub = scrubbed()
    house.disk.names.pop(house.log.segments[1].path)
    look(house, scrub)
    (found,) = house.findings.told()
    assert found.kind == CORRUPT and "No such file" in found.text
    assert not house.failed


# -- what is told ---------------------------------------------------------------------------------------------------------------
def test_damage_is_told_until_the_copy_is_thrown_away_and_the_rest_until_it_is_in_sync() -> None:
    image = Image(cluster_id="c")
    other = TopicPartition(TP.topic_id, 1)
    image.apply(TopicCreated(TP.topic_id, "t", 1, {}, 2))
    for tp in (TP, other):
        image.apply(PartitionChanged(tp.topic_id, tp.partition, PartitionState((1, 2), (Seat(1, 9), Seat(2, 9)), 1, 9)))
    found = Findings()
    found.add("t-0", TP, LOST, "gone")
    found.add("t-0", TP, CORRUPT, "bits")
    found.add("t-0", TP, DIVERGED, "cut")
    found.add("t-1", other, DIVERGED, "cut")
    assert [f.kind for f in found.told()] == [CORRUPT, DIVERGED]
    found.settle(image, 1)
    assert [f.kind for f in found.told()] == [CORRUPT]
    found.gone(TP)
    assert found.told() == ()


def test_findings_are_bounded_and_read_back_as_they_were_told() -> None:
    found = Findings()
    for i in range(FINDINGS_MAX + 10):
        found.add("t", TopicPartition(TP.topic_id, i), CORRUPT, "x")
    assert len(found.told()) == FINDINGS_MAX
    assert decode_findings(encode_findings(7, found.told())) == (7, found.told())


def test_a_copy_that_moves_between_directories_is_read_later() -> None:
    house, scrub = scrubbed()
    house.hosted[TP] = SimpleNamespace(
        tp=TP, name="t-0", log=house.log, config=house.log.config, offline_reason=None, held=False, moving=True
    )
    look(house, scrub)
    assert scrub.bytes_read == 0
