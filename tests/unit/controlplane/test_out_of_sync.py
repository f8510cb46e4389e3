"""Why a copy is out of sync: in words on its partition's page, by what the leader counts."""

from __future__ import annotations

import pytest

from controlplane.kafka import BrokerSample
from controlplane.models import Broker, Partition, ReplicaFinding
from controlplane.samples import Book
from controlplane.selectors import partitions
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
F0 = ("flights", 0)


@pytest.fixture
def lagging(world: World) -> World:
    """flights-0 on brokers 1, 2 and 3; 3 is out of sync."""
    world.topic("flights", (1, 2, 3))
    world.put("flights", 0, isr=(1, 2))
    Broker.objects.update(answered=True)
    return world


def copy_on_3() -> partitions.ReplicaOf:
    row = partitions.partition_row("flights", 0)
    assert row is not None and [r.why_out for r in row.replica_rows[:2]] == ["", ""]
    return row.replica_rows[2]


@pytest.mark.parametrize(
    ("told", "words", "end", "behind"),
    [
        ((940, -1), "It lacks 60 records: see whether that falls", 940, 60),
        ((-1, -1), "It has asked nothing of broker 1 since that leads", None, None),
        ((1000, 700), "its log starts at 700, above its leader's at 200", 1000, 0),
        ((1000, -1), "it has stopped fetching", 1000, 0),
    ],
)
def test_the_leader_counts_how_far_a_copy_is_whatever_the_copy_says(
    lagging: World, told: tuple[int, int], words: str, end: int | None, behind: int | None
) -> None:
    """A copy that is cut off believes to lack nothing: it knows what it was told last."""
    book = Book()
    leader = BrokerSample(1, 5, {F0: (200, 1000)}, {F0: (700, 0)}, lagging={F0: {3: told}})
    follower = BrokerSample(3, 5, {}, {F0: (700, 0)}, lagging={F0: {2: (1, 1)}})
    book.write(book.take([leader, follower], {}, lagging.image, 5), lagging.mirror, lagging.image)
    assert Partition.objects.get().lagging == {"3": list(told)}, "a broker that does not lead has no say"
    copy = copy_on_3()
    assert words in copy.why_out and (copy.end_offset, copy.lag_records) == (end, behind)
    again = book.take([leader], {}, lagging.image, 6)
    assert not again.lagging, "nothing is written where nothing changed"
    whole = BrokerSample(1, 7, {F0: (200, 1000)}, {F0: (700, 0)})
    book.write(book.take([whole], {}, lagging.image, 7), lagging.mirror, lagging.image)
    assert Partition.objects.get().lagging == {}


def test_what_is_nearer_is_said_first(lagging: World) -> None:
    assert copy_on_3().why_out == "Its leader has not told yet how far it is."
    Partition.objects.update(lagging={"3": [940, -1]}, end_offset=1000)
    lagging.put("flights", 0, adding=(3,))
    assert copy_on_3().why_out.startswith("It is being copied there by a move. It lacks 60 records")
    lagging.put("flights", 0, adding=())
    topic_id = lagging.image.topic_ids["flights"]
    ReplicaFinding.objects.create(
        topic_id=topic_id, topic_name="flights", partition=0, broker_id=3, kind="disk", detail="/b: EIO"
    )
    assert copy_on_3().why_out == "Its directory has failed: /b: EIO."
    lagging.down(3)
    assert copy_on_3().why_out == "Its broker is down."


def test_a_partition_whose_every_holder_is_down_says_what_cannot_be_read(lagging: World) -> None:
    lagging.put("flights", 0, archive_start=600, archive_epoch=1, holders=(2, 3))
    assert (row := partitions.partition_row("flights", 0)) is not None and row.holders_down == []
    lagging.down(3)
    assert (row := partitions.partition_row("flights", 0)) is not None and row.holders_down == [3]


def test_the_first_in_trouble_are_those_of_the_sorted_list_without_its_sort(world: World) -> None:
    for name in ("b", "a", "c"):
        world.topic(name, (1, 2), (2, 3), (3, 1))
    assert partitions.in_trouble(3).rows == []
    for name, index in (("c", 0), ("b", 2), ("b", 0)):
        world.put(name, index, isr=(world.state(name, index).leader,))
    world.offline("a", 1)
    first = partitions.in_trouble(3)
    sorted_list = partitions.partition_list(only="problems", sort="topic", per_page=3)
    assert [(p.topic, p.index) for p in first.rows] == [("a", 1), ("b", 0), ("b", 2)]
    assert [(p.topic, p.index) for p in sorted_list.rows] == [("a", 1), ("b", 0), ("b", 2)]
    assert (first.total, first.pages) == (4, 2)
