"""The follower that a Fetch request names, and the replica or error of each of its partitions."""

from __future__ import annotations

import pytest

from brokerd.apis.fetch_lookup import follower_of, look_up
from brokerd.cluster.model import ReplicaIncarnation
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import FetchRequest
from tests.simulation.disk import SimDisk
from tests.unit.replication.test_relocations import TP, Harness


@pytest.mark.parametrize(
    ("body", "version", "follower"),
    [
        (FetchRequest(replica_id=-1), 11, None),
        (FetchRequest(replica_id=2), 14, ReplicaIncarnation(2, -1)),
        (FetchRequest(replica_state=FetchRequest.ReplicaState(2, 17)), 15, ReplicaIncarnation(2, 17)),
        (FetchRequest(replica_state=FetchRequest.ReplicaState(-1, -1)), 15, None),
        (FetchRequest(replica_id=2), 15, None),
    ],
    ids=["consumer", "follower without an epoch", "follower", "new consumer", "old field in a new version"],
)
def test_a_follower_is_named_by_the_field_of_the_version(
    body: FetchRequest, version: int, follower: ReplicaIncarnation | None
) -> None:
    assert follower_of(body, version) == follower


def test_each_partition_has_a_replica_or_an_error() -> None:
    harness = Harness(SimDisk())
    requested = [FetchRequest.FetchPartition(partition=n, current_leader_epoch=-1) for n in (0, 7)]
    fenced = FetchRequest.FetchPartition(partition=0, current_leader_epoch=99)
    body = FetchRequest(replica_id=-1)
    named = [FetchRequest.FetchTopic(topic="t", partitions=requested)]
    found = look_up(harness.replica_manager, named, body, 12)
    assert [(key, r.replica, r.error) for key, r in found.items()] == [
        (("t", 0), harness.replica, ErrorCode.NONE),
        (("t", 7), None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    by_id = look_up(
        harness.replica_manager, [FetchRequest.FetchTopic(topic_id=TP.topic_id, partitions=[fenced])], body, 13
    )
    assert (
        by_id[TP.topic_id.int, 0].error is ErrorCode.UNKNOWN_LEADER_EPOCH
        and by_id[TP.topic_id.int, 0].topic_name == "t"
    )
    unknown = look_up(
        harness.replica_manager, [FetchRequest.FetchTopic(topic="absent", partitions=requested)], body, 12
    )
    assert {r.error for r in unknown.values()} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_the_last_of_two_requests_for_one_partition_counts() -> None:
    harness = Harness(SimDisk())
    twice = [FetchRequest.FetchPartition(partition=0, current_leader_epoch=-1, fetch_offset=n) for n in (3, 5)]
    found = look_up(harness.replica_manager, [FetchRequest.FetchTopic(topic="t", partitions=twice)], FetchRequest(), 12)
    assert [r.requested.fetch_offset for r in found.values()] == [5]
