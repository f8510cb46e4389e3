from __future__ import annotations

import struct
from typing import Any
from uuid import UUID

import pytest

from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from controlplane.feed import Feed
from controlplane.kafka import BrokerSample, GroupSample, Member, _groups, assigned
from controlplane.live import Hub
from controlplane.mirror import Difference
from controlplane.models import Broker, ConsumerGroup, GroupPartition, ObservedTopic, Partition, Replica
from controlplane.samples import GROUP_GONE_MS, Book
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
F0 = ("flights", 0)


def group(committed: dict[tuple[str, int], int], members: int = 1, name: str = "g") -> GroupSample:
    who = tuple(Member(f"m{i}", f"client-{i}", "127.0.0.1", (F0,) if i == 0 else ()) for i in range(members))
    return GroupSample(name, "Stable" if members else "Empty", "consumer", "range", who, committed)


def sample(at_ms: int, end: int, *groups: GroupSample, broker: int = 1, size: int | None = 700) -> BrokerSample:
    replicas = None if size is None else {F0: (size, 0)}
    return BrokerSample(broker, at_ms, {F0: (0, end)}, replicas, groups)


def test_answers_become_rows(world: World) -> None:
    world.topic("flights", (1, 2))
    book = Book()
    other = BrokerSample(2, 1000, {}, {F0: (600, 10)})
    changed = book.take([sample(1000, 100, group({F0: 60})), other], {}, world.image, 1000)
    book.write(changed, world.mirror, world.image)
    row = Partition.objects.get()
    assert (row.start_offset, row.end_offset, row.size_bytes) == (0, 100, 700)
    assert list(Replica.objects.values_list("broker_id", "size_bytes", "lag_records", "end_offset")) == [
        (1, 700, 0, 100), (2, 600, 10, 90),
    ]  # fmt: skip
    assert ObservedTopic.objects.get().records == 100
    g = ConsumerGroup.objects.get()
    assert (g.lag_records, g.member_count, g.coordinator, g.verdict) == (40, 1, 1, "OK")
    p = GroupPartition.objects.get()
    assert (p.committed, p.end_offset, p.lag_records, p.client_id) == (60, 100, 40, "client-0")


def test_what_a_broker_holds_is_told_once_its_row_says_so(world: World) -> None:
    """A page reads its rows again when it is told; told before they were written, it would show the old ones for ever."""
    world.topic("flights", (1, 2))
    hub, book = Hub(), Book()
    told = Feed(hub)
    told.image(world.image, Difference(), book)

    heard: list[dict[int, Any]] = []
    hub.listen(
        lambda u: (
            heard.append({b["broker_id"]: b["held"] for b in u["data"]["brokers"]}) if u["kind"] == "brokers" else None
        )
    )
    changed = book.take([sample(1000, 100)], {}, world.image, 1000)
    told.samples(changed, book)
    assert all(h[1] is None for h in heard), "no row says so yet"
    book.write(changed, world.mirror, world.image)
    assert Broker.objects.get(broker_id=1).held == 1
    told.samples(book.take([sample(2000, 100)], {}, world.image, 2000), book)
    assert heard[-1][1] == 1


def test_a_broker_that_does_not_answer_leaves_the_old_figures_and_is_marked(world: World) -> None:
    world.topic("flights", (1, 2))
    book = Book()
    book.write(book.take([sample(1000, 100)], {}, world.image, 1000), world.mirror, world.image)
    sampled = Partition.objects.get().sampled_at
    book.write(book.take([], {1: "timed out"}, world.image, 2000), world.mirror, world.image)
    row = Partition.objects.get()
    assert (row.end_offset, row.sampled_at) == (100, sampled)
    assert Broker.objects.get(broker_id=1).answered is False


def test_only_the_leaders_word_on_offsets_counts(world: World) -> None:
    world.topic("flights", (1, 2))
    book = Book()
    book.take([sample(1000, 100), BrokerSample(2, 1000, {F0: (0, 40)})], {}, world.image, 1000)
    assert book.offsets[F0] == (0, 100)


def test_a_partition_assigned_but_never_committed_is_unknown_not_zero(world: World) -> None:
    world.topic("flights", (1, 2))
    book = Book()
    book.write(book.take([sample(1000, 100, group({}))], {}, world.image, 1000), world.mirror, world.image)
    g = ConsumerGroup.objects.get()
    assert (g.lag_records, g.partitions_unknown, g.verdict) == (None, 1, "UNKNOWN")
    assert GroupPartition.objects.get().lag_records is None


