"""The template's words for `fragments` and `cells`, and links that keep a page's filters. Law: no domain, no database."""

from __future__ import annotations

import json
from typing import Any

from django import template
from django.template.context import RequestContext
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from console import cells, fragments

register = template.Library()

register.filter("number", fragments.number)
register.filter("count", fragments.count)
register.filter("megabytes", fragments.megabytes)
register.filter("size", fragments.size)
register.filter("speed", fragments.speed)
register.filter("seconds", fragments.seconds)
register.filter("age", fragments.age)
register.simple_tag(fragments.eta, name="eta")
register.simple_tag(fragments.ends, name="ends")
register.filter("throttle", fragments.throttle)
register.filter("instant", fragments.instant)
register.filter("duration", fragments.duration_text)
register.filter("instant_ms", fragments.instant_ms)
register.filter("state", fragments.state)
register.filter("broker_chip", fragments.broker_chip)
register.filter("bar", fragments.bar)
register.simple_tag(fragments.chips, name="chips")
register.simple_tag(fragments.standing, name="standing")
register.simple_tag(fragments.unknown, name="unknown")
register.simple_tag(cells.broker_state, name="broker_state")
register.simple_tag(cells.brokers_alive, name="brokers_alive")
register.simple_tag(cells.isr, name="isr")
register.simple_tag(cells.alerts, name="alerts_badge")


@register.filter
def spaced(word: str) -> str:
    return str(word).replace("_", " ")


@register.filter
def pretty(value: Any) -> str:
    """A value as JSON a person reads."""
    return "" if value is None else json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)


@register.filter
def producers_ms(value: float | None) -> SafeString:
    return fragments.number(value, cells.NOBODY_PRODUCED)


@register.filter
def signed_pct(value: float | None) -> SafeString:
    return fragments.unknown("It is down.") if value is None else format_html("{}", f"{value:+.0f}".replace("-", "−"))


@register.filter
def skew_tone(value: float | None) -> str:
    """How far from the mean, as one of four tints."""
    far = abs(value or 0)
    return "" if far < 10 else "skew1" if far < 25 else "skew2" if far < 50 else "skew3"


@register.simple_tag(takes_context=True)
def url_with(context: RequestContext, **changes: Any) -> str:
    """This page's address with some parameters changed; an empty value drops one."""
    query = context["request"].GET.copy()
    for name, value in changes.items():
        if value in ("", None):
            query.pop(name, None)
        else:
            query[name] = str(value)
    return "?" + query.urlencode()


@register.inclusion_tag("console/parts/th.html", takes_context=True)
def th(context: RequestContext, label: str, column: str = "", kind: str = "", hint: str = "") -> dict[str, Any]:
    """A column's head; with `column` it sorts by it, the other way round when it does already. `kind`: num for figures."""
    page_sort = getattr(context.get("page"), "sort", "")
    now = page_sort.lstrip("-") == column if column else False
    descending = now and page_sort.startswith("-")
    first = "-" if kind == "num" else ""
    wanted = (column if descending else f"-{column}") if now else f"{first}{column}"
    return {
        "label": label, "kind": kind, "hint": hint, "column": column,
        "href": url_with(context, sort=wanted, page="") if column else "",
        "order": ("descending" if descending else "ascending") if now else "",
    }  # fmt: skip


@register.inclusion_tag("console/parts/pager.html", takes_context=True)
def pager(context: RequestContext, page: Any, what: str) -> dict[str, Any]:
    """Where a list stands, and its neighbours. No cap hides rows: the total is always said."""
    return {
        "page": page, "what": what[:-1] if page.total == 1 else what,
        "before": url_with(context, page=page.page - 1 if page.page > 2 else "") if page.page > 1 else "",
        "after": url_with(context, page=page.page + 1) if page.page < page.pages else "",
    }  # fmt: skip


@register.inclusion_tag("console/parts/curl.html", takes_context=True)
def curl(context: RequestContext, method: str, path: str, body: Any = None) -> dict[str, Any]:
    """The REST call that does the same as the form beside it."""
    request = context["request"]
    return {
        "method": method,
        "url": request.build_absolute_uri(f"/api/v1/{path.lstrip('/')}"),
        "body": "" if body is None else json.dumps(body, ensure_ascii=False).replace("'", "'\\''"),
    }


@register.inclusion_tag("console/parts/curl_acts.html", takes_context=True)
def curl_acts(context: RequestContext, noun: str, number: int, verbs: list[str]) -> dict[str, Any]:
    """The REST calls that do the same as buttons without a form of their own."""
    address = context["request"].build_absolute_uri(f"/api/v1/{noun}/{number}/")
    return {"urls": [address + verb for verb in verbs]}


@register.filter
def reading(config: Any, value: str) -> SafeString:
    """A config's value with what a person reads in it: a length of time, a size, no limit."""
    said = fragments.config_text(config.name, value)
    if said == fragments.NO_LIMIT:
        return format_html('<span title="{}">{}</span>', value, said)
    return format_html('{} <span class="sub">{}</span>', value, said) if said else format_html("{}", value or "–")


@register.simple_tag
def object_link(change: Any) -> SafeString:
    """What a change was about, as a link where it has a page."""
    pages = {"topic": "topic", "move": "move", "plan": "plan", "group": "group"}
    name = change.object_name
    if change.object_kind not in pages or not name:
        return format_html("{}", name)
    try:
        address = reverse(pages[change.object_kind], args=[name])
    except NoReverseMatch:
        return format_html("{}", name)
    return format_html('<a href="{}">{}</a>', address, name)


ALERT_PAGES: dict[str, tuple[str, str, str]] = {
    "partitions_offline": ("topics", "?only=problems&internal=1", "topics with problems"),
    "partitions_under_min_isr": ("topics", "?only=problems&internal=1", "topics with problems"),
    "partitions_under_replicated": ("topics", "?only=problems&internal=1", "topics with problems"),
    "drift": ("topics", "?only=drift", "drift"),
    "copies_damaged": ("moves", "?tab=damage", "damaged copies"),
    "changes_unknown": ("audit", "?outcome=unknown", "unknown outcomes"),
    "groups": ("groups", "?sort=-lag_records", "groups"),
    "broker_down": ("broker", "", "broker"),
    "broker_silent": ("broker", "", "broker"),
    "disk_failed": ("broker", "", "broker"),
    "disk_low": ("broker", "", "broker"),
    "move_failed": ("move", "", "move"),
    "move_stuck": ("move", "", "move"),
    "move_will_not_finish": ("move", "", "move"),
    "archive_failed": ("job", "", "job"),
}


@register.simple_tag
def alert_link(alert: Any) -> SafeString:
    """Where an alert is looked into; nothing for those without a page."""
    if alert.kind not in ALERT_PAGES:
        return format_html("")
    name, query, words = ALERT_PAGES[alert.kind]
    own = name in ("broker", "move", "job")
    address = reverse(name, args=[alert.subject] if own else []) + query
    return format_html('<a class="go" href="{}">{}</a>', address, f"{words} {alert.subject}" if own else words)


@register.simple_tag
def typed_or(typed: dict[str, str], config: Any) -> str:
    """What was typed for a config, or its own value; empty where the default holds."""
    return typed.get(config.name, config.value if config.source == "topic" else "")


@register.simple_tag
def points(series: list[tuple[float, float]]) -> str:
    """A chart's past, as [[times], [values]]."""
    return json.dumps([[round(t, 1) for t, _ in series], [v for _, v in series]])
