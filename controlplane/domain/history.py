"""Recorded history of figures: subjects, figures and units, the stored form of values, and the points of a chart. Pure.

A value is stored as a code of 16 bits with three significant digits. Points are averages of the stored values of their step; a step without a stored
value has none. Invariant: nothing is interpolated. Does not contain: clocks, rows.
"""

from __future__ import annotations

import math
import zlib
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from controlplane.domain.errors import Rejected

STEP_S = 10
"""Seconds between recorded values."""

MINUTE_S = 60
CHUNK_VALUES = 360
"""Values in a chunk: one hour of values every 10 s, or six hours of averages of a minute."""

POINTS_MAX = 450
"""Points of a chart: more would not be visible."""

STEPS_S = (10, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200)
"""Steps of points. The last one has 31 days in 372 points."""

RANGE_S_MAX = 31 * 86_400
"""Seconds of one request. Older values than 30 days are not stored."""

MISSING = 0
EXACT = 1000
"""Codes of tenths below this number are exact: 0 to 99.9."""
DECADE = 900
"""Codes of a power of ten: three significant digits."""
NO_DELTA = 0xFFFF
"""Stands for a missing value in a chunk."""
RAW_DEFLATE = -15


class HistorySubject(StrEnum):
    CLUSTER = "cluster"
    TOPIC = "topic"
    GROUP = "group"
    BROKER = "broker"
    PARTITION = "partition"


class Unit(StrEnum):
    RECORDS = "records"
    RECORDS_PER_S = "records/s"
    BYTES = "bytes"
    SECONDS = "s"
    MILLISECONDS = "ms"
    PARTITIONS = "partitions"
    REPLICAS = "replicas"


@dataclass(frozen=True, slots=True)
class HistoryFigure:
    name: str
    unit: Unit
    label: str


FIGURES: dict[HistorySubject, tuple[HistoryFigure, ...]] = {
    HistorySubject.CLUSTER: (
        HistoryFigure("records_per_s", Unit.RECORDS_PER_S, "Records in per second"),
        HistoryFigure("lag_records", Unit.RECORDS, "Lag of all groups, records"),
        HistoryFigure("size_bytes", Unit.BYTES, "Size, bytes"),
        HistoryFigure("under_replicated", Unit.PARTITIONS, "Under-replicated partitions"),
        HistoryFigure("offline", Unit.PARTITIONS, "Offline partitions"),
    ),
    HistorySubject.TOPIC: (
        HistoryFigure("records_per_s", Unit.RECORDS_PER_S, "Records in per second"),
        HistoryFigure("size_bytes", Unit.BYTES, "Size, bytes"),
    ),
    HistorySubject.GROUP: (
        HistoryFigure("lag_records", Unit.RECORDS, "Lag, records"),
        HistoryFigure("lag_s", Unit.SECONDS, "Longest lag, seconds"),
        HistoryFigure("consumed_per_s", Unit.RECORDS_PER_S, "Consumed records per second"),
    ),
    HistorySubject.BROKER: (
        HistoryFigure("produce_p99_ms", Unit.MILLISECONDS, "Produce latency p99, ms"),
        HistoryFigure("disk_used_bytes", Unit.BYTES, "Disk used, bytes"),
        HistoryFigure("size_bytes", Unit.BYTES, "Size of its replicas, bytes"),
        HistoryFigure("replicas_in_sync", Unit.REPLICAS, "Replicas in sync"),
        HistoryFigure("replicas_out_of_sync", Unit.REPLICAS, "Replicas out of sync"),
        HistoryFigure("leaders", Unit.PARTITIONS, "Partitions that it leads"),
    ),
    HistorySubject.PARTITION: (
        HistoryFigure("records_per_s", Unit.RECORDS_PER_S, "Records in per second"),
        HistoryFigure("size_bytes", Unit.BYTES, "Size on the leader, bytes"),
        HistoryFigure("replicas_in_sync", Unit.REPLICAS, "Replicas in sync"),
    ),
}


