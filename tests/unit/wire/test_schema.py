"""The schema compiler: nulls, tagged fields, wrong lengths, and limits for one message."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import pytest

from brokerd.wire import framing
from brokerd.wire.apis import APIS, Api
from brokerd.wire.framing import ELEMENTS_MAX, MalformedRequest, decode_request, encode_response
from brokerd.wire.messages import (
    FetchResponse,
    HeartbeatResponse,
    JoinGroupResponse,
    OffsetFetchRequest,
    StreamsGroupDescribeResponse,
)
from brokerd.wire.primitives import Malformed, put_uvarint
from brokerd.wire.schema import Struct, array, f, packer, unpacker


@dataclass(slots=True)
class Sample(Struct):
    """Every kind of field, plain from version 0, flexible from 1."""

    FLEXIBLE = 1

    @dataclass(slots=True)
    class Inner(Struct):
        number: int = f("int32")
        extra: str = f("string", "1+", tag=5, tagged="1+")

    name: str = f("string")
    maybe: str | None = f("string", nullable="0+")
    data: bytes = f("bytes")
    records: Any = f("records", nullable="0+")
    numbers: list[int] = f(array("int64"))
    inners: list[Sample.Inner] | None = f(array("Inner"), nullable="0+")
    tagged_numbers: list[int] = f(array("int32"), "1+", tag=0, tagged="1+")
    tagged_default: int = f("int32", "1+", default=7, tag=1, tagged="1+")


def pack_sample(value: Sample, version: int) -> bytes:
    out = bytearray()
    packer(Sample, version, version >= 1)(value, out, [])
    return bytes(out)


def unpack_sample(data: bytes, version: int, room: int = 1_000) -> Sample:
    value, end = unpacker(Sample, version, version >= 1)(memoryview(data), 0, len(data), [room])
    assert end == len(data)
    assert isinstance(value, Sample)
    return value


def full_sample() -> Sample:
    return Sample("name", "maybe", b"data", b"records", [1, -1], [Sample.Inner(4, "extra")], [9], 8)


# -- plain and flexible bytes by hand ------------------------------------------------------------------------------------
def test_version_0_bytes() -> None:
    assert pack_sample(full_sample(), 0) == (
        b"\0\4name"
        b"\0\5maybe"
        b"\0\0\0\4data"
        b"\0\0\0\7records"
        b"\0\0\0\2"
        b"\0\0\0\0\0\0\0\1"
        b"\xff\xff\xff\xff\xff\xff\xff\xff"
        b"\0\0\0\1"
        b"\0\0\0\4"
    )


def test_version_1_bytes() -> None:
    assert pack_sample(full_sample(), 1) == (
        b"\5name"
        b"\6maybe"
        b"\5data"
        b"\x08records"
        b"\3"
        b"\0\0\0\0\0\0\0\1"
        b"\xff\xff\xff\xff\xff\xff\xff\xff"
        b"\2"
        b"\0\0\0\4"
        b"\1\5\6\6extra"
        b"\2"
        b"\0\5\2\0\0\0\x09"
        b"\1\4\0\0\0\x08"
    )


@pytest.mark.parametrize("version", [0, 1])
def test_null_and_empty_are_different_and_read_back(version: int) -> None:
    for empty in (Sample(maybe=None, inners=None), Sample(maybe="", records=b"", inners=[])):
        back = unpack_sample(pack_sample(empty, version), version)
        assert (back.maybe, back.inners) == (empty.maybe, empty.inners)
        assert (back.records is None) == (empty.records is None)
    nulls, empties = Sample(maybe=None, records=None, inners=None), Sample(maybe="", records=b"", inners=[])
    assert pack_sample(nulls, 0) == b"\0\0\xff\xff\0\0\0\0\xff\xff\xff\xff\0\0\0\0\xff\xff\xff\xff"
    assert pack_sample(empties, 0) == b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
    assert pack_sample(nulls, 1) == b"\1\0\1\0\1\0\0"
    assert pack_sample(empties, 1) == b"\1\1\1\1\1\1\0"


@pytest.mark.parametrize(("at", "field"), [(0, "name"), (2, "data"), (4, "numbers")])
def test_null_in_a_non_nullable_field_is_malformed(at: int, field: str) -> None:
    flexible = [b"\5name", b"\0", b"\5data", b"\0", b"\1", b"\0", b"\0"]
    plain = [b"\0\4name", b"\xff\xff", b"\0\0\0\4data", b"\xff\xff\xff\xff", b"\0\0\0\0", b"\xff\xff\xff\xff", b""]
    assert unpack_sample(b"".join(flexible), 1).name == unpack_sample(b"".join(plain), 0).name == "name"
    flexible[at] = b"\0"
    plain[at] = b"\xff\xff" if at == 0 else b"\xff\xff\xff\xff"
    for pieces, version in ((flexible, 1), (plain, 0)):
        with pytest.raises(Malformed, match=field):
            unpack_sample(b"".join(pieces), version)


# -- tags ----------------------------------------------------------------------------------------------------------------
BEFORE_TAGS = b"\1\0\1\0\1\1"


@pytest.mark.parametrize(
    "tags",
    [b"\0", b"\1\x63\3abc", b"\2\x63\0\x64\1x", b"\1\xff\xff\xff\xff\x0f\2ab"],
    ids=["none", "one unknown", "two unknown", "the largest number"],
)
def test_unknown_tags_are_skipped(tags: bytes) -> None:
    back = unpack_sample(BEFORE_TAGS + tags, 1)
    assert (back.tagged_numbers, back.tagged_default) == ([], 7)


def test_unknown_tags_do_not_hide_known_ones() -> None:
    back = unpack_sample(BEFORE_TAGS + b"\3\0\5\2\0\0\0\x09\1\4\0\0\0\x08\x63\1x", 1)
    assert (back.tagged_numbers, back.tagged_default) == ([9], 8)


def test_a_tag_with_its_default_is_omitted() -> None:
    assert pack_sample(Sample(inners=[], tagged_default=7), 1).endswith(b"\0")
    assert pack_sample(Sample(inners=[], tagged_default=0), 1).endswith(b"\1\1\4\0\0\0\0")


# -- lengths -------------------------------------------------------------------------------------------------------------
WRONG_LENGTHS = [-2, -(2**31), 1, 100, 2**31 - 1]


@pytest.mark.parametrize("length", WRONG_LENGTHS)
def test_an_array_longer_than_its_bytes_is_malformed(length: int) -> None:
    plain = b"\0\0\xff\xff\0\0\0\0\xff\xff\xff\xff" + length.to_bytes(4, "big", signed=True)
    with pytest.raises(Malformed):
        unpack_sample(plain, 0)
    if length > 0:
        flexible = bytearray(b"\1\0\1\0")
        put_uvarint(flexible, length + 1)
        with pytest.raises(Malformed):
            unpack_sample(bytes(flexible), 1)


def test_a_null_struct_is_one_byte_in_the_least_size_of_an_element() -> None:
    """Streams groups have a nullable topology in each element: a response with two groups without one was rejected as too short."""
    groups = [StreamsGroupDescribeResponse.DescribedGroup(group_id=name) for name in ("", "")]
    out = bytearray()
    packer(StreamsGroupDescribeResponse, 0, True)(StreamsGroupDescribeResponse(groups=groups), out, [])
    value, end = unpacker(StreamsGroupDescribeResponse, 0, True)(memoryview(out), 0, len(out), [100])
    assert value.groups == groups and end == len(out)


@pytest.mark.parametrize("name", [b"\xff\xfe", b"\xed\xa0\x80", b"\xc0\x80"])
def test_an_invalid_utf8_string_is_rejected(name: bytes) -> None:
    frame = b"\0\x0c\0\3\0\0\0\1\xff\xff" + len(name).to_bytes(2, "big") + name + b"\0\0\0\1\0\1m\xff\xff"
    with pytest.raises(MalformedRequest):
        decode_request(memoryview(frame))


# -- message limits --------------------------------------------------------------------------------------------------------
def test_elements_are_counted_over_all_arrays_and_levels() -> None:
    value = Sample(numbers=[1] * 6, inners=[Sample.Inner(1)] * 4)
    assert len(unpack_sample(pack_sample(value, 0), 0, room=10).numbers) == 6
    with pytest.raises(Malformed, match="elements"):
        unpack_sample(pack_sample(value, 0), 0, room=9)
    tags = BEFORE_TAGS + b"\4" + b"\x63\0" * 4
    unpack_sample(tags, 1, room=4)
    with pytest.raises(Malformed, match="elements"):
        unpack_sample(tags, 1, room=3)


def encoded_offset_fetch(count: int) -> bytes:
    """An OffsetFetch v6 for `count` partitions."""
    topic = OffsetFetchRequest.OffsetFetchRequestTopic(name="t", partition_indexes=[1] * (count - 1))
    return framing.encode_request(9, 6, 1, "c", OffsetFetchRequest(group_id="g", topics=[topic]))[4:]


def test_a_request_has_a_maximum_number_of_elements() -> None:
    decode_request(memoryview(encoded_offset_fetch(ELEMENTS_MAX)))
    with pytest.raises(MalformedRequest, match="elements"):
        decode_request(memoryview(encoded_offset_fetch(ELEMENTS_MAX + 1)))


def test_twenty_megabytes_of_empty_names_are_rejected_quickly() -> None:
    """These requests took 30 s; then the broker's watchdog ended the process."""
    count = 10_000_000
    frame = bytearray(b"\0\3\0\x09\0\0\0\1\xff\xff\0")
    put_uvarint(frame, count + 1)
    frame += b"\1\0" * count + b"\0\0\0\0"
    before = time.process_time()
    with pytest.raises(MalformedRequest, match="elements"):
        decode_request(memoryview(frame))
    assert time.process_time() - before < 2


