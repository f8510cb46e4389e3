"""Half messages that were read from the log a short time ago, of all front partitions of a broker: most are delivered soon, and are not read again.

Invariant: the memory is limited; the oldest records are removed first. A record that is absent is read from the log. Does not contain: due records
(`record_cache`).
"""

from __future__ import annotations

from collections import OrderedDict

from brokerd.wire.records import Record

BYTES_MAX = 16 * 1024 * 1024
"""Maximum memory of the records."""
RECORD_BYTES = 600
"""Approximate memory of a record without its value."""


class RecentRecords:
    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self._bytes_max, self._bytes, self._readers = bytes_max, 0, 0
        self._records: OrderedDict[tuple[int, int], Record] = OrderedDict()
        """By (reader, offset)."""

    def new_reader(self) -> int:
        """Return the number of a new reader of a log. It does not find the records of earlier readers: offsets may have other records after an election."""
        self._readers += 1
        return self._readers

    def add(self, reader: int, record: Record) -> None:
        size = _size(record)
        if size > self._bytes_max:
            return
        self._records[reader, record.offset] = record
        self._bytes += size
        while self._bytes > self._bytes_max:
            self._bytes -= _size(self._records.popitem(last=False)[1])

    def take(self, reader: int, offset: int) -> Record | None:
        """Remove and return the record, if it is here."""
        record = self._records.pop((reader, offset), None)
        if record is not None:
            self._bytes -= _size(record)
        return record


def _size(record: Record) -> int:
    size = RECORD_BYTES + len(record.value or b"") + len(record.key or b"")
    for name, value in record.headers:
        size += len(name) + len(value or b"") + 150
    return size
