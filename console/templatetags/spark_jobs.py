"""Values of the parameters of Spark jobs. Contains filters only."""

from __future__ import annotations

from collections.abc import Sequence

from django import template
from django.utils.translation import gettext as _

from console import fragments
from console.vocabulary import translated, word_text
from controlplane.selectors.spark_jobs import ReportTableRow
from weir_common.spark_jobs import KINDS

register = template.Library()

WIDE_CHARACTERS_MIN = 40
"""A longer text has lines. A shorter one is cut where its column ends."""


def _cell_class(value: object) -> str:
    """num, wide or empty."""
    if isinstance(value, str):
        return "wide" if len(value) >= WIDE_CHARACTERS_MIN else ""
    return "num" if isinstance(value, int | float) and not isinstance(value, bool) else ""


def _cell_text(value: object) -> object:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return fragments.number(value)
    return "–" if value is None else value


@register.filter
def report_cells(row: Sequence[object]) -> list[tuple[object, str]]:
    """(text, class) of each value of a report's row."""
    return [(_cell_text(v), _cell_class(v)) for v in row]


@register.filter
def report_heads(table: ReportTableRow) -> list[tuple[str, str]]:
    """(column, class) of a table of a report. The class is that of the first known value below."""
    firsts = [next((row[n] for row in table.rows if row[n] is not None), None) for n in range(len(table.columns))]
    return [(column, _cell_class(value)) for column, value in zip(table.columns, firsts, strict=True)]


@register.filter
def parameter(value: object) -> str:
    """The value of a parameter as text: lists with commas, a boolean as yes or no, a dash for an empty text."""
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, list):
        return _(", ").join(str(v) for v in value)
    return str(value) or "–"


@register.filter
def parameter_label(name: str, kind: str) -> str:
    """The label that the form of the kind has for the parameter, with its unit. A stored job may have a parameter that its kind has no more."""
    known = {p.name: p for p in KINDS[kind].parameters} if kind in KINDS else {}
    if name not in known:
        return word_text(name).capitalize()
    found = known[name]
    label = translated(found.label)
    return _("{label}, {unit}").format(label=label, unit=translated(found.unit)) if found.unit else label
