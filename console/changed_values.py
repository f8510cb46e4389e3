"""The short form of the values that a change changed, for lists of changes.

Invariants: it has only values that the page of the change shows, and a user who may not open that page sees none. Its length is bounded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from django.template.defaultfilters import truncatechars
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from console.access_rules import may_open
from controlplane.domain.changed_values import ONLY_VALUE, ChangedValue, first_values, is_no_leader
from controlplane.selectors.changes import ChangeRow

NAME_CHARS_MAX = 60
VALUE_CHARS_MAX = 30
NAME_PREFIX = "configs."
"""A list does not show this first part of a name: the names of configs are known without it."""
PARTITION_VALUE = re.compile(r"(\d+)\.(isr|leader|replicas)")
"""A value of a partition in a change of a topic, for example an election."""
ISO_TIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?(?:\+00:00|Z)")


def values_of_change(change: ChangeRow) -> SafeString:
    """The first changed values of a row of the audit log; empty without changed values."""
    if not may_open("change"):
        return SafeString("")
    return short_values(*first_values(change.before, change.after))


def short_values(values: Sequence[ChangedValue], more: int) -> SafeString:
    """These values, and the number of the others. A value that did not exist before has no arrow."""
    parts = [_value_html(value) for value in values]
    if more:
        parts.append(format_html('<span class="sub">{}</span>', _("+{count} more").format(count=more)))
    listed = format_html_join(_(", "), "{}", ((part,) for part in parts))
    return format_html('<span class="changed">{}</span>', listed) if parts else SafeString("")


def _value_html(value: ChangedValue) -> SafeString:
    known = "" if value.name == ONLY_VALUE else value.name.removeprefix(NAME_PREFIX)
    name, before, after = truncatechars(known, NAME_CHARS_MAX), _value_text(value.before), _value_text(value.after)
    if found := PARTITION_VALUE.fullmatch(known):
        name = _("partition {partition}: {what}").format(partition=found[1], what=_partition_value(found[2]))
        before, after = (_("none") if is_no_leader(v) else _value_text(v) for v in (value.before, value.after))
    if value.before is None:
        return format_html('<span lang="">{} {}</span>', name, after)
    return format_html('<span lang="">{} <span class="sub">{} →</span> {}</span>', name, before, after)


def _partition_value(name: str) -> str:
    match name:
        case "isr":
            return "ISR"
        case "leader":
            return _("leader")
        case _replicas:
            return _("replicas")


def _value_text(value: object) -> str:
    """A JSON value as JSON, a text without quotation marks, and a time in UTC without fractions of a second."""
    if value is None:
        return "–"
    if isinstance(value, str):
        time = ISO_TIME.fullmatch(value)
        return truncatechars(f"{time[1]} {time[2]}" if time else value, VALUE_CHARS_MAX)
    return truncatechars(json.dumps(value, ensure_ascii=False, default=str), VALUE_CHARS_MAX)
