"""Chooses the method of a search for a key: the key index of the topic, newest first, or a scan of the records. Pure.

Does not contain: the look-up by index (`selectors.key_lookups`), the scan (`domain.record_scan`).
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

from controlplane.domain.record_filter import RecordFilters
from controlplane.domain.record_query import RecordQuery, StartPosition


class ScanCause(StrEnum):
    """The reason why a search for a key does not use the key index. `no_index`: the topic has none. `forward`: the read starts at an offset or at the earliest
    record, and a look-up is newest first. `other_filters`: an index has keys only. `masked`: keys are hidden from the user."""

    NO_INDEX = "no_index"
    FORWARD = "forward"
    OTHER_FILTERS = "other_filters"
    MASKED = "masked"

    @property
    def is_no_index(self) -> bool:
        return self is ScanCause.NO_INDEX

    @property
    def is_forward(self) -> bool:
        return self is ScanCause.FORWARD

    @property
    def is_other_filters(self) -> bool:
        return self is ScanCause.OTHER_FILTERS

    @property
    def is_masked(self) -> bool:
        return self is ScanCause.MASKED


def searches_key_only(filters: RecordFilters) -> bool:
    return bool(filters.key) and not replace(filters, key="")


def scan_cause(query: RecordQuery, *, indexed: bool, masked: bool) -> ScanCause | None:
    """Return the reason why the key index is not used, or None. `query` has a filter by key. `masked`: a masking rule hides the keys from the user."""
    if masked:
        return ScanCause.MASKED
    if not indexed:
        return ScanCause.NO_INDEX
    if not searches_key_only(query.filters):
        return ScanCause.OTHER_FILTERS
    if query.start in (StartPosition.OFFSET, StartPosition.EARLIEST):
        return ScanCause.FORWARD
    return None
