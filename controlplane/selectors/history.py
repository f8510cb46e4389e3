"""Recorded history of metrics as points of charts. Three queries for all charts of a page.

Values that the database no longer has are read from the lake (job `history`), in one process for all charts of a page. Invariant: a step without a
recorded value has no value; nothing is interpolated.
"""

from __future__ import annotations

import math
import threading
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from django.db.models import Q
from django.utils import timezone

from controlplane.clients import lake
from controlplane.domain import history as domain
from controlplane.domain.errors import Rejected
from controlplane.domain.history import RANGE_S_MAX, ROWS_KEPT_S, ChartPoint
from controlplane.domain.visibility import subject_visible
from controlplane.models import HistoryChunk, HistoryFrame, HistorySeries
from controlplane.selectors.visibility import current_visibility
from weir_common import history_codes
from weir_common.history_codes import BLOCK_SERIES, CHUNK_VALUES, MINUTE_S, STEP_S
from weir_common.lake_history import HistoryResult
from weir_common.lake_queries import QueryError
from weir_common.phrases import sentence

RANGE_DEFAULT = timedelta(hours=1)
UNFINISHED_S = 2 * STEP_S
"""Seconds for which a missing value does not count as a gap, because it may not be written yet."""

LAKE_READS_MAX = 2
"""Maximum number of reads of the lake at a time in this process: each has a process with up to 256 MB."""

SeriesKey = tuple[str, str]
"""(subject, metric)."""

_free = threading.BoundedSemaphore(LAKE_READS_MAX)


class LakePart(StrEnum):
    """Source of the points that are older than the rows of the database."""

    NOT_NEEDED = "not_needed"
    READ = "read"
    NO_TABLE = "no_table"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class HistoryPointRow:
    """`at`: the begin of the step. `value`: average of the recorded values of the step, `peak`: the greatest of them; null = none was recorded.
    Values older than a day are averages of a minute."""

    at: datetime
    value: float | None
    peak: float | None


@dataclass(frozen=True, slots=True)
class MetricHistory:
    """The points of one metric in the order of time. `step_s`: seconds between two points. `total`: number of points. Values have three significant
    digits. `lake`: whether points older than 30 days were read from the lake (not_needed, read, no_table, failed); `lake_detail`: why not."""

    subject: str
    metric: str
    unit: str
    since: datetime
    until: datetime
    step_s: int
    total: int
    lake: str
    lake_detail: str
    rows: list[HistoryPointRow]


@dataclass(frozen=True, slots=True)
class Line:
    """`recorded`: some value of this metric was ever recorded."""

    step_s: int
    steps: list[ChartPoint]
    recorded: bool
    lake: LakePart = LakePart.NOT_NEEDED
    lake_detail: str = ""


def metric_history(
    subject: str, metric: str, since: datetime | None = None, until: datetime | None = None
) -> MetricHistory | None:
    """None if the metric of this subject was never recorded. Raises Rejected for an unknown metric and for a range that is not possible."""
    kind = domain.metric_of(subject, metric)
    since, until = checked_range(since, until)
    line = lines([(subject, metric)], since, until)[subject, metric]
    if not line.recorded:
        return None
    rows = [HistoryPointRow(datetime.fromtimestamp(p.at_s, UTC), p.value, p.peak) for p in line.steps]
    return MetricHistory(
        subject, metric, kind.unit.value, since, until, line.step_s, len(rows), line.lake.value, line.lake_detail, rows
    )


