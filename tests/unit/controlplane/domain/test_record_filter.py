"""Filters of records: each kind, combinations, and filters that are not understood."""

from __future__ import annotations

import json
from typing import Any

import pytest

from brokerd.wire.records import Record
from controlplane.domain.errors import Rejected
from controlplane.domain.record_filter import BRANCHES_MAX, FILTER_CHARS_MAX, JsonCondition, RecordFilters

FLIGHT = {
    "flight": {"carrier": "UA", "no": 1545, "late": True, "via": ["IAH", "DEN"]},
    "zip": "20095",
    "a key": 1,
    "stops": [{"at": "IAH"}, {"at": "DEN", "min": 12.5}],
}


def record(value: Any = None, key: bytes | None = b"UA-1545", headers: Any = ()) -> Record:
    data = value if isinstance(value, bytes) or value is None else json.dumps(value).encode()
    return Record(7, 1_000, key, data, tuple(headers))


def matches(filters: RecordFilters, found: Record) -> bool:
    matcher = filters.matcher()
    assert matcher is not None
    return matcher(found)


def test_without_a_filter_there_is_no_matcher() -> None:
    assert RecordFilters().matcher() is None and not RecordFilters() and RecordFilters(key="a")


def test_key_value_and_header() -> None:
    found = record({"a": "Gate timeout"}, headers=[("trace", b"4f=2a"), ("empty", None)])
    assert matches(RecordFilters(key="UA-1545"), found)
    assert not matches(RecordFilters(key="UA-154"), found)
    assert matches(RecordFilters(key_contains="154"), found)
    assert matches(RecordFilters(value_contains="timeout"), found)
    assert not matches(RecordFilters(value_contains="Timeout"), found)
    assert matches(RecordFilters(header="trace=4f=2a"), found)
    assert not matches(RecordFilters(header="trace=4f"), found)
    assert matches(RecordFilters(header="empty"), found) and not matches(RecordFilters(header="empty=x"), found)
    assert not matches(RecordFilters(header="other"), found)


def test_null_keys_and_values_match_nothing() -> None:
    empty = record(None, key=None)
    for filters in (
        RecordFilters(key="a"),
        RecordFilters(key_contains="a"),
        RecordFilters(value_contains="a"),
        RecordFilters(json="$.a != 1"),
    ):
        assert not matches(filters, empty)


def test_all_filters_must_match() -> None:
    found = record(FLIGHT)
    assert matches(RecordFilters(key_contains="UA", value_contains="IAH", json='$.flight.carrier == "UA"'), found)
    assert not matches(RecordFilters(key_contains="UA", value_contains="SFO", json='$.flight.carrier == "UA"'), found)


@pytest.mark.parametrize(
    "condition",
    [
        '$.flight.carrier == "UA"',
        "flight.carrier = UA",
        '$["flight"]["carrier"] != "DL"',
        '$["a key"] == 1',
        "$.flight.no >= 1545",
        "$.flight.no<1546",
        "$.flight.late == true",
        "$.flight.via[1] == DEN",
        "$.flight.via contains IAH",
        "$.flight.carrier contains U",
        "$.stops[*].min > 12",
        "$.stops[*].at == DEN",
        "$.zip == 20095",
        '$.zip > "20094"',
        "$.*.x == 1 ".replace(".*", "[*]").replace(".x == 1", ".carrier == UA"),
    ],
)
def test_json_conditions_that_match(condition: str) -> None:
    assert matches(RecordFilters(json=condition), record(FLIGHT))


@pytest.mark.parametrize(
    "condition",
    [
        "$.flight.late == 1",
        "$.flight.missing != 1",
        "$.flight.via[2] == DEN",
        "$.flight.no[0] == 1",
        "$.flight.carrier > 5",
        "$.flight.late > 0",
        "$.zip > 5",
        "$.flight == UA",
    ],
)
def test_json_conditions_that_do_not_match(condition: str) -> None:
    assert not matches(RecordFilters(json=condition), record(FLIGHT))


def test_values_that_are_not_json_do_not_match() -> None:
    for value in (b"carrier", b'{"carrier": ', b"\xff carrier", b"[" * 100_000 + b'"carrier"'):
        assert not matches(RecordFilters(json="$.carrier != 1"), record(value))


def test_an_escaped_name_is_found() -> None:
    assert matches(RecordFilters(json="$.carrier == UA"), record(b'{"c\\u0061rrier": "UA"}'))


def test_wildcards_compare_a_bounded_number_of_values() -> None:
    condition = JsonCondition.parse("$[*][*] == 1")
    assert condition.matcher()(record([[0] * (BRANCHES_MAX - 1) + [1]]))
    assert not condition.matcher()(record([[0] * BRANCHES_MAX, [1]]))


@pytest.mark.parametrize(
    "condition", ["", "$", "$ == 1", "$.a", "$.a ==", "$.a ~ 1", "$.a[x] == 1", "$..a == 1", "$" + ".a" * 21 + " == 1"]
)
def test_conditions_that_are_not_understood_are_rejected(condition: str) -> None:
    with pytest.raises(Rejected) as rejection:
        JsonCondition.parse(condition)
    assert rejection.value.field == "json"


def test_filters_have_a_limit_and_a_header_has_a_name() -> None:
    with pytest.raises(Rejected) as rejection:
        RecordFilters(value_contains="x" * (FILTER_CHARS_MAX + 1)).matcher()
    assert rejection.value.field == "value_contains"
    with pytest.raises(Rejected) as rejection:
        RecordFilters(header="=x").matcher()
    assert rejection.value.field == "header"