# -- responses -------------------------------------------------------------------------------------------------------------
def test_a_response_has_the_header_of_its_version() -> None:
    assert b"".join(encode_response(12, 3, 9, HeartbeatResponse())) == b"\0\0\0\x0a\0\0\0\x09\0\0\0\0\0\0"  # type: ignore[arg-type]
    assert b"".join(encode_response(12, 4, 9, HeartbeatResponse())) == b"\0\0\0\x0c\0\0\0\x09\0\0\0\0\0\0\0\0"  # type: ignore[arg-type]


def test_null_in_a_non_nullable_response_field_is_reported_as_an_internal_error() -> None:
    with pytest.raises((TypeError, AttributeError)):
        encode_response(11, 6, 1, JoinGroupResponse(protocol_name=None))
    assert encode_response(11, 7, 1, JoinGroupResponse(protocol_name=None))


def test_a_missing_diverging_epoch_is_omitted_and_not_zero() -> None:
    part = FetchResponse.PartitionData(0, 0, 5, aborted_transactions=None, records=b"")
    with_none = encode_response(
        1, 12, 1, FetchResponse(responses=[FetchResponse.FetchableTopicResponse("t", partitions=[part])])
    )
    part.diverging_epoch = FetchResponse.EpochEndOffset(epoch=0, end_offset=0)
    with_zero = encode_response(
        1, 12, 1, FetchResponse(responses=[FetchResponse.FetchableTopicResponse("t", partitions=[part])])
    )
    # Tag, length, two numbers, no tagged fields of its own.
    assert len(with_zero[0]) == len(with_none[0]) + 1 + 1 + 4 + 8 + 1


FLEXIBLE = [(a, v) for a in APIS.values() for v in range(a.min_version, a.max_version + 1) if a.flexible(v)]


@pytest.mark.parametrize(("api", "version"), FLEXIBLE, ids=[f"{a.name}-v{v}" for a, v in FLEXIBLE])
def test_unknown_tags_in_a_header_are_skipped(api: Api, version: int) -> None:
    frame = bytearray(framing.encode_request(api.key, version, 3, "c", api.request())[4:])
    assert frame[11] == 0
    frame[11:12] = b"\2\x63\3abc\x64\0"
    header, _ = decode_request(memoryview(frame))
    assert header == (api.key, version, 3, "c")
