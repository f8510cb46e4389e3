"""Values of the parameters of Spark jobs. Contains filters only."""

from __future__ import annotations

from typing import Any

from django import template
from django.utils.translation import gettext as _

from console.vocabulary import translated, word_text
from weir_common.spark_jobs import KINDS

register = template.Library()


@register.filter
def parameter(value: Any) -> str:
    """The value of a parameter as text: lists with commas, a boolean as yes or no, a dash for an empty text."""
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, list):
        return ", ".join(str(v) for v in value)
    return str(value) or "–"


@register.filter
def parameter_label(name: str, kind: str) -> str:
    """The label that the form of the kind has for the parameter, with its unit. A stored job may have a parameter that its kind has no more."""
    known = {p.name: p for p in KINDS[kind].parameters} if kind in KINDS else {}
    if name not in known:
        return word_text(name).capitalize()
    found = known[name]
    return f"{translated(found.label)}, {found.unit}" if found.unit else translated(found.label)
