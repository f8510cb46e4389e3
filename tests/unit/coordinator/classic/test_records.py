"""Records of classic groups and committed offsets in Kafka's formats, byte for byte, also of older versions."""

from __future__ import annotations

import pytest

from brokerd.coordinator.classic import records
from brokerd.coordinator.classic.events import Member, Offset, State
from brokerd.coordinator.classic.group import Group
from brokerd.coordinator.classic.records import Key

OFFSET = Offset(5, 2, "me", 17)
OFFSET_BYTES = "0003 0000000000000005 00000002 0002 6d65 0000000000000011"


def test_a_committed_offset_has_kafkas_format() -> None:
    assert records.offset_key("g", "t", 3) == bytes.fromhex("0001 0001 67 0001 74 00000003")
    assert records.offset_value(OFFSET) == bytes.fromhex(OFFSET_BYTES)
    assert records.read_key(records.offset_key("g", "t", 3)) == Key("g", "t", 3)
    assert records.read_offset(bytes.fromhex(OFFSET_BYTES)) == OFFSET
    older = bytes.fromhex("0001 0000000000000005 0002 6d65 0000000000000011")
    assert records.read_offset(older) == Offset(5, -1, "me", 17), "without a leader epoch before version 3"


def test_a_group_is_read_back_with_its_members() -> None:
    group = Group("g", protocol_type="consumer", protocol="range", leader="m", generation=4)
    group.members["m"] = Member("m", "i", "c", "/h", 10, 20, (("range", b"meta"),))
    data = records.group_value(group, {"m": b"all"}, 17)
    read = Group("g")
    records.read_group(read, data)
    assert (read.protocol_type, read.protocol, read.leader, read.generation) == ("consumer", "range", "m", 4)
    assert (read.state, read.static) == (State.STABLE, {"i": "m"})
    member = read.members["m"]
    assert (member.session_ms, member.rebalance_ms, member.assignment, member.metadata("range")) == (
        10,
        20,
        b"all",
        b"meta",
    )
    assert records.read_key(records.group_key("g")) == Key("g", None, -1)


def test_a_group_without_members_is_empty_since_the_time_of_its_record() -> None:
    read = Group("g", leader="m")
    records.read_group(read, records.group_value(Group("g"), {}, 17))
    assert (read.state, read.leader, read.empty_since_wall_ms, read.protocol_type) == (State.EMPTY, None, 17, None)


@pytest.mark.parametrize("cut", range(1, 20))
def test_cut_off_records_are_reported(cut: int) -> None:
    for data, read in (
        (records.offset_key("g", "t", 3), records.read_key),
        (records.offset_value(OFFSET), records.read_offset),
    ):
        if cut < len(data):
            with pytest.raises(ValueError, match="is incomplete"):
                read(data[:-cut])


@pytest.mark.parametrize(("data", "what"), [("0003 0001 67", "key version 3"), ("ffff 0001 67", "key version -1")])
def test_unknown_key_versions_are_reported(data: str, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        records.read_key(bytes.fromhex(data))


def test_unknown_value_versions_are_reported() -> None:
    with pytest.raises(ValueError, match="value version 4 of an offset"):
        records.read_offset(b"\0\4" + bytes(30))
    with pytest.raises(ValueError, match="value version 4 of a group"):
        records.read_group(Group("g"), b"\0\4" + bytes(30))


def test_records_are_divided_into_batches_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "BATCH_BYTES", 6)
    pairs: list[tuple[bytes, bytes | None]] = [(b"a", b"xxxx"), (b"b", b"x"), (b"c", None), (b"d", b"xxxxxxxx")]
    assert list(records.batches_of(pairs)) == [pairs[:2], pairs[2:]]
    assert list(records.batches_of([])) == []
