"""Records of share groups in Kafka's formats, byte for byte. The bytes are those of Kafka 4.3.1's own classes."""

from __future__ import annotations

from uuid import UUID

import pytest

from brokerd.cluster.model import TopicPartition
from brokerd.coordinator.share_group import records as formats
from brokerd.coordinator.share_group.events import (
    ShareGroupChange,
    ShareMemberAssignment,
    ShareMemberMetadata,
    ShareRecordKey,
    StatePartitions,
)

T = UUID("00112233-4455-6677-8899-aabbccddeeff")
TWO = frozenset({TopicPartition(T, 0), TopicPartition(T, 2)})
BYTES = [
    (
        ShareGroupChange(ShareRecordKey.MEMBER, "m", ShareMemberMetadata("r", "c", "/h", frozenset({"b", "a"}))),
        "000a 0001 67 0001 6d",
        "0000 0272 0263 032f68 03 0261 0262 00",
    ),
    (ShareGroupChange(ShareRecordKey.GROUP, "", (5, -2)), "000b 0001 67", "0000 00000005 fffffffffffffffe 00"),
    (ShareGroupChange(ShareRecordKey.TARGET_EPOCH, "", 9), "000c 0001 67", "0000 00000009 00"),
    (
        ShareGroupChange(ShareRecordKey.TARGET_ASSIGNMENT, "m", TWO),
        "000d 0001 67 0001 6d",
        "0000 02 00112233445566778899aabbccddeeff 03 00000000 00000002 00 00",
    ),
    (
        ShareGroupChange(ShareRecordKey.CURRENT_ASSIGNMENT, "m", ShareMemberAssignment(7, 6, TWO)),
        "000e 0001 67 0001 6d",
        "0000 00000007 00000006 00 02 00112233445566778899aabbccddeeff 03 00000000 00000002 00 00",
    ),
    (
        ShareGroupChange(
            ShareRecordKey.STATE_PARTITIONS, "", StatePartitions({}, {T: ("a", frozenset({0, 1}))}, {T: "b"})
        ),
        "000f 0001 67",
        (
            "0000 01 02 00112233445566778899aabbccddeeff 0261 03 00000000 00000001 00"
            "02 00112233445566778899aabbccddeeff 0262 00 00"
        ),
    ),
]


@pytest.mark.parametrize(("change", "key", "value"), BYTES, ids=[c.fact.name for c, _, _ in BYTES])
def test_records_have_kafkas_bytes(change: ShareGroupChange, key: str, value: str) -> None:
    assert formats.key("g", change) == bytes.fromhex(key)
    assert formats.value(change) == bytes.fromhex(value)
    assert formats.read_key(bytes.fromhex(key)) == ("g", change.fact, change.name)
    assert formats.read_value(change.fact, bytes.fromhex(value)) == change.value
    assert formats.value(ShareGroupChange(change.fact, change.name, None)) is None


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\x0a\0\x01g", b"\0\x0b\0\x09g", b"\0\x63\0\x01g", b"\0\x0b\xff\xffg"])
def test_an_invalid_key_is_an_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        formats.read_key(data)


@pytest.mark.parametrize("data", [b"", b"\0\1", b"\0\0\0"])
def test_an_invalid_value_is_an_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        formats.read_value(ShareRecordKey.GROUP, data)
