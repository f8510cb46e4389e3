"""The form of the Messages page: defaults of an address, partitions, times in UTC, and the query that they mean."""

from __future__ import annotations

import pytest
from django.http import QueryDict

from console.message_forms import MessagesForm
from controlplane.domain.formats import Format
from controlplane.domain.record_query import StartPosition
from controlplane.services import Rejected


def form(address: str) -> MessagesForm:
    return MessagesForm.of_address(QueryDict(address))


def test_an_address_with_only_a_topic_reads_the_latest_records() -> None:
    it = form("topic=orders")
    assert it.is_valid(), it.errors
    query = it.query()
    assert (query.topic, query.partitions, query.start, query.limit, query.minutes) == (
        "orders",
        (),
        StartPosition.LATEST,
        50,
        15,
    )
    assert it.formats() == (Format.AUTO, Format.AUTO)


def test_the_fields_become_the_query() -> None:
    it = form(
        "topic=t&partitions=0,2-3&start=timestamp&time=2026-01-02T03:04:05&until=2026-01-02+03:05&limit=7"
        "&key=+k+&json=+$.a+==+1+&all_partitions=on&value_format=json"
    )
    assert it.is_valid(), it.errors
    query = it.query()
    assert (query.partitions, query.timestamp_ms, query.limit) == ((0, 2, 3), 1_767_323_045_000, 7)
    assert query.until_ms == 1_767_323_100_999, "the last millisecond of that second"
    assert (query.filters.key, query.filters.json, query.all_partitions) == (" k ", "$.a == 1", True)
    assert it.formats()[1] == Format.JSON


@pytest.mark.parametrize(
    ("address", "field"),
    [
        ("topic=t&partitions=a", "partitions"),
        ("topic=t&time=yesterday&start=timestamp", "time"),
        ("topic=t&offset=-1", "offset"),
        ("topic=t&limit=0", "limit"),
        ("topic=t&start=middle", "start"),
        ("", "topic"),
    ],
)
def test_an_error_is_beside_its_field(address: str, field: str) -> None:
    it = form(address)
    assert not it.is_valid() and set(it.errors) == {field}


@pytest.mark.parametrize(
    ("named", "field"), [("timestamp_ms", "time"), ("partition", "partitions"), ("topic", "topic")]
)
def test_a_rejection_of_the_service_is_beside_the_field_of_the_form(named: str, field: str) -> None:
    it = form("topic=t")
    it.is_valid()
    it.reject(Rejected("no", named))
    assert it.errors[field] == ["no"]
