"""Replay of __consumer_offsets: the last group record decides the protocol, and the offsets stay."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.coordinator.classic import records as classic
from brokerd.coordinator.classic.events import Offset
from brokerd.coordinator.classic.group import Group
from brokerd.coordinator.consumer import records as consumer
from brokerd.coordinator.consumer.events import ConsumerGroupChange, GroupMetadata, GroupRecordKey
from brokerd.coordinator.consumer.group import ConsumerGroupMachine
from brokerd.coordinator.group_replay import AnyGroup, has_only_tombstones
from brokerd.coordinator.share_group import records as share
from brokerd.coordinator.share_group.events import ShareGroupChange, ShareRecordKey
from brokerd.coordinator.streams_group import records as streams
from brokerd.coordinator.streams_group.events import StreamsGroupChange, StreamsGroupMetadata, StreamsRecordKey
from brokerd.coordinator.streams_group.group import StreamsGroup
from brokerd.wire.records import Record
from tests.unit.coordinator.consumer.test_records import Harness


class Log:
    """Replays records one by one."""

    def __init__(self) -> None:
        self.replay = Harness().groups._replayed
        self.groups: dict[str, AnyGroup] = {}
        self.end = 0

    def add(self, key: bytes, value: bytes | None, producer_id: int | None = None) -> str | None:
        self.end += 1
        return self.replay.read(self.groups, Record(self.end - 1, 17, key, value), producer_id)

    def offset(self, value: int | None, producer_id: int | None = None) -> str | None:
        data = None if value is None else classic.offset_value(Offset(value, -1, "", 1))
        return self.add(classic.offset_key("g", "t", 0), data, producer_id)

    def classic(self, *, deleted: bool = False) -> None:
        value = None if deleted else classic.group_value(Group("g", protocol_type="consumer", generation=3), {}, 1)
        self.add(classic.group_key("g"), value)

    def consumer(self, value: Any) -> None:
        change = ConsumerGroupChange(GroupRecordKey.GROUP, "", value)
        self.add(consumer.key("g", change), consumer.value(change))

    def streams(self, value: StreamsGroupMetadata | None) -> None:
        change = StreamsGroupChange(StreamsRecordKey.GROUP, "", value)
        self.add(streams.key("g", change), streams.value(change))

    @property
    def offsets(self) -> dict[str, int]:
        return {t: o.offset for (t, _), o in self.groups["g"].commits.offsets.items()}


@pytest.fixture
def log() -> Log:
    return Log()


def test_a_later_offset_replaces_an_earlier_one_and_a_tombstone_deletes_it(log: Log) -> None:
    log.offset(5)
    log.offset(7)
    assert log.offsets == {"t": 7} and isinstance(log.groups["g"], Group)
    log.offset(None)
    assert log.offsets == {}
    assert has_only_tombstones(log.groups["g"])


def test_a_transactional_offset_names_its_group_and_is_not_visible(log: Log) -> None:
    assert log.offset(5, producer_id=77) == "g"
    assert log.offsets == {} and not has_only_tombstones(log.groups["g"])
    assert log.offset(5) is None


def test_the_last_group_record_decides_the_protocol_and_the_offsets_stay(log: Log) -> None:
    log.offset(5)
    log.classic()
    log.consumer(GroupMetadata(2))
    assert isinstance(log.groups["g"], ConsumerGroupMachine) and log.offsets == {"t": 5}
    log.classic(deleted=True)
    assert isinstance(log.groups["g"], ConsumerGroupMachine), "a tombstone of the classic group changes nothing now"
    log.classic()
    assert isinstance(log.groups["g"], Group) and log.groups["g"].generation == 3 and log.offsets == {"t": 5}
    log.consumer(None)
    assert isinstance(log.groups["g"], Group) and log.groups["g"].generation == 3


def test_a_tombstone_deletes_the_group_and_not_its_offsets(log: Log) -> None:
    log.offset(5)
    log.classic()
    log.classic(deleted=True)
    group = log.groups["g"]
    assert isinstance(group, Group) and group.generation == 0 and log.offsets == {"t": 5}
    log.consumer(GroupMetadata(2))
    log.consumer(None)
    assert isinstance(log.groups["g"], Group) and log.offsets == {"t": 5}


def test_a_share_group_is_deleted_by_its_tombstone(log: Log) -> None:
    change = ShareGroupChange(ShareRecordKey.GROUP, "", GroupMetadata(2))
    log.add(share.key("g", change), None)
    assert "g" not in log.groups, "there is no group to delete"


def test_a_streams_group_keeps_the_offsets_and_gives_them_back(log: Log) -> None:
    log.offset(5)
    log.streams(StreamsGroupMetadata(4))
    group = log.groups["g"]
    assert isinstance(group, StreamsGroup) and group.epoch == 4 and log.offsets == {"t": 5}
    log.streams(None)
    assert isinstance(log.groups["g"], Group) and log.offsets == {"t": 5}


def test_an_unknown_record_is_reported(log: Log) -> None:
    with pytest.raises(ValueError):
        log.add(b"\0\x63\0\1g", b"")