def test_a_group_goes_only_after_all_brokers_have_answered_without_it_for_a_while(world: World) -> None:
    world.topic("flights", (1, 2))
    book = Book()
    book.write(book.take([sample(0, 100, group({F0: 5}))], {}, world.image, 0), world.mirror, world.image)
    later = GROUP_GONE_MS + 1000
    changed = book.take([sample(later, 100)], {2: "away"}, world.image, later)
    assert not changed.groups_gone
    changed = book.take([sample(later, 100)], {}, world.image, later)
    assert changed.groups_gone == {"g"}
    book.write(changed, world.mirror, world.image)
    assert not ConsumerGroup.objects.exists()


def test_a_partition_that_a_group_no_longer_reads_loses_its_row(world: World) -> None:
    world.topic("flights", (1, 2), (2, 1))
    book = Book()
    f1 = ("flights", 1)
    first = group({F0: 5, f1: 6})
    book.write(book.take([sample(0, 100, first)], {}, world.image, 0), world.mirror, world.image)
    assert GroupPartition.objects.count() == 2
    book.write(book.take([sample(1000, 100, group({F0: 5}))], {}, world.image, 1000), world.mirror, world.image)
    assert list(GroupPartition.objects.values_list("index", flat=True)) == [0]


def test_records_per_second_are_an_average_over_seconds(world: World) -> None:
    world.topic("flights", (1, 2))
    book = Book()
    for second in range(5):
        book.take([sample(second * 1000, 100 * second)], {}, world.image, second * 1000)
    assert book.topics["flights"].records_per_s == 100.0


def test_an_assignment_is_read_as_clients_write_it() -> None:
    data = (
        struct.pack(">hi", 1, 1)
        + struct.pack(">h", 7)
        + b"flights"
        + struct.pack(">i3i", 3, 0, 2, 4)
        + b"\xff\xff\xff\xff"
    )
    assert assigned(data) == (("flights", 0), ("flights", 2), ("flights", 4))


@pytest.mark.parametrize("data", [b"", b"\x00", struct.pack(">hi", 0, 2**31 - 1), struct.pack(">hih", 0, 1, 500)])
def test_an_assignment_that_is_none_is_empty(data: bytes) -> None:
    assert assigned(data) == ()


def test_an_assignment_that_promises_billions_of_partitions_is_empty() -> None:
    assert assigned(struct.pack(">hih", 0, 1, 1) + b"t" + struct.pack(">i", 2**31 - 1)) == ()


def test_groups_of_both_protocols_are_seen() -> None:
    """Each kind by its own API; the newer one is not asked of brokers that have no such group, as they may not know it."""
    kinds = {"old": "classic", "new": "consumer"}
    asked: list[ApiKey] = []

    class Broker:
        def call(self, api: ApiKey, version: int, body: Any) -> Any:
            asked.append(api)
            match api:
                case ApiKey.LIST_GROUPS:
                    listed = m.ListGroupsResponse.ListedGroup
                    return m.ListGroupsResponse(groups=[listed(group_id=g, group_type=k) for g, k in kinds.items()])
                case ApiKey.DESCRIBE_GROUPS:
                    told = m.DescribeGroupsResponse.DescribedGroup
                    return m.DescribeGroupsResponse(
                        groups=[told(group_id=g, group_state="Stable", protocol_type="consumer") for g in body.groups]
                    )
                case ApiKey.CONSUMER_GROUP_DESCRIBE:
                    r = m.ConsumerGroupDescribeResponse
                    has = r.Assignment([r.TopicPartitions(topic_id=UUID(int=1), topic_name="t", partitions=[0, 2])])
                    member = r.Member(
                        member_id="m", client_id="c", client_host="/h", assignment=has, target_assignment=has
                    )
                    return r(groups=[
                        r.DescribedGroup(group_id=g, group_state="Reconciling", assignor_name="uniform", members=[member])
                        for g in body.group_ids
                    ])  # fmt: skip
            r2 = m.OffsetFetchResponse
            part = r2.OffsetFetchResponsePartitions(partition_index=0, committed_offset=7)
            topics = [r2.OffsetFetchResponseTopics(name="t", partitions=[part])]
            return r2(groups=[r2.OffsetFetchResponseGroup(group_id=g.group_id, topics=topics) for g in body.groups])

    broker: Any = Broker()
    assert _groups(broker) == (
        GroupSample("old", "Stable", "consumer", "", (), {("t", 0): 7}),
        GroupSample(
            "new", "Reconciling", "consumer", "uniform", (Member("m", "c", "h", (("t", 0), ("t", 2))),), {("t", 0): 7}
        ),
    )
    asked.clear()
    del kinds["new"]
    assert [g.group_id for g in _groups(broker)] == ["old"] and ApiKey.CONSUMER_GROUP_DESCRIBE not in asked
