"""Share groups as brokers describe them."""

from __future__ import annotations

from brokerd.sharing.delivery import RecordsInFlight
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from controlplane.clients import share_groups as client
from controlplane.clients.share_groups import ListedShareGroup, ShareMember, SharePartitionOffset
from tests.unit.controlplane.share_group_responses import ShareGroupWorld, records_in_flight


def test_a_group_is_listed_and_described_with_members_and_offsets() -> None:
    world = ShareGroupWorld({"g": {("orders", 0): (5, 7), ("orders", 1): (-1, -1)}}, {"g": ["m"]})
    connection = world.connection("h", 1)
    assert client.list_share_groups(connection, 3) == [ListedShareGroup("g", "Stable", 3)]
    (found,) = client.describe_share_groups(connection, ["g", "absent"])
    assert (found.state, found.epoch, found.assignor) == ("Stable", 4, "simple")
    assert found.members == (ShareMember("m", "c", "h", ("orders",), (("orders", 0), ("orders", 1))),)
    assert found.offsets == (SharePartitionOffset("orders", 0, 5, 7), SharePartitionOffset("orders", 1, None, None))
    assert (found.lag_records, found.partitions_unknown) == (7, 1)
    assert client.describe_share_groups(connection, ["absent"]) == []


def test_a_group_without_offsets_has_no_known_lag() -> None:
    (found,) = client.describe_share_groups(ShareGroupWorld({"g": {}}).connection("h", 1), ["g"])
    assert (found.lag_records, found.partitions_unknown, found.offsets) == (None, 0, ())


def test_the_error_of_a_partition_is_named() -> None:
    r = m.DescribeShareGroupOffsetsResponse
    part = r.DescribeShareGroupOffsetsResponsePartition(partition_index=0, start_offset=0, lag=0, error_code=15)
    topic = r.DescribeShareGroupOffsetsResponseTopic(topic_name="t", partitions=[part])
    (found,) = client.offsets_of(r.DescribeShareGroupOffsetsResponseGroup(group_id="g", topics=[topic]))
    assert (found.start, found.lag) == (None, None) and "coordinator" in found.error


def test_a_sample_without_a_response_is_unknown() -> None:
    world = ShareGroupWorld({"g": {("orders", 0): (5, 7)}})
    sampled = client.sample_share_groups(world.connection("h", 1), 1)
    assert sampled is not None and [g.group_id for g in sampled] == ["g"]
    world.slow = {ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS}
    assert client.sample_share_groups(world.connection("h", 1), 1) is None
    assert client.sample_share_groups(ShareGroupWorld().connection("h", 1), 1) == ()


def test_records_in_flight_are_read_from_the_leader() -> None:
    world = ShareGroupWorld()
    world.in_flight["g"] = [
        records_in_flight(
            "orders", 0, acquired={"m1": 3, "m2": 1}, lock_ms=900, redelivery=2, archiving=1, in_flight=9
        ),
        records_in_flight("orders", 1),
    ]
    connection = world.connection("h", 1)
    assert client.describe_in_flight(connection, "g") == {
        ("orders", 0): RecordsInFlight({"m1": 3, "m2": 1}, 900, 2, 1, 9, 200),
        ("orders", 1): RecordsInFlight({}, None, 0, 0, 0, 200),
    }
    assert client.describe_in_flight(connection, "other") == {}
