"""Values of the parameters of Spark jobs. Contains filters only."""

from __future__ import annotations

from typing import Any

from django import template

register = template.Library()


@register.filter
def parameter(value: Any) -> str:
    """The value of a parameter as text: lists with commas, a boolean as yes or no, a dash for an empty text."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(str(v) for v in value)
    return str(value) or "–"
