"""Records of streams groups in Kafka's formats, byte for byte. The bytes are those of Kafka 4.3.1's own classes."""

from __future__ import annotations

import pytest

from brokerd.coordinator.streams_group import records as formats
from brokerd.coordinator.streams_group.events import (
    StreamsGroupChange,
    StreamsGroupMetadata,
    StreamsMemberMetadata,
    StreamsRecordKey,
    UserEndpoint,
)
from brokerd.coordinator.streams_group.reconciliation import StreamsMemberAssignment, StreamsMemberState
from brokerd.coordinator.streams_group.tasks import TaskId, Tasks
from brokerd.coordinator.streams_group.topology import CopartitionGroup, InternalTopic, Subtopology, Topology
from tests.unit.coordinator.streams_group.scene import ids

MEMBER = StreamsMemberMetadata("r", "c", "/h", 5_000, 2, "p", UserEndpoint("e", 50_000), (("k", "v"),))
CURRENT = StreamsMemberAssignment(
    7,
    6,
    StreamsMemberState.UNREVOKED,
    Tasks(ids("0", 0, 2), ids("1", 1)),
    Tasks(ids("0", 1)),
    {TaskId("0", 0): 5, TaskId("0", 2): 7, TaskId("0", 1): 3},
)
TOPOLOGY = Topology(
    2,
    (
        Subtopology(
            "0",
            ("a",),
            ("s",),
            (InternalTopic("g-r", 4, 1, (("k", "v"),)),),
            (InternalTopic("g-c"),),
            (CopartitionGroup((0,), (0,)),),
        ),
    ),
)
BYTES = [
    (
        StreamsGroupChange(
            StreamsRecordKey.GROUP, "", StreamsGroupMetadata(5, -2, 3, (("num.standby.replicas", "1"),))
        ),
        "0011 0001 67",
        "000000000005fffffffffffffffe02000400000003011902156e756d2e7374616e6462792e7265706c69636173023100",
    ),
    (
        StreamsGroupChange(StreamsRecordKey.GROUP, "", StreamsGroupMetadata(5)),
        "0011 0001 67",
        "000000000005000000000000000000",
    ),
    (
        StreamsGroupChange(StreamsRecordKey.MEMBER, "m", MEMBER),
        "0013 0001 67 0001 6d",
        "00000002720263032f6800001388000000020270010265c3500002026b02760000",
    ),
    (
        StreamsGroupChange(StreamsRecordKey.MEMBER, "m", StreamsMemberMetadata(None, "c", "/h", 5_000, 2, "p")),
        "0013 0001 67 0001 6d",
        "000000000263032f6800001388000000020270ff0100",
    ),
    (StreamsGroupChange(StreamsRecordKey.TARGET_EPOCH, "", 9), "0014 0001 67", "00000000000900"),
    (
        StreamsGroupChange(StreamsRecordKey.TARGET_ASSIGNMENT, "m", Tasks(ids("0", 0, 2), ids("1", 1))),
        "0015 0001 67 0001 6d",
        "0000020230030000000000000002000202310200000001000100",
    ),
    (
        StreamsGroupChange(StreamsRecordKey.CURRENT_ASSIGNMENT, "m", CURRENT),
        "0016 0001 67 0001 6d",
        (
            "00000000000700000006020202300300000000000000020100090300000005000000070202310200000001000102023002000000010100"
            "050200000003010100"
        ),
    ),
    (
        StreamsGroupChange(StreamsRecordKey.TOPOLOGY, "", TOPOLOGY),
        "0017 0001 67",
        (
            "000000000002020230020261010204672d6300000000000001000202730204672d7200000004000102026b0276000002020000010200"
            "00000000"
        ),
    ),
]


@pytest.mark.parametrize(("change", "key", "value"), BYTES, ids=[c.fact.name for c, _, _ in BYTES])
def test_records_have_kafkas_bytes(change: StreamsGroupChange, key: str, value: str) -> None:
    assert formats.key("g", change) == bytes.fromhex(key)
    assert formats.value(change) == bytes.fromhex(value)
    assert formats.read_key(bytes.fromhex(key)) == ("g", change.fact, change.name)
    assert formats.read_value(change.fact, bytes.fromhex(value)) == change.value
    assert formats.value(StreamsGroupChange(change.fact, change.name, None)) is None


def test_the_time_of_an_assignment_is_skipped() -> None:
    data = bytes.fromhex("0000000000090100080000000000000001")
    assert formats.read_value(StreamsRecordKey.TARGET_EPOCH, data) == 9


@pytest.mark.parametrize("data", ["00", "0011", "0011 0005 67", "0013 0001 67", "0011 0001 67 0001 6d", "0063 0001 67"])
def test_malformed_keys_are_reported(data: str) -> None:
    with pytest.raises(ValueError):
        formats.read_key(bytes.fromhex(data))


@pytest.mark.parametrize("data", ["", "0001 00000007", "0000 0000", "0000 00000007 00000006 09 01 01 01 01 01 01 00"])
def test_malformed_values_are_reported(data: str) -> None:
    with pytest.raises(ValueError):
        formats.read_value(StreamsRecordKey.CURRENT_ASSIGNMENT, bytes.fromhex(data))
