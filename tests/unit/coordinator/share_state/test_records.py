"""Records of __share_group_state in Kafka's formats, byte for byte. The bytes are those of Kafka 4.3.1's own classes."""

from __future__ import annotations

from uuid import UUID

import pytest

from brokerd.coordinator.share_state import records as formats
from brokerd.coordinator.share_state.records import SharePartitionKey, ShareStateKind
from brokerd.coordinator.share_state.state import ShareState, StateBatch, StateUpdate

T = UUID("00112233-4455-6677-8899-aabbccddeeff")
KEY = SharePartitionKey("g", T, 3)
STATE = ShareState(5, 2, 10, (StateBatch(10, 11, 0, 2), StateBatch(12, 12, 4, 5)), 1, 7, 1_000, 2_000)
UPDATE = StateUpdate(2, -1, (StateBatch(10, 11, 2, 2),), -1)


def bytes_of(text: str) -> bytes:
    return bytes.fromhex(text)


def test_bytes_of_keys() -> None:
    rest = "0001 67 00112233445566778899aabbccddeeff 00000003"
    assert formats.key(ShareStateKind.SNAPSHOT, KEY) == bytes_of("0000" + rest)
    assert formats.key(ShareStateKind.UPDATE, KEY) == bytes_of("0001" + rest)
    assert formats.read_key(bytes_of("0001" + rest)) == (ShareStateKind.UPDATE, KEY)


def test_bytes_of_a_snapshot() -> None:
    data = bytes_of(
        "0000 00000007 00000005 00000002 000000000000000a 00000000000003e8 00000000000007d0 03"
        "000000000000000a 000000000000000b 00 0002 00"
        "000000000000000c 000000000000000c 04 0005 00"
        "01 00 04 00000001"
    )
    assert formats.snapshot(STATE) == data
    assert formats.read_snapshot(data) == STATE


def test_bytes_of_an_update() -> None:
    data = bytes_of("0000 00000007 00000002 ffffffffffffffff 02 000000000000000a 000000000000000b 02 0002 00 00")
    assert formats.update(7, UPDATE) == data
    assert formats.read_update(data) == (7, UPDATE)


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0", b"\0\5abc", formats.key(ShareStateKind.UPDATE, KEY)[:-1]])
def test_an_invalid_key_is_an_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        formats.read_key(data)


@pytest.mark.parametrize("data", [b"", b"\0\1", formats.snapshot(STATE)[:-3]])
def test_an_invalid_value_is_an_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        formats.read_snapshot(data)
