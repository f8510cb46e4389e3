"""The cells of the cluster and of the brokers. Pure functions."""

from __future__ import annotations

import time
from datetime import datetime

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from console import durations
from console import fragments as f
from console.states import TONES
from console.texts import gettext_lazy
from console.vocabulary import alert_title, phrase_text
from controlplane.domain.cluster_health import HealthReason, reason_phrase
from controlplane.monitoring import live_shapes as shapes
from controlplane.selectors.overview import OverviewShape, alert_parts

UNCLEAN_START_SHOWN_SECONDS = 3_600
"""Time for which a broker that started after an unclean shutdown is marked. There is no alert, because the broker serves clients again."""

LAST_KNOWN = gettext_lazy("Last known value: the broker does not respond.")


def health(data: OverviewShape) -> dict[str, str]:
    """Health and controller of the top bar."""
    word, reason = data["health"]["word"], health_reason(data)
    epoch = data["controller_epoch"]
    controller = (
        f.unknown(_("No active controller.")) if data["controller_id"] is None else f.number(data["controller_id"])
    )
    return {
        "health": format_html('{} <span class="reason">{}</span>', f.state(word), reason),
        "controller": format_html("{} · epoch {}", controller, f.number(epoch)),
    }


def cluster(data: OverviewShape) -> dict[str, str]:
    """Return the cells of the cluster by field."""
    return {
        "partitions": f.number(data["partitions"]),
        "topics": f.number(data["topics"]),
        "groups": f.number(data["groups"]),
        "under_replicated": f.count(data["under_replicated"], "amber"),
        "under_min_isr": f.count(data["under_min_isr"], "red"),
        "offline": f.count(data["offline"], "red"),
        "reassigning": f.count(data["reassigning"], "blue"),
        "not_preferred": f.count(data["not_preferred"], "amber"),
        "size": cluster_size(
            data["size_bytes"], data["brokers_sized"], data["brokers_total"], _age_s(data["size_as_of"])
        ),
        "records": f.number(data["records"]),
        "records_per_s": f.number(data["records_per_s"]),
        "bytes_in": f.rate(data["bytes_in_per_s"]),
        "bytes_out": f.rate(data["bytes_out_per_s"]),
        "replication_in": f.rate(data["replication_bytes_in_per_s"]),
        "lag_records": f.number(data["lag_records"]),
        "lag_s": f.lag_time(data["lag_ms_max"], data["lag_at_least"]),
        "brokers_alive": brokers_alive(data["brokers_alive"], data["brokers_total"]),
        "moves_working": f.count(data["moves_working"], "blue"),
        "changes_pending": f.count(data["changes_pending"], "blue"),
        "drift": f.count(data["drift"], "amber"),
        "alerts": alerts(data["alerts"], data["alerts_at_risk"]),
        **health(data),
    }


def health_reason(data: OverviewShape) -> str:
    """Return the reason for the health of the cluster in the language of the request: the title of the alert that is the cause, or the sentence of the code."""
    found = data["health"]
    if found["reason_code"] == HealthReason.ALERT:
        return alert_title(found["alert_kind"], found["alert_subject"], found["reason"], alert_parts(found))
    return phrase_text(reason_phrase(HealthReason(found["reason_code"]), found["reason_values"]))


def alerts(count: int, at_risk: int) -> str:
    """The alert count of the navigation, and of the top bar on narrow screens. Empty without alerts."""
    if not count:
        return ""
    return format_html('<b class="t-{}" title="{}">{}</b>', "red" if at_risk else "amber", _("Open alerts"), count)


def cluster_size(size_bytes: int | None, answered: int, brokers: int, as_of_age_s: float | None) -> str:
    """Size of all topics. If brokers do not respond: how many do, and the age of the oldest value."""
    shown = f.size(size_bytes)
    if answered >= brokers or size_bytes is None:
        return shown
    old = "" if as_of_age_s is None else _(", oldest {age} old").format(age=durations.coarse(as_of_age_s))
    return format_html(
        '{} <small class="t-amber below">{}{}</small>',
        shown,
        _("{answered} of {brokers} brokers responded").format(answered=answered, brokers=brokers),
        old,
    )


