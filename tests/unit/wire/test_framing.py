"""Bytes that are not what they should be: one error, no more memory than the bytes themselves, for every API and version."""

from __future__ import annotations

import random
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokerd.wire.apis import APIS, Api
from brokerd.wire.framing import (
    Framer,
    FrameTooLarge,
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
from tests.protocol.test_messages_oracle import plain

CASES = [(api, v) for api in APIS.values() for v in range(api.min_version, api.max_version + 1)]
ids = [f"{a.name}-v{v}" for a, v in CASES]


def frame_of(api: Api, version: int, seed: int) -> tuple[bytes, Any]:
    body = Generator(seed).message(api.request, version)
    return encode_request(api.key, version, seed, "client", body), body


@pytest.mark.parametrize(("api", "version"), CASES, ids=ids)
def test_what_is_written_is_read_again(api: Api, version: int) -> None:
    for seed in range(5):
        frame, body = frame_of(api, version, seed)
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        header, read = decode_request(memoryview(frame)[4:])
        assert header == (api.key, version, seed, "client")
        assert plain(read) == plain(body)
        answer = Generator(seed).message(api.response, version)
        out = b"".join(bytes(p) for p in encode_response(api.key, version, seed, answer))  # type: ignore[arg-type]
        correlation, read = decode_response(api.key, version, memoryview(out)[4:])
        assert (correlation, plain(read)) == (seed, plain(answer))


@pytest.mark.parametrize(("api", "version"), CASES, ids=ids)
def test_a_frame_cut_anywhere_is_malformed(api: Api, version: int) -> None:
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
def test_changed_bytes_never_raise_anything_else_nor_take_memory(api: Api, version: int) -> None:
    """A length read from the wire may not become an allocation: what decodes or fails costs a bounded multiple of the frame."""
    rng = random.Random(api.key * 100 + version)
    frame = bytearray(frame_of(api, version, 1)[0][4:4004])
    start = 8  # key and version stay, or it is another test
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
def test_any_bytes_at_all(data: bytes) -> None:
    decode_request_safely(bytearray(data))
    for key in (0, 1, 3, 11, 18):
        decode_request_safely(bytearray(key.to_bytes(2, "big") + data))


def test_a_count_beyond_the_bytes_that_remain_is_refused_before_anything_is_made() -> None:
    """Kafka's own decoder once took such a count at its word; five bytes made one of the oracles ask for 34 GB."""
    head = bytes.fromhex("0003 000c 00000001 0001 78 00")
    with pytest.raises(MalformedRequest):
        decode_request(memoryview(head + b"\xff\xff\xff\xff\x0f"))
    head = bytes.fromhex("0003 0001 00000001 0001 78")
    with pytest.raises(MalformedRequest):
        decode_request(memoryview(head + b"\x7f\xff\xff\xff"))


def test_unknown_keys_and_versions_are_told_apart() -> None:
    with pytest.raises(UnknownApi, match="API key 999"):
        decode_request(memoryview(bytes.fromhex("03e7 0000 00000001 ffff")))
    with pytest.raises(UnsupportedVersion, match="API 18 version 99") as e:
        decode_request(memoryview(bytes.fromhex("0012 0063 00000007 ffff")))
    assert e.value.header.correlation_id == 7


def test_a_missing_client_id_and_trailing_bytes_are_fine() -> None:
    frame = encode_request(12, 0, 1, None, HeartbeatRequest(group_id="g", generation_id=1, member_id="m"))
    header, body = decode_request(memoryview(frame + b"more")[4:])
    assert (header.client_id, body.group_id) == (None, "g")


@given(st.lists(st.binary(max_size=50), max_size=8), st.lists(st.integers(0, 60), max_size=20))
@settings(max_examples=200, deadline=None)
def test_a_stream_cut_anywhere_gives_the_same_frames(bodies: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(len(b).to_bytes(4, "big") + b for b in bodies)
    framer, got, at = Framer(50), [], 0
    for cut in [*cuts, len(stream)]:
        got += [bytes(f) for f in framer.feed(stream[at : at + cut])]
        at += cut
    assert got == bodies


@pytest.mark.parametrize("length", [-1, -(2**31), 51, 2**31 - 1])
def test_a_length_out_of_bounds_ends_it(length: int) -> None:
    with pytest.raises(FrameTooLarge):
        Framer(50).feed(length.to_bytes(4, "big", signed=True))


def test_null_topics_and_none_are_different_questions() -> None:
    for version in (1, 12):
        for topics in (None, []):
            frame = encode_request(3, version, 1, "c", MetadataRequest(topics=topics))
            assert decode_request(memoryview(frame)[4:])[1].topics == topics
