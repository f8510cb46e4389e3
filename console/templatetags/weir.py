"""Template tags and filters: values from `fragments` and `cells`, buttons, table headers, pagers, links that keep the query string."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol

from django import template
from django.template.context import RequestContext
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from console import (
    access_rules,
    cells,
    change_objects,
    changed_values,
    cluster_cells,
    driver_cells,
    durations,
    fragments,
    move_cells,
    permission_links,
    record_links,
    texts,
    threshold_labels,
    time_links,
    vocabulary,
)
from console.address_access import may_be_shown
from console.alert_pages import ALERT_PAGES, PAGES_OF_SUBJECT
from console.fragments import code_spans
from console.notification_forms import alert_kind_title
from console.partition_links import partition_links
from controlplane.domain.alert_thresholds import ThresholdUnit
from controlplane.domain.alert_types import AlertKind, AlertMetric, ClientRejection
from controlplane.selectors.notifications import NotificationDeliveryRow
from controlplane.selectors.paging import Page
from weir_common import rest_operations
from weir_common.durations import Duration, DurationUnit

register = template.Library()

register.filter("translated", vocabulary.translated)
register.filter("phrase", vocabulary.phrase_text)
register.filter("partition_links", partition_links)
register.filter("sentence", vocabulary.sentence_text)
register.filter("number", fragments.number)
register.filter("enumerated", texts.enumerated)
register.filter("without_spaces_after_marks", texts.without_spaces_after_marks)
register.filter("past_url", time_links.at_url)
register.filter("before_url", time_links.before_url)
register.filter("may_open", access_rules.may_open)
register.filter("count", fragments.count)
register.filter("size_cell", fragments.size_cell)
register.filter("size", fragments.size)
register.filter("speed", fragments.speed)
register.filter("rate", fragments.rate)
register.simple_tag(fragments.lag_time, name="lag_time")
register.filter("share_lag_status", fragments.share_lag_status)
register.simple_tag(fragments.lag_status, name="lag_status")
register.simple_tag(fragments.retention_in, name="retention_in")
register.simple_tag(fragments.topic_state, name="topic_state")
register.simple_tag(cluster_cells.cluster_size, name="cluster_size")
register.filter("age", fragments.age)
register.simple_tag(move_cells.eta, name="eta")
register.simple_tag(move_cells.ends, name="move_ends")
register.filter("throttle", fragments.throttle)
register.filter("instant", fragments.instant)
register.filter("alert_kind_title", alert_kind_title)
register.filter("threshold_title", vocabulary.threshold_title)
register.filter("threshold_condition", threshold_labels.condition_label)
register.filter("threshold_change", threshold_labels.change_label)
register.filter("threshold_scope", threshold_labels.scope_label)
register.filter("process", fragments.process)
register.filter("duration", durations.duration)
register.filter("coarse_duration", durations.coarse)
register.filter("localized_duration", durations.localized)
register.filter("instant_ms", fragments.instant_ms)
register.filter("state", fragments.state)
register.filter("state_label", fragments.state_label)
register.filter("outcome", fragments.outcome)
register.filter("outcome_label", fragments.outcome_label)
register.simple_tag(move_cells.move_mode, name="move_mode")
register.filter("broker_chip", fragments.broker_chip)
register.filter("bar", fragments.bar)
register.simple_tag(move_cells.move_bar, name="move_bar")
register.filter("blocked_tone", move_cells.blocked_tone)
register.filter("move_percent", move_cells.move_percent)
register.simple_tag(fragments.chips, name="chips")
register.simple_tag(move_cells.move_status, name="move_status")
register.simple_tag(fragments.unknown, name="unknown")
register.simple_tag(cluster_cells.broker_state, name="broker_state")
register.simple_tag(cluster_cells.restart_badge, name="restart_badge")
register.simple_tag(cluster_cells.brokers_alive, name="brokers_alive")
register.simple_tag(cluster_cells.disk_free, name="disk_free")
register.simple_tag(cluster_cells.free_percent, name="free_percent")
register.simple_tag(cluster_cells.broker_size, name="broker_size")
register.filter("operation", vocabulary.operation_text)
register.filter("object_text", change_objects.object_text)
register.simple_tag(change_objects.object_link, name="object_link")
register.filter("values_of_change", changed_values.values_of_change)
register.simple_tag(changed_values.short_values, name="short_values")
register.simple_tag(driver_cells.driver_state, name="driver_state")
register.simple_tag(cells.isr, name="isr")
register.simple_tag(record_links.committed_offset, name="committed_offset")
register.simple_tag(record_links.record_url, name="record_url")
register.simple_tag(permission_links.permission_check, name="permission_check")
register.simple_tag(cluster_cells.alerts, name="alerts_badge")


@register.simple_tag
@lru_cache(maxsize=8192)
def page_url(name: str, *arguments: object) -> str:
    """The same as the tag `url`, for the rows of a table: a look-up instead of 50 us for each row."""
    return reverse(name, args=arguments)


@register.filter
def heartbeat(at: datetime | None, active: bool) -> SafeString:
    return driver_cells.heartbeat(at, active)


@register.filter
def spaced(word: str) -> str:
    return vocabulary.translated(vocabulary.word_text(word))


class ShownAlert(Protocol):
    """An alert. `metric`: of an anomaly, `client`: of a rejected client."""

    kind: str
    subject: str
    text: str
    do: str
    metric: AlertMetric | None
    client: ClientRejection | None


class ShownConfig(Protocol):
    name: str


class SizedTopic(Protocol):
    size_bytes: int | None
    size_as_of: datetime | None


class PacedGroup(Protocol):
    """The rates and the forecast in the row of a group."""

    consumed_per_s: float | None
    produced_per_s: float | None
    lag_records: int | None
    retention_partition: str
    retention_in_s: float | None
    retention_limit: str
    retention_at_most: bool


@register.filter
def alert_text(alert: ShownAlert) -> str:
    return vocabulary.alert_text(alert.kind, alert.subject, alert.text, alert.metric or alert.client)


@register.filter
def delivery_text(delivery: NotificationDeliveryRow) -> str:
    """The text of a notification: as it was sent, in other languages the short text of its kind."""
    if delivery.alert_kind not in set(AlertKind):
        return vocabulary.translated(delivery.text)  # a test notification
    return vocabulary.alert_text(delivery.alert_kind, delivery.subject, delivery.text)


@register.filter
def alert_do(alert: ShownAlert) -> SafeString:
    """The advice for an alert, with its commands marked up."""
    return code_spans(vocabulary.alert_do(alert.kind, alert.do))


@register.filter
def threshold(value: float, unit: str) -> str:
    """A threshold of alerts with its unit."""
    match unit:
        case ThresholdUnit.SECONDS:
            return durations.duration(value)
        case ThresholdUnit.PERCENT:
            return f"{value:g} %"
        case ThresholdUnit.DAYS:
            return durations.localized(Duration.of(f"{value:g}", DurationUnit.DAY))
    return f"{value:,g}"


@register.filter
def pretty(value: object) -> str:
    """A value as indented JSON."""
    return "" if value is None else json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)


@register.simple_tag
def group_pace(row: PacedGroup) -> SafeString:
    """Consume and produce rates of a group row, with the forecasts."""
    return fragments.group_pace(
        row.consumed_per_s,
        row.produced_per_s,
        row.lag_records,
        row.retention_partition,
        row.retention_in_s,
        row.retention_limit,
        row.retention_at_most,
    )


@register.simple_tag
def topic_size(topic: SizedTopic) -> SafeString:
    """Size of a topic row, with its age if a broker does not respond."""
    at = topic.size_as_of
    return fragments.topic_size(topic.size_bytes, None if at is None else (datetime.now(UTC) - at).total_seconds())


@register.filter
def instant_or_after(at: datetime | None, until: datetime) -> SafeString:
    """A forecast time; None: after the end of the forecast."""
    shown = fragments.instant(at or until)
    return shown if at else format_html(_("after {time}"), time=shown)


@register.filter
def seconds_since(at: datetime | None) -> float | None:
    return None if at is None else max(0.0, (datetime.now(UTC) - at).total_seconds())


@register.filter
def expires_in(at: datetime) -> SafeString:
    """Time until an expiry; empty after it."""
    left_s = (at - datetime.now(UTC)).total_seconds()
    if left_s <= 0:
        return SafeString("")
    return format_html('<span class="sub">{}</span>', _("in {time}").format(time=durations.coarse(left_s)))


@register.filter
def is_silent(heartbeat_at: datetime | None, active: bool) -> bool:
    """The driver should run and has not reported."""
    return driver_cells.silent_s(heartbeat_at, active) is not None


@register.filter
def duration_ms(value: int) -> str:
    return durations.duration(value / 1000)


@register.filter
def producers_ms(value: float | None) -> SafeString:
    return fragments.number(value, cells.NO_PRODUCE_LATENCY)


@register.filter
def signed_pct(value: float | None) -> SafeString:
    if value is None:
        return fragments.unknown(_("The broker is down."))
    text = f"{value:+.0f}".replace("-", "−")
    return fragments.number(0.0) if text in ("+0", "−0") else format_html("{}", text)


@register.filter
def skew_tone(value: float | None) -> str:
    """CSS class of a deviation from the mean, in four steps."""
    far = abs(value or 0)
    return "" if far < 10 else "skew1" if far < 25 else "skew2" if far < 50 else "skew3"


@register.simple_tag(takes_context=True)
def url_with(context: RequestContext, **changes: object) -> str:
    """URL of this page with changed query parameters. An empty value removes a parameter."""
    query = context["request"].GET.copy()
    for name, value in changes.items():
        if value in ("", None):
            query.pop(name, None)
        else:
            query[name] = str(value)
    return f"?{query.urlencode()}"


@register.simple_tag(takes_context=True)
def choice_url(context: RequestContext, name: str, value: str) -> str:
    """URL of the first page of this list with another value of one query parameter."""
    return url_with(context, **{name: value, "page": ""})


@register.inclusion_tag("console/parts/search.html", takes_context=True)
def search_box(context: RequestContext, url_name: str, label: str) -> dict[str, object]:
    """The filter field of a list. `url_name` "": the list is a part of this page."""
    return {"url": reverse(url_name) if url_name else "", "label": label, "q": context["q"]}


LINES_SHOWN_MAX = 50


@register.inclusion_tag("console/parts/first_lines.html")
def first_lines(lines: list[str]) -> dict[str, object]:
    """The first sentences of a long list, and the number of the others."""
    return {"shown": lines[:LINES_SHOWN_MAX], "more": max(0, len(lines) - LINES_SHOWN_MAX)}


@register.inclusion_tag("console/parts/th.html", takes_context=True)
def th(context: RequestContext, label: str, column: str = "", kind: str = "", hint: str = "") -> dict[str, object]:
    """A column header. `column`: a click sorts by it, a second click reverses the order. `kind`: num for right-aligned values."""
    page = context.get("page")
    page_sort = getattr(page() if callable(page) else page, "sort", "")
    sorted_by = page_sort.lstrip("-") == column if column else False
    descending = sorted_by and page_sort.startswith("-")
    is_reversed = not descending if sorted_by else kind == fragments.NUMERIC
    return {
        "label": label,
        "kind": kind,
        "hint": hint,
        "column": column,
        "href": url_with(context, sort=f"{'-' if is_reversed else ''}{column}", page="") if column else "",
        "order": ("descending" if descending else "ascending") if sorted_by else "",
        "descending": descending,
    }


@register.simple_tag(takes_context=True)
def comma(context: RequestContext) -> str:
    """After each item of a loop, except the last: the comma of the language."""
    return "" if context["forloop"]["last"] else _(", ")


@register.simple_block_tag
def sentences(content: str) -> SafeString:
    """Sentences one after another, for a text that is not in a `c-note`: Chinese has no space between them."""
    return texts.without_spaces_after_marks(content)


@register.inclusion_tag("console/parts/pager.html", takes_context=True)
def pager(context: RequestContext, page: Page[object], what: str) -> dict[str, object]:
    """Position in a list, links to the previous and next page, and the total number of rows."""
    return {
        "page": page,
        "rows": vocabulary.listed(what, page.total),
        "before": url_with(context, page=page.page - 1 if page.page > 2 else "") if page.page > 1 else "",
        "after": url_with(context, page=page.page + 1) if page.page < page.pages else "",
        "csv": url_with(context, format="csv", page="", per_page="") if context.get("csv") and page.total else "",
    }


@register.inclusion_tag("console/parts/curl.html", takes_context=True)
def curl(
    context: RequestContext, method: str, path: str, body: Mapping[str, object] | None = None
) -> dict[str, object]:
    """The REST call that corresponds to the form on the page, by curl and by the command line."""
    request = context["request"]
    body = body or None  # a page without a body
    if method == "DELETE":
        body = body or {"comment": "COMMENT"}  # most deletions need a reason
    return {
        "method": method,
        "url": request.build_absolute_uri(f"/api/v1/{path.lstrip('/')}"),
        "body": "" if body is None else json.dumps(body, ensure_ascii=False).replace("'", "'\\''"),
        "command": rest_operations.shell_text(rest_operations.command_of(method, path, body)),
    }


@register.inclusion_tag("console/parts/curl_acts.html", takes_context=True)
def curl_acts(context: RequestContext, noun: str, number: int | list[int], verbs: list[str]) -> dict[str, object]:
    """The REST calls that correspond to the buttons on the page, by curl and by the command line. `number`: of the object, or of each object."""
    numbers = number if isinstance(number, list) else [number]
    paths = [f"/{noun}/{n}/{verb}" for n in numbers for verb in verbs]
    commands = [rest_operations.command_of("POST", path, {"comment": "COMMENT"}) for path in paths]
    return {
        "urls": [context["request"].build_absolute_uri(f"/api/v1{path}") for path in paths],
        "commands": [rest_operations.shell_text(c) for c in commands],
    }


@register.filter
def config_value(config: ShownConfig, value: str) -> SafeString:
    """A config value, followed by its meaning as a duration or size, or "unlimited" instead of it."""
    text = fragments.config_text(config.name, value)
    if text == fragments.NO_LIMIT:
        return format_html('<span title="{}">{}</span>', value, text)
    return format_html('{} <span class="sub">({})</span>', value, text) if text else format_html("{}", value or "–")


@register.simple_tag
def alert_title(alert: ShownAlert) -> str:
    """The short text of an alert, as a heading: without a full stop."""
    return vocabulary.alert_title(alert.kind, alert.subject, alert.text, alert.metric or alert.client).rstrip(".。")


@register.simple_tag
def alert_link(alert: ShownAlert) -> SafeString:
    """Link to the page about an alert; empty if there is none, or if the user may not open it."""
    if alert.kind not in ALERT_PAGES:
        return SafeString("")
    name, query, label = ALERT_PAGES[alert.kind]
    if name == "group" and alert.subject:
        address, text = reverse(name, args=[alert.subject]), _("group {name}").format(name=alert.subject)
    elif name == "group":
        address, text = reverse("groups") + query, _("groups")
    elif name == "share-group" and not alert.subject:
        address, text = reverse("share-groups"), _("share groups")
    elif name in PAGES_OF_SUBJECT:
        address, text = reverse(name, args=[alert.subject]) + query, str(label).format(alert.subject)
    else:
        address, text = reverse(name) + query, str(label)
    return format_html('<a class="go" href="{}">{}</a>', address, text) if may_be_shown(address) else SafeString("")


@register.simple_tag
def points(series: list[tuple[float, float | None]]) -> str:
    """Points of a chart as JSON: [[times in s], [values]]."""
    return json.dumps([[round(t, 1) for t, _ in series], [v for _, v in series]])