def _age_s(instant: str | None) -> float | None:
    """Seconds since an instant of `overview().as_dict()`."""
    return None if instant is None else max(0.0, time.time() - datetime.fromisoformat(instant).timestamp())


def brokers_alive(alive: int, total: int) -> str:
    text = _("{alive} of {total}").format(alive=alive, total=total)
    return format_html("{}", text) if alive == total else format_html('<b class="t-red">{}</b>', text)


def broker_state(alive: bool, answered: bool | None, failed: int = 0, slow: int = 0) -> str:
    """State of a broker. `failed`, `slow`: the number of its failed and slow log directories. A broker that responds has the tone of the worst of them."""
    if not alive or answered is False:
        return f.state("silent" if alive else "down")
    if not failed and not slow:
        return f.state("alive")
    text = (
        ngettext("alive, {count} failed directory", "alive, {count} failed directories", failed)
        if failed
        else ngettext("alive, {count} slow directory", "alive, {count} slow directories", slow)
    )
    tone = TONES["failed" if failed else "slow"]
    return format_html('<span class="st st-{}">{}</span>', tone, text.format(count=failed or slow))


def restart_badge(started_s: float | None, unclean: bool) -> str:
    """Badge of a broker that has started within the last hour after an unclean shutdown; "" for other brokers. `started_s`: seconds since the start."""
    if not unclean or started_s is None or started_s >= UNCLEAN_START_SHOWN_SECONDS:
        return ""
    hint = _("It started after an unclean shutdown: it was killed, it crashed or its machine stopped.")
    text = _("restarted {age} ago").format(age=durations.duration(started_s))
    return format_html('<span class="st st-amber" title="{}">{}</span>', hint, text)


def disk_free(free: int | None, total: int | None, severity: str, as_of_age_s: float | None = None) -> SafeString:
    """Free bytes, with the share of the disk. The share has the tone of `severity`, the severity of the disk's alert; "" = no alert. `as_of_age_s`: the age of
    the values of a broker that does not respond."""
    if free is None or not total:
        return f.unknown(_("The broker has not reported its disk space yet."))
    tone = TONES.get(severity, "")
    share = format_html('<span class="{}">{}%</span>', f"t-{tone}" if tone else "sub", f"{100 * free / total:.0f}")
    return f.with_age(format_html("{} {}", f.size_cell(free), share), as_of_age_s, LAST_KNOWN)


def broker_size(size_bytes: int | None, as_of_age_s: float | None) -> SafeString:
    """Bytes of the replicas of a broker, with their age if it does not respond."""
    shown = f.size_cell(size_bytes)
    return shown if size_bytes is None else f.with_age(shown, as_of_age_s, LAST_KNOWN)


def free_percent(free: int | None, total: int | None, limit_percent: float) -> SafeString:
    """Share of free bytes in per cent, amber below the limit of the health check."""
    if free is None or not total:
        return f.unknown(_("The broker has not reported its disk space yet."))
    share = 100 * free / total
    shown = f"{share:.1f}" if share < 10 else f"{share:.0f}"
    return format_html('<b class="t-amber">{}</b>', shown) if share < limit_percent else format_html("{}", shown)


def broker(shape: shapes.BrokerShape) -> dict[str, str]:
    as_of_ms = shape.get("size_as_of_ms")
    old_s = None if as_of_ms is None else max(0.0, time.time() - as_of_ms / 1000)
    return {
        "state": broker_state(
            shape["alive"], shape["answered"], len(shape.get("dirs_failed", ())), len(shape.get("dirs_slow", ()))
        ),
        "leaders": f.number(shape["leaders"]),
        "replicas": f.number(shape["replicas"]),
        "out_of_sync": f.count(shape["replicas_out_of_sync"], "amber"),
        "size": broker_size(shape["size_bytes"], old_s),
        "bytes_in": f.rate(shape.get("bytes_in_per_s")),
        "bytes_out": f.rate(shape.get("bytes_out_per_s")),
        "replication_in": f.rate(shape.get("replication_bytes_in_per_s")),
        "replication_out": f.rate(shape.get("replication_bytes_out_per_s")),
        "disk_free": disk_free(shape.get("free_bytes"), shape.get("total_bytes"), shape.get("disk_alert", ""), old_s),
    }
