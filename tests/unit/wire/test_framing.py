"""Malformed bytes: one error type, and memory bounded by the size of the bytes, for every API and version."""

from __future__ import annotations

import random
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokerd.wire.apis import APIS, Api
from brokerd.wire.framing import (
    MalformedRequest,
    UnknownApi,
    UnsupportedVersion,
    WireError,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from brokerd.wire.messages import HeartbeatRequest, MetadataRequest
from tests.protocol.generate import Generator
from tests.protocol.test_messages_oracle import comparable_value

CASES = [(api, v) for api in APIS.values() for v in range(api.min_version, api.max_version + 1)]
ids = [f"{a.name}-v{v}" for a, v in CASES]


def frame_of(api: Api, version: int, seed: int) -> tuple[bytes, Any]:
    body = Generator(seed).message(api.request, version)
    return encode_request(api.key, version, seed, "client", body), body


@pytest.mark.parametrize(("api", "version"), CASES, ids=ids)
def test_a_written_message_is_read_back(api: Api, version: int) -> None:
    for seed in range(5):
        frame, body = frame_of(api, version, seed)
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        header, read = decode_request(memoryview(frame)[4:])
        assert header == (api.key, version, seed, "client")
        assert comparable_value(read) == comparable_value(body)
        response = Generator(seed).message(api.response, version)
        out = b"".join(bytes(p) for p in encode_response(api.key, version, seed, response))  # type: ignore[arg-type]
        correlation, read = decode_response(api.key, version, memoryview(out)[4:])
        assert (correlation, comparable_value(read)) == (seed, comparable_value(response))


@pytest.mark.parametrize(("api", "version"), CASES, ids=ids)
def test_a_truncated_frame_is_malformed(api: Api, version: int) -> None:
    frame, _ = frame_of(api, version, 3)
    body = memoryview(frame)[4:]
    rng = random.Random(7)
    cuts = range(len(body)) if len(body) < 300 else sorted(rng.sample(range(len(body)), 300))
    for cut in cuts:
        try:
            decode_request(body[:cut])
        except WireError:
            continue
        raise AssertionError(f"{cut} of {len(body)} bytes were taken for a whole request")


@pytest.mark.parametrize(("api", "version"), CASES, ids=ids)
def test_changed_bytes_raise_only_malformed_and_allocate_little_memory(api: Api, version: int) -> None:
    """A length from the wire must not become an allocation: decoding, successful or not, costs a bounded multiple of the frame."""
    rng = random.Random(api.key * 100 + version)
    frame = bytearray(frame_of(api, version, 1)[0][4:4004])
    start = 8  # API key and version do not change: the test is about the body
    decode_request_safely(frame)
    tracemalloc.start()
    try:
        for _ in range(60):
            changed = bytearray(frame)
            for _ in range(rng.choice((1, 1, 2, 5))):
                at = rng.randrange(start, len(changed)) if len(changed) > start else 0
                changed[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            if rng.random() < 0.3:
                at = rng.randrange(start, len(changed) + 1)
                changed[at:at] = rng.choice((b"\xff\xff\xff\xff\x0f", b"\x7f\xff\xff\xff", b"\x80" * 12, b"\xff" * 9))
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            decode_request_safely(changed)
            peak = tracemalloc.get_traced_memory()[1] - before
            assert peak < 200 * len(changed) + 200_000, f"{peak} bytes for a frame of {len(changed)}"
    finally:
        tracemalloc.stop()


def decode_request_safely(frame: bytearray) -> None:
    try:
        decode_request(memoryview(frame))
    except WireError:
        pass


@given(st.binary(max_size=400))
@settings(max_examples=400, deadline=None)
def test_random_bytes_raise_only_malformed(data: bytes) -> None:
    decode_request_safely(bytearray(data))
    for key in (0, 1, 3, 11, 18):
        decode_request_safely(bytearray(key.to_bytes(2, "big") + data))


def test_an_array_length_above_the_remaining_bytes_is_rejected_before_allocation() -> None:
    """Kafka's own decoder used to allocate for such a count: five bytes made a reference decoder request 34 GB."""
    head = bytes.fromhex("0003 000c 00000001 0001 78 00")
    with pytest.raises(MalformedRequest):
        decode_request(memoryview(head + b"\xff\xff\xff\xff\x0f"))
    head = bytes.fromhex("0003 0001 00000001 0001 78")
    with pytest.raises(MalformedRequest):
        decode_request(memoryview(head + b"\x7f\xff\xff\xff"))


def test_unknown_api_keys_and_versions_have_different_errors() -> None:
    with pytest.raises(UnknownApi, match="API key 999"):
        decode_request(memoryview(bytes.fromhex("03e7 0000 00000001 ffff")))
    with pytest.raises(UnsupportedVersion, match="API 18 version 99") as e:
        decode_request(memoryview(bytes.fromhex("0012 0063 00000007 ffff")))
    assert e.value.header.correlation_id == 7


def test_a_missing_client_id_and_trailing_bytes_are_accepted() -> None:
    frame = encode_request(12, 0, 1, None, HeartbeatRequest(group_id="g", generation_id=1, member_id="m"))
    header, body = decode_request(memoryview(frame + b"more")[4:])
    assert (header.client_id, body.group_id) == (None, "g")


def test_null_topics_and_an_empty_list_are_different() -> None:
    for version in (1, 12):
        for topics in (None, []):
            frame = encode_request(3, version, 1, "c", MetadataRequest(topics=topics))
            assert decode_request(memoryview(frame)[4:])[1].topics == topics
