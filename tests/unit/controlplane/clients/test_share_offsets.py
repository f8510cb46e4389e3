"""The requests of an offset reset of a share group."""

from __future__ import annotations

import pytest

from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from controlplane.clients import group_offsets
from controlplane.clients.group_offsets import GroupOffsetsClient
from controlplane.clients.share_offsets import ShareOffsetsClient, offsets_client
from controlplane.domain.offset_reset_types import CommittedOffset
from tests.unit.controlplane.share_group_responses import ShareGroupWorld

A0, A1, B0 = ("a", 0), ("a", 1), ("b", 0)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> ShareGroupWorld:
    world = ShareGroupWorld({"g": {A0: (5, 7), A1: (-1, -1), B0: (9, 0)}})
    monkeypatch.setattr(group_offsets, "KafkaConnection", world.connection)
    return world


def test_the_type_of_a_group_decides_on_the_client(world: ShareGroupWorld) -> None:
    with offsets_client("g") as client:
        assert isinstance(client, ShareOffsetsClient)
        assert client.requests == {"FIND_COORDINATOR": 1, "LIST_GROUPS": 1}
    with offsets_client("consumers") as client:
        assert type(client) is GroupOffsetsClient


def test_start_offsets_are_read_and_another_group_may_be_a_consumer_group(world: ShareGroupWorld) -> None:
    with ShareOffsetsClient("g") as client:
        assert client.fetch_committed() == ({A0: CommittedOffset(5), B0: CommittedOffset(9)}, set())
        assert client.fetch_committed([A1, B0]) == ({B0: CommittedOffset(9)}, set())
        assert client.fetch_committed(group_id="other") == ({("orders", 0): CommittedOffset(33)}, set())


def test_the_state_names_the_members(world: ShareGroupWorld) -> None:
    with ShareOffsetsClient("g") as client:
        assert not client.status().active
        world.members["g"] = ["m"]
        status = client.status()
        assert status.active and [(x.member_id, x.host) for x in status.members] == [("m", "h")]
        del world.groups["g"]
        assert client.status().state == "Dead"


def test_offsets_are_altered_or_all_are_rejected(world: ShareGroupWorld) -> None:
    world.errors = {B0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    wanted = {A0: CommittedOffset(1), B0: CommittedOffset(2)}
    with ShareOffsetsClient("g") as client:
        assert client.commit(wanted) == {B0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert client.fetch_committed()[0] == {A0: CommittedOffset(1), B0: CommittedOffset(9)}
        world.members["g"] = ["m"]
        assert client.commit(wanted) == dict.fromkeys(wanted, ErrorCode.NON_EMPTY_GROUP)
        assert world.requests.count(ApiKey.ALTER_SHARE_GROUP_OFFSETS) == 2


def test_offsets_are_deleted_for_whole_topics(world: ShareGroupWorld) -> None:
    world.groups["g"][A1] = (3, 1)
    with ShareOffsetsClient("g") as client:
        assert client.delete([A0]) == {A0: ErrorCode.INVALID_REQUEST}
        assert client.delete([A0, A1]) == {} and set(client.fetch_committed()[0]) == {B0}
        world.members["g"] = ["m"]
        assert client.delete([B0]) == {B0: ErrorCode.NON_EMPTY_GROUP}