def figure_of(subject: str, name: str) -> HistoryFigure:
    """Raises Rejected for a subject or a figure that is not recorded."""
    kind, separator, rest = subject.partition(":")
    known = {k.value for k in HistorySubject}
    if kind not in known or (kind == HistorySubject.CLUSTER) != (not separator) or (separator and not rest):
        forms = "cluster, topic:NAME, group:ID, broker:ID, partition:TOPIC:INDEX"
        raise Rejected(f"There is no subject {subject!r}. A subject has one of these forms: {forms}.", "subject")
    figures = {f.name: f for f in FIGURES[HistorySubject(kind)]}
    if name not in figures:
        raise Rejected(f"A {kind} has no figure {name!r}. Its figures are: {', '.join(figures)}.", "figure")
    return figures[name]


def code_of(value: float | None) -> int:
    """The stored form of a value, with three significant digits. Negative values are stored as zero."""
    if value is None or not math.isfinite(value):
        return MISSING
    tenths = max(0, round(value * 10))
    if tenths < EXACT:
        return 1 + tenths
    power = len(str(tenths)) - 3
    digits: int = round(tenths / 10**power)
    if digits == EXACT:
        power, digits = power + 1, EXACT // 10
    return 1 + EXACT + DECADE * (power - 1) + digits - EXACT // 10


@lru_cache(maxsize=1 << 16)
def value_of(code: int) -> float | None:
    """The value of a code, None for MISSING."""
    if code == MISSING:
        return None
    if code <= EXACT:
        return (code - 1) / 10
    power, digits = divmod(code - 1 - EXACT, DECADE)
    return float((digits + EXACT // 10) * 10**power)


def pack(codes: Sequence[int]) -> bytes:
    """The stored form of a chunk: differences, low bytes before high bytes, compressed."""
    low, high, before = bytearray(len(codes)), bytearray(len(codes)), 0
    for i, code in enumerate(codes):
        if code == MISSING:
            low[i] = high[i] = 0xFF
            continue
        delta = code - before
        before = code
        # Differences of both signs become small numbers.
        folded = delta << 1 if delta >= 0 else (-delta << 1) - 1
        low[i], high[i] = folded & 0xFF, folded >> 8
    packer = zlib.compressobj(9, zlib.DEFLATED, RAW_DEFLATE)
    return packer.compress(bytes(low + high)) + packer.flush()


def unpack(stored: bytes | memoryview) -> array[int]:
    """The codes of a chunk."""
    planes = zlib.decompress(stored, RAW_DEFLATE)
    count = len(planes) // 2
    codes, before = array("H", bytes(2 * count)), 0
    for i in range(count):
        folded = planes[i] | planes[count + i] << 8
        if folded == NO_DELTA:
            continue
        before += folded >> 1 if folded & 1 == 0 else -((folded + 1) >> 1)
        codes[i] = before
    return codes


def minute_codes(codes: Sequence[int]) -> list[int]:
    """The averages of each minute of values every STEP_S."""
    each = MINUTE_S // STEP_S
    averages = []
    for first in range(0, len(codes), each):
        values = [v for c in codes[first : first + each] if (v := value_of(c)) is not None]
        averages.append(code_of(sum(values) / len(values)) if values else MISSING)
    return averages


@dataclass(frozen=True, slots=True)
class Step:
    """A point of a chart: average and greatest value of the step that begins at `at_s`; None = no value was recorded."""

    at_s: int
    value: float | None
    peak: float | None


def step_for(span_s: float, least_s: int = STEP_S) -> int:
    """The smallest step with at most POINTS_MAX points, and not below the resolution of the stored values."""
    fitting = [s for s in STEPS_S if s >= least_s and span_s <= s * (POINTS_MAX - 1)]
    return fitting[0] if fitting else STEPS_S[-1]


def steps_of(values: Iterable[tuple[int, float]], since_s: float, until_s: float, step_s: int) -> list[Step]:
    """Points from `since_s` to `until_s`, all of them, in their order. `values`: (time, value) in any order."""
    found: dict[int, list[float]] = {}
    for at, value in values:
        found.setdefault(at - at % step_s, []).append(value)
    first = math.floor(since_s / step_s) * step_s
    points = []
    for at in range(first, math.ceil(until_s), step_s):
        here = found.get(at)
        points.append(Step(at, round(sum(here) / len(here), 3), max(here)) if here else Step(at, None, None))
    return points