def checked_range(since: datetime | None, until: datetime | None) -> tuple[datetime, datetime]:
    """The range with its defaults, until now at most. Raises Rejected."""
    now = timezone.now()
    end = now if until is None else min(until, now)
    try:
        begin = end - RANGE_DEFAULT if since is None else since
    except OverflowError:
        raise Rejected("The time is too early.", "until") from None
    if begin > now:
        raise Rejected("The start of the range is in the future.", "since")
    if begin >= end:
        raise Rejected("The start of the range must be before its end.", "since")
    if (end - begin).total_seconds() > RANGE_S_MAX:
        raise Rejected(sentence("The range is at most {max} days.", max=RANGE_S_MAX // 86400), "since")
    return begin, end


def lines(keys: Sequence[SeriesKey], since: datetime, until: datetime) -> dict[SeriesKey, Line]:
    """The points of some series. All have the same step. Series of subjects that the user may not see have none."""
    seen = [key for key in keys if subject_visible(current_visibility(), key[0])]
    ids = _ids(seen)
    begin, end = since.timestamp(), until.timestamp()
    now = timezone.now().timestamp()
    is_old = begin < now - ROWS_KEPT_S - MINUTE_S
    chunks = _chunks(ids.values(), begin, end)
    least = MINUTE_S if is_old or any(step == MINUTE_S for _, step, _, _ in chunks) else STEP_S
    step_s = domain.step_for(end - begin, least)
    first, last = int(begin // step_s) * step_s, end
    # The first step of which the database has all values.
    kept = math.ceil((now - ROWS_KEPT_S) / step_s) * step_s if is_old else first
    values: dict[int, list[tuple[int, float]]] = {i: [] for i in ids.values()}
    for series_id, chunk_step, at, stored in chunks:
        values[series_id] += _values(history_codes.unpack(stored), at, chunk_step, max(first, kept), last)
    for series_id, at, code in _values_in_frames(ids.values(), first, last):
        value = history_codes.value_of(code)
        if value is not None:
            values[series_id].append((at, value))
    older, part, detail = _from_lake(seen, first, min(kept, math.ceil(end)), step_s)
    unfinished = now - UNFINISHED_S
    found = {}
    for key in keys:
        steps = domain.steps_of(values[ids[key]] if key in ids else (), begin, end, step_s)
        steps = [older.get((*key, s.at_s), s) for s in steps]
        while steps and steps[-1].value is None and steps[-1].at_s + step_s > unfinished:
            steps.pop()
        recorded = key in ids or any(s.value is not None for s in steps)
        found[key] = Line(step_s, steps, recorded, part, detail)
    return found


def newest_values(kind: domain.HistorySubject, metric: str) -> dict[str, float]:
    """The newest recorded value of a metric of each object of a kind, by the name of the object. Objects without a value in the last minute are
    omitted."""
    begins = f"{kind}:"
    series = HistorySeries.objects.filter(subject__startswith=begins, metric=metric)
    names = {i: subject.removeprefix(begins) for i, subject in series.values_list("pk", "subject")}
    now = timezone.now().timestamp()
    found: dict[str, tuple[int, float]] = {}
    for series_id, at, code in _values_in_frames(names.keys(), int(now) - MINUTE_S, now):
        value = history_codes.value_of(code)
        if value is not None:
            found[names[series_id]] = max(found.get(names[series_id], (0, 0.0)), (at, value))
    return {name: value for name, (_, value) in sorted(found.items())}


def _from_lake(
    keys: Sequence[SeriesKey], first: int, until: int, step_s: int
) -> tuple[dict[tuple[str, str, int], ChartPoint], LakePart, str]:
    """Steps of [first, until) by subject, metric and time, from the lake; nothing of an empty range."""
    if until <= first or not keys:
        return {}, LakePart.NOT_NEEDED, ""
    if not _free.acquire(blocking=False):
        return (
            {},
            LakePart.FAILED,
            sentence("{max} reads of the lake are running, which is the maximum.", max=LAKE_READS_MAX),
        )
    try:
        result: HistoryResult = lake.history(keys, first, until, step_s)
    finally:
        _free.release()
    if result.error is not None:
        part = LakePart.NO_TABLE if result.error is QueryError.NO_TABLE else LakePart.FAILED
        return {}, part, result.detail
    steps = {(p.subject, p.metric, p.at_s): ChartPoint(p.at_s, p.value, p.peak) for p in result.points}
    return steps, LakePart.READ, ""


def _ids(keys: Sequence[SeriesKey]) -> dict[SeriesKey, int]:
    requested = Q(pk__in=[])
    for subject, metric in keys:
        requested |= Q(subject=subject, metric=metric)
    rows = HistorySeries.objects.filter(requested).order_by().values_list("subject", "metric", "id")
    return {(subject, metric): i for subject, metric, i in rows}


def _chunks(ids: Iterable[int], begin: float, end: float) -> list[tuple[int, int, int, bytes | memoryview]]:
    """(series, seconds between values, time of the first value, values) of each chunk with a part of the range."""
    if not (requested := list(ids)):
        return []
    fine = Q(step_s=STEP_S, begins__gt=begin - CHUNK_VALUES * STEP_S)
    coarse = Q(step_s=MINUTE_S, begins__gt=begin - CHUNK_VALUES * MINUTE_S)
    rows = HistoryChunk.objects.filter(fine | coarse, series_id__in=requested, begins__lt=end).order_by()
    return list(rows.values_list("series_id", "step_s", "begins", "codes"))


def _values(codes: array[int], at: int, step_s: int, first: int, last: float) -> Iterator[tuple[int, float]]:
    for i, code in enumerate(codes):
        when = at + i * step_s
        if first <= when < last and (value := history_codes.value_of(code)) is not None:
            yield when, value


def _values_in_frames(ids: Iterable[int], first: int, last: float) -> Iterator[tuple[int, int, int]]:
    """(series, time, code) of the values that are not in chunks yet."""
    blocks: dict[int, list[tuple[int, int]]] = {}
    for series_id in ids:
        block, place = divmod(series_id, BLOCK_SERIES)
        blocks.setdefault(block, []).append((series_id, 2 * place))
    if not blocks:
        return
    frames = HistoryFrame.objects.filter(block__in=list(blocks), at__gte=first, at__lt=last).order_by()
    for block, at, stored in frames.values_list("block", "at", "codes"):
        codes = bytes(stored)
        for series_id, place in blocks[block]:
            if place < len(codes):
                yield series_id, at, int.from_bytes(codes[place : place + 2], "little")
