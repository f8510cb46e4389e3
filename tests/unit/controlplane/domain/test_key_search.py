"""When a search for a key uses the key index of its topic, and why not."""

from __future__ import annotations

import pytest

from controlplane.domain.key_search import ScanCause, scan_cause
from controlplane.domain.record_filter import RecordFilters
from controlplane.domain.record_query import RecordQuery, StartPosition

KEY = RecordFilters(key="k")


@pytest.mark.parametrize(
    ("start", "cause"),
    [
        (StartPosition.LATEST, None),
        (StartPosition.MINUTES, None),
        (StartPosition.TIMESTAMP, None),
        (StartPosition.OFFSET, ScanCause.FORWARD),
        (StartPosition.EARLIEST, ScanCause.FORWARD),
    ],
)
def test_a_start_by_time_is_newest_first(start: StartPosition, cause: ScanCause | None) -> None:
    assert scan_cause(RecordQuery("orders", start=start, filters=KEY), indexed=True, masked=False) is cause


@pytest.mark.parametrize("other", ["key_contains", "value_contains", "json", "header"])
def test_another_filter_needs_a_scan(other: str) -> None:
    query = RecordQuery("orders", filters=RecordFilters(key="k", **{other: "x"}))
    assert scan_cause(query, indexed=True, masked=False) is ScanCause.OTHER_FILTERS


def test_a_masked_key_is_never_looked_up() -> None:
    query = RecordQuery("orders", filters=KEY)
    assert scan_cause(query, indexed=True, masked=True) is ScanCause.MASKED
    assert scan_cause(query, indexed=False, masked=True) is ScanCause.MASKED
    assert scan_cause(query, indexed=False, masked=False) is ScanCause.NO_INDEX


@pytest.mark.parametrize("cause", list(ScanCause))
def test_one_property_of_a_cause_is_true(cause: ScanCause) -> None:
    assert [other for other in ScanCause if getattr(cause, f"is_{other}")] == [cause]
