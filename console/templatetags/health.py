"""Template tags of health checks and top lists: results, values and limits."""

from __future__ import annotations

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from console import durations, fragments, vocabulary
from console.fragments import state_label
from console.health_steps import step_link
from controlplane.domain.health import RULE_OF, CheckName, CheckState, ValueUnit
from controlplane.domain.text import size_text
from controlplane.selectors.health import HealthCheckRow
from controlplane.selectors.top import UNITS_IN_HEADS, TopUnit

register = template.Library()

TONES = {CheckState.PASSED: "calm", CheckState.FAILED: "amber", CheckState.UNKNOWN: "grey"}


@register.simple_tag
def check_state(state: str) -> SafeString:
    return format_html('<span class="st st-{}">{}</span>', TONES[CheckState(state)], state_label(state))


@register.simple_tag
def check_step(name: str, subject: str = "") -> SafeString:
    """The link to the page of the next step; empty if the user may not open it."""
    found = step_link(name, subject)
    return format_html('<a class="go" href="{}">{}</a>', found.url, found.label) if found else SafeString("")


@register.filter
def check_title(name: str) -> str:
    rule = RULE_OF.get(CheckName(name)) if name in set(CheckName) else None
    return vocabulary.translated(rule.title if rule else vocabulary.word_text(name))


@register.simple_tag
def check_value(value: float | None, unit: str) -> SafeString | str:
    return fragments.unknown(_("No value is known.")) if value is None else value_text(value, unit)


@register.simple_tag
def check_limit(check: HealthCheckRow) -> str:
    """The limit with its direction: `at least 10 %`."""
    if check.unit == ValueUnit.YES:
        return _("yes")
    if not check.at_least and not check.limit:
        return "0"
    limit = value_text(check.limit, check.unit)
    return (_("at least {limit}") if check.at_least else _("at most {limit}")).format(limit=limit)


def value_text(value: float, unit: str) -> str:
    match unit:
        case ValueUnit.YES:
            return _("yes") if value else _("no")
        case ValueUnit.PERCENT:
            return f"{value:,.3g} %" if value < 1000 else f"{value:,.0f} %"
        case ValueUnit.SECONDS:
            return durations.duration(value)
    return f"{value:,g}"


@register.filter
def in_sentence(label: object) -> str:
    """A label of objects within a sentence: `topics` in English. Other languages have names like Topic in the middle of a sentence as well."""
    return str(label).lower() if (get_language() or "en") == "en" else str(label)


@register.filter
def top_head(unit: str) -> str:
    """The head of a column of values: sizes and durations have their unit in the cells."""
    return _("Value, {unit}").format(unit=vocabulary.translated(unit)) if unit in UNITS_IN_HEADS else _("Value")


@register.simple_tag
def top_value(value: float, unit: str) -> str:
    match unit:
        case TopUnit.BYTES:
            return size_text(value)
        case TopUnit.BYTES_PER_S:
            return f"{size_text(value)}/s"
        case TopUnit.SECONDS:
            return durations.duration(value)
    return f"{value:,.1f}" if value < 100 and value != int(value) else f"{value:,.0f}"
