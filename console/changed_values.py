"""The short form of the values that a change changed, for lists of changes.

Invariants: it has only values that the page of the change shows, and a user who may not open that page sees none. Its length is bounded.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.template.defaultfilters import truncatechars
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from console.access_rules import may_open
from controlplane.domain.changed_values import ONLY_VALUE, ChangedValue, first_values
from controlplane.selectors.changes import ChangeRow

NAME_CHARS_MAX = 60
VALUE_CHARS_MAX = 30
NAME_PREFIX = "configs."
"""A list does not show this first part of a name: the names of configs are known without it."""


def values_of_change(change: ChangeRow) -> SafeString:
    """The first changed values of a row of the audit log, a line each; empty without changed values."""
    if not may_open("change"):
        return SafeString("")
    return short_values(*first_values(change.before, change.after))


def short_values(values: Sequence[ChangedValue], more: int) -> SafeString:
    """These values, and the number of the others."""
    lines = format_html_join(
        "", '<span class="changed" lang="">{} <span class="sub">{} →</span> {}</span>', map(_texts, values)
    )
    rest = format_html('<span class="changed sub">{}</span>', _("+{count} more").format(count=more)) if more else ""
    return format_html("{}{}", lines, rest)


def _texts(value: ChangedValue) -> tuple[str, str, str]:
    name = "" if value.name == ONLY_VALUE else value.name.removeprefix(NAME_PREFIX)
    return truncatechars(name, NAME_CHARS_MAX), _value_text(value.before), _value_text(value.after)


def _value_text(value: object) -> str:
    return "–" if value is None else truncatechars(str(value), VALUE_CHARS_MAX)
