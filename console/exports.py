"""CSV of a list: all pages of the filter in the order of the page, with the columns of the REST API.

Invariants: at most ROWS_MAX rows; the last line of the file states whether there are more. Pages are read one after the other, so rows that are added or
removed during this time may be missing or be there twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from django.http import HttpRequest, HttpResponse

from controlplane.api.renderers import csv_lines
from controlplane.selectors.common import as_dict
from controlplane.selectors.paging import PER_PAGE_MAX, Page

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

ROWS_MAX = 100_000
"""Rows of one file, about 20 MB in memory: more than any list of the largest cluster that is tested."""
FORMAT = "format"
Row = TypeVar("Row", bound="DataclassInstance")


def is_requested(request: HttpRequest) -> bool:
    return request.GET.get(FORMAT) == "csv"


def response(name: str, read: Callable[..., Page[Row]], sort: str) -> HttpResponse:
    """The file `name`.csv. `read`: the selector with the filter of the page, which takes sort, page and per_page."""
    response = HttpResponse(b"".join(_lines(read, sort)), content_type="text/csv; charset=utf-8")
    response.headers["Content-Disposition"] = f'attachment; filename="{name}.csv"'
    return response


def _lines(read: Callable[..., Page[Row]], sort: str) -> Iterator[bytes]:
    number, sent = 1, 0
    while True:
        found = read(sort=sort, page=number, per_page=PER_PAGE_MAX)
        rows = [as_dict(row) for row in found.rows]
        if rows:
            yield csv_lines(rows, header=number == 1)
        sent += len(rows)
        if number >= found.pages:
            return
        if sent >= ROWS_MAX:
            yield f"# {found.total - sent} more rows are not in this file; narrow the filter\r\n".encode()
            return
        number += 1
