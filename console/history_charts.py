"""The charts of a page: their range from the query string, their points, and the marks on their time line.

`?range=1h` is a range that ends now, `?since=...&until=...` (UTC) one between two times. All charts of a page have the same range.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from console.access_rules import may_open
from console.vocabulary import rejection_text, translated
from controlplane.domain.errors import Rejected
from controlplane.domain.history import HistorySubject, metric_of
from controlplane.domain.visibility import subject_visible
from controlplane.monitoring.live_points import LIVE_METRICS
from controlplane.selectors import history
from controlplane.selectors.history import LakePart
from controlplane.selectors.history_marks import MarkKind, MarkRow, marks
from controlplane.selectors.visibility import current_visibility
from weir_common.durations import Duration, DurationUnit
from weir_common.history_codes import STEP_S

RANGES = {
    "15m": (Duration.of("15", DurationUnit.MINUTE), timedelta(minutes=15)),
    "1h": (Duration.of("1", DurationUnit.HOUR), timedelta(hours=1)),
    "6h": (Duration.of("6", DurationUnit.HOUR), timedelta(hours=6)),
    "24h": (Duration.of("24", DurationUnit.HOUR), timedelta(days=1)),
    "7d": (Duration.of("7", DurationUnit.DAY), timedelta(days=7)),
    "30d": (Duration.of("30", DurationUnit.DAY), timedelta(days=30)),
    "90d": (Duration.of("90", DurationUnit.DAY), timedelta(days=90)),
    "365d": (Duration.of("1", DurationUnit.YEAR), timedelta(days=365)),
}
RANGE_DEFAULT = "15m"
LIVE_RANGES = ("15m", "1h")
"""Ranges whose charts move with the live updates. The others change little within a minute."""

INPUT_FORMAT = "%Y-%m-%dT%H:%M"


@dataclass(frozen=True, slots=True)
class Chart:
    """`points`: [[times in s], [averages]] as JSON, with [greatest values] if `peaks`. `peaks`: a step has several recorded values. `fed`: live updates have
    the metric. `csv`: address of the same points, empty if the metric was never recorded. `of`: the part of the page's object that the chart
    shows."""

    subject: str
    metric: str
    label: str
    points: str
    peaks: bool
    fed: bool
    csv: str
    of: str = ""


@dataclass(frozen=True, slots=True)
class ChartMark:
    """`text`: that of the row in the language of the request. `url`: empty if the user may not open the page of the mark."""

    row: MarkRow
    text: str
    url: str


@dataclass(frozen=True, slots=True)
class PageCharts:
    """`choice`: a key of RANGES, or empty for a range between two times. `problem`: why the requested range is not shown. `marks`: newest first.
    `lake`: whether the values older than 30 days were read; `lake_detail`: why not."""

    choice: str
    problem: str
    live: bool
    since: datetime
    until: datetime
    charts: list[Chart]
    marks: list[ChartMark]
    marks_more: bool
    lake: LakePart = LakePart.NOT_NEEDED
    lake_detail: str = ""

    @property
    def lake_was_read(self) -> bool:
        return self.lake is LakePart.READ

    @property
    def lake_has_no_table(self) -> bool:
        return self.lake is LakePart.NO_TABLE

    @property
    def lake_failed(self) -> bool:
        return self.lake is LakePart.FAILED

    @property
    def since_s(self) -> int:
        return int(self.since.timestamp())

    @property
    def until_s(self) -> int:
        return int(self.until.timestamp())

    @property
    def ranges(self) -> dict[str, Duration]:
        return {key: label for key, (label, _) in RANGES.items()}

    @property
    def since_input(self) -> str:
        return self.since.astimezone(UTC).strftime(INPUT_FORMAT)

    @property
    def until_input(self) -> str:
        return self.until.astimezone(UTC).strftime(INPUT_FORMAT)


def page_charts(
    request: HttpRequest, subject: str, *metrics: str, also: Sequence[tuple[str, str, str]] = ()
) -> PageCharts:
    """`also`: (subject, metric, what the chart is of) of charts of other subjects."""
    choice, problem = request.GET.get("range", ""), ""
    now = timezone.now()
    if choice not in RANGES:
        choice = RANGE_DEFAULT
    since, until = now - RANGES[choice][1], now
    if request.GET.get("since"):
        try:
            since, until = history.checked_range(time_of(request, "since"), time_of(request, "until"))
            choice = ""
        except Rejected as error:
            problem = rejection_text(error)
    of = {(other, name): what for other, name, what in also}
    lines = history.lines([*((subject, name) for name in metrics), *of], since, until)
    query = {"since": since.isoformat(), "until": until.isoformat(), "format": "csv"}
    charts = [
        Chart(
            its,
            name,
            metric_of(its, name).label,
            _points(line),
            line.step_s > STEP_S,
            name in LIVE_METRICS[HistorySubject(its.partition(":")[0])],
            f"{reverse('api:history')}?{urlencode({'subject': its, 'metric': name, **query})}" if line.recorded else "",
            of.get((its, name), ""),
        )
        for (its, name), line in lines.items()
        if subject_visible(current_visibility(), its)
    ]
    found = marks(subject, since, until)
    shown = [ChartMark(m, translated(m.text), _url(m)) for m in reversed(found.rows)]
    part = next(((line.lake, line.lake_detail) for line in lines.values()), (LakePart.NOT_NEEDED, ""))
    return PageCharts(choice, problem, choice in LIVE_RANGES, since, until, charts, shown, found.more, *part)


def time_of(request: HttpRequest, name: str) -> datetime | None:
    """A time of the query string, UTC unless it says otherwise. Raises Rejected."""
    text = request.GET.get(name, "").strip()
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise Rejected(_("{text!r} is not a time such as 2026-11-24T03:00.").format(text=text), name) from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _points(line: history.Line) -> str:
    """Return the points from the first recorded value on. The axis of the chart has the whole range."""
    first = next((i for i, s in enumerate(line.steps) if s.value is not None), len(line.steps))
    steps = line.steps[first:]
    columns: list[list[float | None]] = [[s.at_s for s in steps], [s.value for s in steps]]
    if line.step_s > STEP_S:
        columns.append([s.peak for s in steps])
    return json.dumps(columns, separators=(",", ":"))


def _url(mark: MarkRow) -> str:
    if mark.kind == MarkKind.CHANGE:
        return reverse("change", args=[mark.target]) if may_open("change") else ""
    if mark.kind == MarkKind.ALERT:
        return reverse("alert", args=[mark.target])
    if mark.kind == MarkKind.BROKER and mark.target:
        return reverse("broker", args=[mark.target])
    return reverse("leader-elections") if may_open("leader-elections") else ""
