"""A query for records of a topic, and the resume token of an unfinished read. Pure.

A token has the range and the position of each partition, and a digest of the query: another query rejects it. It contains no record, and nothing in
it is trusted. Does not contain: offsets of the cluster, the scan (`domain.record_scan`).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum

from controlplane.domain.errors import Rejected
from controlplane.domain.record_filter import Matcher, RecordFilters
from controlplane.domain.record_scan import ScanRange
from weir_common.phrases import sentence

LIMIT_MAX = 500
"""Maximum number of records that one read finds: a page. A download has its own limit."""

PARTITIONS_MAX = 500
"""Maximum number of partitions that one read merges. Each needs a chunk in memory."""

MINUTES_MAX = 366 * 24 * 60
"""Maximum number of minutes for a start before now: a year. Use a timestamp to find older records."""

TOKEN_CHARS_MAX = 32_000
"""Maximum length of a token. A token of PARTITIONS_MAX partitions has about 10,000 characters."""

TOKEN_BYTES_MAX = 100 * PARTITIONS_MAX
"""Maximum number of bytes of an unpacked token."""


class StartPosition(StrEnum):
    LATEST = "latest"
    EARLIEST = "earliest"
    MINUTES = "minutes"
    TIMESTAMP = "timestamp"
    OFFSET = "offset"


@dataclass(frozen=True, slots=True)
class RecordQuery:
    """`start`: latest (the newest `limit` records, newest first), earliest, minutes (that many minutes ago), timestamp, offset. `partitions`: empty =
    all. A filter by key reads only the partitions of the default partitioners, unless `all_partitions` is set. `until_ms`: the largest timestamp of a
    record that is found."""

    topic: str
    partitions: tuple[int, ...] = ()
    start: StartPosition = StartPosition.LATEST
    offset: int | None = None
    timestamp_ms: int | None = None
    minutes: int | None = None
    limit: int = 50
    filters: RecordFilters = field(default_factory=RecordFilters)
    all_partitions: bool = False
    until_ms: int | None = None

    @property
    def backward(self) -> bool:
        return self.start is StartPosition.LATEST

    def check(self, limit_max: int = LIMIT_MAX) -> None:
        """Raises Rejected with the invalid field."""
        if not 1 <= self.limit <= limit_max:
            raise Rejected(
                sentence(
                    "{limit} records is out of range; use 1 to {limit_max}.",
                    limit=self.limit,
                    limit_max=f"{limit_max:,}",
                ),
                "limit",
            )
        if self.start is StartPosition.OFFSET and (self.offset is None or self.offset < 0):
            raise Rejected("The offset must be 0 or larger.", "offset")
        if self.start is StartPosition.TIMESTAMP and (self.timestamp_ms is None or self.timestamp_ms < 0):
            raise Rejected("The timestamp is missing: milliseconds since 1970, 0 or larger.", "timestamp_ms")
        if self.start is StartPosition.MINUTES and not 1 <= (self.minutes or 0) <= MINUTES_MAX:
            raise Rejected(sentence("Give the minutes before now, 1 to {max}.", max=f"{MINUTES_MAX:,}"), "minutes")
        if self.until_ms is not None and self.until_ms < (self.timestamp_ms or 0):
            raise Rejected("The end of the time range is before its start.", "until_ms")

    def matcher(self) -> Matcher | None:
        """Return None if every record matches. Raises Rejected for a filter that is not understood."""
        matcher, until_ms = self.filters.matcher(), self.until_ms
        if until_ms is None:
            return matcher
        return lambda record: record.timestamp <= until_ms and (matcher is None or matcher(record))

    def since_ms(self, now_ms: int) -> int:
        """The oldest timestamp of the read, 0 = none."""
        if self.start is StartPosition.MINUTES:
            return max(0, now_ms - (self.minutes or 0) * 60_000)
        return self.timestamp_ms or 0 if self.start is StartPosition.TIMESTAMP else 0

    def digest(self) -> str:
        """Return a digest of the query without the limit, which may differ between the pages of a read."""
        text = json.dumps({**asdict(self), "limit": 0}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """`since_ms`: the timestamp that a start in minutes meant, 0 = none. `scanned`, `found`, `elapsed_ms`: of the pages before."""

    ranges: tuple[ScanRange, ...]
    since_ms: int = 0
    scanned: int = 0
    found: int = 0
    elapsed_ms: int = 0

    def token(self, query: RecordQuery) -> str:
        rows = [[r.partition, r.start, r.end, r.position] for r in self.ranges]
        numbers = self.since_ms, self.scanned, self.found, self.elapsed_ms
        data = json.dumps([query.digest(), *numbers, rows], separators=(",", ":"))
        return base64.urlsafe_b64encode(zlib.compress(data.encode(), 9)).decode().rstrip("=")

    @staticmethod
    def of_token(token: str, query: RecordQuery) -> ResumePoint:
        """Raises Rejected for a token that is damaged or of another query."""
        try:
            if len(token) > TOKEN_CHARS_MAX:
                raise ValueError
            packed = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
            data = zlib.decompressobj().decompress(packed, TOKEN_BYTES_MAX)
            digest, since_ms, scanned, found, elapsed_ms, rows = json.loads(data)
            numbers = map(_count, (since_ms, scanned, found, elapsed_ms))
            point = ResumePoint(tuple(_range(row) for row in rows), *numbers)
        except (ValueError, TypeError, RecursionError, binascii.Error, zlib.error):
            raise Rejected("The resume token is damaged. Start the read again.", "resume") from None
        if digest != query.digest():
            raise Rejected("The resume token belongs to another query. Start the read again.", "resume")
        if not point.ranges or len(point.ranges) > PARTITIONS_MAX:
            raise Rejected("The resume token is damaged. Start the read again.", "resume")
        return point


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise ValueError
    return value


def _range(row: Sequence[object]) -> ScanRange:
    partition, start, end, position = map(_count, row)
    if not start <= position <= end:
        raise ValueError
    return ScanRange(partition, start, end, position)


def partitions_of_text(text: str) -> tuple[int, ...]:
    """Partition numbers from `0,3,8-11`; empty = all. Raises Rejected."""
    found: set[int] = set()
    for part in filter(None, (p.strip() for p in text.split(","))):
        first, dash, last = (x.strip() for x in part.partition("-"))
        last = last if dash else first
        if not all(x.isascii() and x.isdigit() and len(x) < 7 for x in (first, last)) or int(first) > int(last):
            raise Rejected(
                sentence("{part} is not a partition or a range of partitions: write 0,3,8-11.", part=repr(part[:40])),
                "partitions",
            )
        if len(found) + int(last) - int(first) >= PARTITIONS_MAX:
            raise Rejected(
                sentence("More than {max} partitions; choose some of them.", max=PARTITIONS_MAX), "partitions"
            )
        found.update(range(int(first), int(last) + 1))
    return tuple(sorted(found))


def text_of_partitions(partitions: Sequence[int]) -> str:
    return ",".join(map(str, partitions))
