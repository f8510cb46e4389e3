"""Queries for records: limits, partitions as text, and resume tokens, also damaged ones."""

from __future__ import annotations

import base64
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerd.wire.records import Record
from controlplane.domain.errors import Rejected
from controlplane.domain.record_filter import RecordFilters
from controlplane.domain.record_query import (
    PARTITIONS_MAX,
    TOKEN_CHARS_MAX,
    RecordQuery,
    ResumePoint,
    StartPosition,
    partitions_of_text,
    text_of_partitions,
)
from controlplane.domain.record_scan import ScanRange

QUERY = RecordQuery("flights", filters=RecordFilters(key="UA"))
POINT = ResumePoint((ScanRange(0, 5, 90, 40), ScanRange(3, 0, 0, 0)), 17, 35, 2, 1_200)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        (RecordQuery("a", limit=0), "limit"),
        (RecordQuery("a", limit=501), "limit"),
        (RecordQuery("a", start=StartPosition.OFFSET), "offset"),
        (RecordQuery("a", start=StartPosition.OFFSET, offset=-1), "offset"),
        (RecordQuery("a", start=StartPosition.TIMESTAMP), "timestamp_ms"),
        (RecordQuery("a", start=StartPosition.MINUTES, minutes=0), "minutes"),
        (RecordQuery("a", start=StartPosition.MINUTES, minutes=10**6), "minutes"),
    ],
)
def test_invalid_queries_name_the_field(query: RecordQuery, field: str) -> None:
    with pytest.raises(Rejected) as rejection:
        query.check()
    assert rejection.value.field == field


def test_valid_queries() -> None:
    for query in (
        QUERY,
        RecordQuery("a", start=StartPosition.OFFSET, offset=0),
        RecordQuery("a", start=StartPosition.TIMESTAMP, timestamp_ms=0),
        RecordQuery("a", start=StartPosition.MINUTES, minutes=15),
    ):
        query.check()


def test_a_token_is_read_back_by_the_same_query_with_any_limit() -> None:
    token = POINT.token(QUERY)
    assert ResumePoint.of_token(token, QUERY) == POINT
    assert ResumePoint.of_token(token, RecordQuery("flights", filters=RecordFilters(key="UA"), limit=7)) == POINT


def test_a_token_of_the_most_partitions_fits_into_an_address() -> None:
    point = ResumePoint(tuple(ScanRange(p, 10**9 + 977 * p, 10**10 - p, 2 * 10**9 + p) for p in range(PARTITIONS_MAX)))
    token = point.token(QUERY)
    assert len(token) < TOKEN_CHARS_MAX / 2 and ResumePoint.of_token(token, QUERY) == point


def test_a_token_of_another_query_is_rejected() -> None:
    for other in (RecordQuery("flights"), RecordQuery("orders", filters=RecordFilters(key="UA"))):
        with pytest.raises(Rejected, match="another query"):
            ResumePoint.of_token(POINT.token(QUERY), other)


def pack_text(text: str) -> str:
    return base64.urlsafe_b64encode(zlib.compress(text.encode())).decode()


@pytest.mark.parametrize(
    "token",
    [
        "x",
        "é",
        "A" * (TOKEN_CHARS_MAX + 1),
        pack_text("[]"),
        pack_text("{}"),
        pack_text("[" * 30_000),
        pack_text(" " * 10_000_000),
        pack_text(f'["{QUERY.digest()}",0,0,0,0,[]]'),
        pack_text(f'["{QUERY.digest()}",0,0,0,0,[[0,5,4,5]]]'),
        pack_text(f'["{QUERY.digest()}",0,0,0,0,[[0,0,9,"5"]]]'),
        pack_text(f'["{QUERY.digest()}",0,0,0,0,[[0,0,1e300,5]]]'),
        pack_text(f'["{QUERY.digest()}",-1,0,0,0,[[0,0,9,5]]]'),
    ],
    ids=range(12),
)
def test_damaged_tokens_are_rejected(token: str) -> None:
    with pytest.raises(Rejected) as rejection:
        ResumePoint.of_token(token, QUERY)
    assert rejection.value.field == "resume"


@given(st.text(max_size=60))
def test_any_text_is_a_token_or_rejected(token: str) -> None:
    with pytest.raises(Rejected):
        ResumePoint.of_token(token, QUERY)


@pytest.mark.parametrize(
    ("text", "partitions"), [("", ()), (" ", ()), ("3", (3,)), ("8-10, 0,3,3", (0, 3, 8, 9, 10)), ("5-5", (5,))]
)
def test_partitions_as_text(text: str, partitions: tuple[int, ...]) -> None:
    assert partitions_of_text(text) == partitions
    assert partitions_of_text(text_of_partitions(partitions)) == partitions


@pytest.mark.parametrize("text", ["a", "-1", "3-1", "1-", "0-500", "1234567", "٣", "0-999999"])
def test_text_that_is_no_list_of_partitions_is_rejected(text: str) -> None:
    with pytest.raises(Rejected) as rejection:
        partitions_of_text(text)
    assert rejection.value.field == "partitions"


def test_until_bounds_the_timestamps_and_joins_the_filters() -> None:
    def record(timestamp: int, key: bytes) -> Record:
        return Record(0, timestamp, key, b"v")

    assert RecordQuery("flights").matcher() is None
    until = RecordQuery("flights", until_ms=1_000).matcher()
    assert until is not None and until(record(1_000, b"k")) and not until(record(1_001, b"k"))
    both = RecordQuery("flights", until_ms=1_000, filters=RecordFilters(key="k")).matcher()
    assert both is not None and both(record(1_000, b"k"))
    assert not both(record(1_000, b"other")) and not both(record(1_001, b"k"))
    with pytest.raises(Rejected) as rejection:
        RecordQuery("flights", start=StartPosition.TIMESTAMP, timestamp_ms=5, until_ms=4).check()
    assert rejection.value.field == "until_ms"
