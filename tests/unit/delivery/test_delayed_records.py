"""Delivery times from headers, and which records are rejected."""

from __future__ import annotations

import pytest

from brokerd.delivery.delay_schedule import DELAY_MS_MAX
from brokerd.delivery.delayed_records import (
    DelayProblem,
    build_delivered_record,
    delivery_time,
    key_digest,
    problems,
)
from brokerd.wire.records import Record

NOW = 1_790_000_000_000
Headers = tuple[tuple[str, bytes | None], ...]


def record(*headers: tuple[str, bytes | None], key: bytes | None = b"k", value: bytes | None = b"v") -> Record:
    return Record(7, NOW, key, value, headers)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ((("x-deliver-at-ms", b"%d" % (NOW + 5)),), NOW + 5),
        ((("x-deliver-at-ms", b"12"),), 12),
        ((("x-delay-ms", b"250"), ("other", b"x")), NOW + 250),
        ((("x-delay-ms", b"%d" % DELAY_MS_MAX),), NOW + DELAY_MS_MAX),
        ((("x-delay-ms", b"%d" % (DELAY_MS_MAX + 1)),), DelayProblem.TOO_FAR),
        ((("x-deliver-at-ms", b"%d" % (NOW + DELAY_MS_MAX + 1)),), DelayProblem.TOO_FAR),
        ((), DelayProblem.NO_TIME),
        ((("x-delay-ms", b"1"), ("x-deliver-at-ms", b"1")), DelayProblem.TWO_TIMES),
        ((("x-delay-ms", b"1"), ("x-delay-ms", b"2")), DelayProblem.TWO_TIMES),
        ((("x-delay-ms", b"-1"),), DelayProblem.NO_NUMBER),
        ((("x-delay-ms", b""),), DelayProblem.NO_NUMBER),
        ((("x-delay-ms", None),), DelayProblem.NO_NUMBER),
        ((("x-delay-ms", b"\xd9\xa1"),), DelayProblem.NO_NUMBER),
        ((("x-delay-ms", b"9" * 19),), DelayProblem.NO_NUMBER),
    ],
)
def test_the_delivery_time_is_that_of_the_header(headers: Headers, expected: int | DelayProblem) -> None:
    assert delivery_time(record(*headers), NOW) == expected


def test_a_tombstone_needs_a_key_and_no_header() -> None:
    assert delivery_time(record(value=None), NOW) is None
    assert delivery_time(record(value=None, key=None), NOW) is DelayProblem.NO_TIME
    assert delivery_time(record(("x-delay-ms", b"1"), value=None), NOW) == NOW + 1, "a tombstone for the topic"


def test_the_first_problems_of_a_batch_are_named() -> None:
    valid, keyless = record(("x-delay-ms", b"1")), record(("x-delay-ms", b"1"), key=None)
    assert problems([valid, record(), keyless], NOW, keyed=False) == [(1, DelayProblem.NO_TIME)]
    assert problems([valid, keyless], NOW, keyed=True) == [(1, DelayProblem.NO_KEY)]
    assert len(problems([record()] * 30, NOW, keyed=False)) == 10


def test_a_delivered_record_has_its_delivery_time() -> None:
    found = build_delivered_record(record(("x-delay-ms", b"250")), 3)
    assert (found.offset, found.timestamp, found.key, found.value) == (3, NOW + 250, b"k", b"v")


def test_digests_differ_and_a_missing_key_has_none() -> None:
    assert key_digest(None) == b"" and key_digest(b"") != key_digest(b"k") and len(key_digest(b"")) == 16
