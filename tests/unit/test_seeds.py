"""Where observers' copies begin, on a leader and on an observer: what is offered when, what stands again after a restart, what is set aside."""

from __future__ import annotations

from dataclasses import replace

from brokerd.cluster.metadata import PartitionChanged
from brokerd.cluster.model import PartitionState, Seat
from brokerd.cluster.znodes import SeedProposal
from brokerd.logdirs import LogDirs
from brokerd.partition_events import FollowerFetched
from brokerd.partitions import Partitions
from brokerd.storage import recovery, tails
from brokerd.waiters import Waiters
from tests.simulation.disk import SimDisk
from tests.unit.storage.test_log import append, opened
from tests.unit.test_relocations import TP, A, B, House

LEADS = PartitionState((1,), (Seat(1, 11),), 1, 11, observers=(2,))


class Leader(House):
    """Leads t-0 beside a follower that has to hold what counts as committed; 3 observes."""

    def __init__(self) -> None:
        super().__init__(SimDisk())
        self.epoch = 0
        self.says(replace(LEADS, replicas=(1, 2), isr=(Seat(1, 11), Seat(2, 12)), observers=(3,)))

    def says(self, state: PartitionState) -> None:
        """The metadata log, of this partition."""
        self.epoch += 1
        record = PartitionChanged(TP.topic_id, 0, replace(state, partition_epoch=self.epoch))
        self.image.apply(record)
        self.partitions.apply(self.image, [record], self.now)

    @property
    def state(self) -> PartitionState:
        state = self.image.partition(TP)
        assert state is not None
        return state

    def asked(self) -> bytes | None:
        return self.partitions.seeds.asked(self.replica, self.now)

    def replicated(self) -> None:
        self.partitions.run(self.replica, FollowerFetched(Seat(2, 12), self.replica.log.end_offset, 0), self.now)


def test_a_beginning_is_offered_once_it_is_committed_and_given_once_the_log_names_it() -> None:
    house = Leader()
    house.append(5)
    assert house.asked() is None and house.partitions.seeds.wanted() == [], "not replicated yet"
    house.append(2)
    house.replicated()
    assert house.asked() is None
    assert house.partitions.seeds.changed
    assert house.partitions.seeds.wanted() == [SeedProposal(TP.topic_id, 0, house.state.leader_epoch, 5)]
    house.says(replace(house.state, tail_start=5))
    assert house.partitions.seeds.wanted() == [], "it was taken"
    seed = house.asked()
    assert seed is not None
    observer = opened()
    assert tails.begin(observer, seed, house.now) == 5
    house.append(50)
    house.replica.log.roll(house.now)
    assert house.asked() == seed, "who comes later begins there, too"


def test_an_offer_of_an_earlier_epoch_is_void() -> None:
    house = Leader()
    house.append(5)
    house.replicated()
    assert house.asked() is None and len(house.partitions.seeds.wanted()) == 1
    house.says(replace(house.state, leader_epoch=house.state.leader_epoch + 1))
    assert house.partitions.seeds.wanted() == []
    assert house.asked() is None
    house.replicated()
    assert house.asked() is None
    (again,) = house.partitions.seeds.wanted()
    assert again.leader_epoch == house.state.leader_epoch


def test_a_leader_that_does_not_know_what_was_there_offers_another_beginning() -> None:
    house = Leader()
    house.append(5)
    house.replicated()
    house.says(replace(house.state, tail_start=3))  # of another leader, who had rolled there
    assert house.asked() is None
    assert [s.offset for s in house.partitions.seeds.wanted()] == [5]


def test_the_floor_lets_go_what_is_committed_and_nothing_else() -> None:
    house = Leader()
    house.append(9)
    house.says(replace(house.state, log_start_floor=7))
    assert house.replica.log.start_offset == 0, "nothing is committed yet"
    house.replicated()
    assert house.replica.core.high_watermark == 9 and house.replica.log.start_offset == 7


def test_a_tail_that_is_nobodys_any_more_is_set_aside_at_the_next_start() -> None:
    theirs = opened()
    for _ in range(4):
        append(theirs)
    offset = tails.roll_for_seed(theirs, Leader().now)
    assert offset == 4
    seed = tails.seed_at(theirs, offset)
    assert seed is not None
    house = House(SimDisk())
    tails.begin(house.replica.log, seed, house.now)
    folder = house.replica.log.folder
    assert house.disk.exists(folder / recovery.TAIL_START)
    elsewhere = replace(LEADS, replicas=(5,), isr=(Seat(5, 55),), leader=5, leader_incarnation=55, observers=())
    kept = House(house.disk.killed())
    assert kept.replica.log.start_offset == 4, "as a replica it is opened"
    found = _started(house.disk.killed(), elsewhere)
    assert [f.name for f in found.folders() if f.name.endswith("-stray")] == [f"{folder.name}-stray"]


def _started(disk: SimDisk, state: PartitionState) -> House:
    """A broker whose metadata log says that `state` at its start."""
    house = House(SimDisk())
    house.image.apply(PartitionChanged(TP.topic_id, 0, replace(state, partition_epoch=9)))
    house.disk = disk
    house.partitions = Partitions(
        1, LogDirs((A, B), disk), disk, Waiters(), lag_ms_max=10_000, topic_config=lambda t: opened().config
    )
    house.partitions.registered(11, house.now)
    house.partitions.load(house.image, house.now)
    return house
