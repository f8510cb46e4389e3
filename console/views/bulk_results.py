"""The end of a bulk operation: the page of its results with the number of each outcome and one row per object, or the rejection of a deletion that has no
filter. Does not contain: previews (`bulk`, `bulk_access`, `bulk_groups`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from console.views.shell import render_page
from controlplane.services import Rejected


class ObjectResult(Protocol):
    """The result of one object. `detail`: why it was rejected, or ""."""

    @property
    def name(self) -> str: ...
    @property
    def outcome(self) -> StrEnum: ...
    @property
    def detail(self) -> str: ...


@dataclass(frozen=True, slots=True)
class BulkResultPage:
    """`list_url`: URL name of the list and its place in the navigation. `outcomes`: the counted ones as (outcome, label, tone of a number above 0).
    `row_url`: URL name of the page of one object, or ""."""

    list_url: str
    list_title: str
    title: str
    name_label: str
    outcomes: Sequence[tuple[StrEnum, str, str]]
    row_url: str = ""
    note: str = ""


def filter_needed() -> Rejected:
    """The rejection of a deletion of "all rows of the filter" without a filter."""
    return Rejected(
        _("A deletion needs a filter or selected rows. Without a filter it would delete all rows of the list.")
    )


def bulk_result_page(
    request: HttpRequest, page: BulkResultPage, results: Sequence[ObjectResult], back: str
) -> HttpResponse:
    """Render the results of a bulk operation. `back`: the query string of the list."""
    counts = Counter(r.outcome for r in results)
    metrics = [(label, counts[outcome], tone) for outcome, label, tone in page.outcomes]
    context = {"b": page, "results": results, "metrics": metrics, "back": back}
    return render_page(request, "console/bulk_result.html", context, nav=page.list_url)
