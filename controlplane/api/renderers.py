"""CSV of lists (RFC 4180): `Accept: text/csv` or `?format=csv`. Objects and lists inside a row are JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

from rest_framework.renderers import BaseRenderer

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet runs a text that begins so as a formula. Such a text gets an apostrophe in front."""
TOTAL = "X-Total-Count"
"""Header: rows over all pages."""


class CsvRenderer(BaseRenderer):
    media_type = "text/csv"
    format = "csv"

    def render(
        self, data: Any, accepted_media_type: str | None = None, renderer_context: Mapping[str, Any] | None = None
    ) -> bytes:
        """A header line with the fields of the rows, then one line per row. One empty line without rows, because their fields are not known
        then, and a response without content would have no content type."""
        rows = data
        if isinstance(data, Mapping):
            rows = data["rows"]
            if renderer_context:
                renderer_context["response"].headers[TOTAL] = str(data["total"])
        return csv_lines(rows, header=True) if rows else b"\r\n"


def csv_lines(rows: Sequence[Mapping[str, object]], *, header: bool) -> bytes:
    """The lines of rows with the same fields; `header`: below a line with the names of the fields."""
    text = io.StringIO()
    writer = csv.writer(text)
    names = list(rows[0])
    if header:
        writer.writerow(names)
    writer.writerows([[_cell(row[name]) for name in names] for row in rows])
    return text.getvalue().encode()


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return f"'{value}" if value.startswith(FORMULA_STARTS) else value
    return json.dumps(value, ensure_ascii=False)
