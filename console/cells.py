"""Changes that a live update makes to a page: cells, chart points, panels to reload. Pure functions.

A subject is the object of a row: `cluster`, `broker:1`, `topic:T`, `partition:T:0`, `group:G`, `lag:G:T:0`, `share-group:G`, `messages:T`, `move:7`,
`archive:3`. Only the subjects that the page shows are rendered, so a cluster of 10,000 topics costs a page no more than its own rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from console import fragments as f
from console import message_cells, record_links
from console.states import TONES
from console.texts import counted, gettext_lazy
from console.vocabulary import alert_title, translated
from controlplane.domain.text import coarse_duration
from controlplane.monitoring import live_events
from controlplane.monitoring import live_shapes as shapes
from controlplane.monitoring.live_events import LiveUpdate
from controlplane.monitoring.live_points import figures
from controlplane.selectors.partitions import (  # type: ignore[attr-defined]
    partition_state,
    replicas_owed,
)
from controlplane.selectors.topics import health_of


@dataclass(slots=True)
class PageUpdate:
    """`cells`: (subject, field) -> HTML. `refresh`: panels to reload. `marks`: (panel, key) -> value; a panel is reloaded only if one of its
    marks differs from the previous one. `points`: (subject, figure) -> value. `gone`: subjects that were deleted."""

    cells: dict[tuple[str, str], str] = field(default_factory=dict)
    refresh: set[str] = field(default_factory=set)
    points: dict[tuple[str, str], float] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    marks: dict[tuple[str, str], object] = field(default_factory=dict)

    def put(self, subject: str, **values: str) -> None:
        for name, html in values.items():
            self.cells[subject, name] = str(html)

    def join(self, later: PageUpdate) -> None:
        self.cells.update(later.cells)
        self.refresh |= later.refresh
        self.points.update(later.points)
        self.gone |= later.gone
        self.marks.update(later.marks)

    def __bool__(self) -> bool:
        return bool(self.cells or self.refresh or self.points or self.gone or self.marks)


def page_update(update: LiveUpdate, subjects: Set[str]) -> PageUpdate:
    """The changes of `update` on a page that shows `subjects`."""
    out = PageUpdate()
    _KINDS[update["kind"]](update["data"], subjects, out)
    for subject, figure, value in figures(update):
        if subject in subjects:
            out.points[subject, figure] = value
    out.refresh &= subjects
    out.marks = {key: value for key, value in out.marks.items() if key[0] in subjects}
    return out


def health(data: dict[str, Any]) -> dict[str, str]:
    """Health and controller of the top bar, from a dict in the shape of `overview()`."""
    word, reason = data["health"]["word"], health_reason(data)
    epoch = data["controller_epoch"]
    controller = (
        f.unknown(_("No active controller.")) if data["controller_id"] is None else f.number(data["controller_id"])
    )
    return {
        "health": format_html('{} <span class="reason">{}</span>', f.state(word), reason),
        "controller": format_html("{} · epoch {}", controller, f.number(epoch)),
    }


def _cluster(data: dict[str, Any], subjects: Set[str], out: PageUpdate) -> None:
    figures_shown = {
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
        "lag_s": f.seconds(data["lag_ms_max"], data["lag_at_least"]),
        "brokers_alive": brokers_alive(data["brokers_alive"], data["brokers_total"]),
        "moves_working": f.count(data["moves_working"], "blue"),
        "changes_pending": f.count(data["changes_pending"], "blue"),
        "drift": f.count(data["drift"], "amber"),
        "alerts": alerts(data["alerts"], data["alerts_at_risk"]),
    }
    out.put("cluster", **figures_shown, **health(data))
    problems = (
        "under_replicated",
        "under_min_isr",
        "offline",
        "reassigning",
        "brokers_alive",
        "brokers_total",
        "drift",
    )
    out.marks["problems", ""] = tuple(data[k] for k in problems)
    out.marks["alerts", ""] = (data["alerts"], data["alerts_at_risk"], data["alert_newest"])
    out.marks["topics", ""] = data["topics"]
    out.marks["groups", ""] = data["groups"]


def health_reason(data: dict[str, Any]) -> str:
    """Return the reason for the health of the cluster, as text. In English it is the sentence of the health. In other languages it is the title of the alert
    that is the cause, or a text with the first figure that is out of its range."""
    reason = str(data["health"]["reason"])
    if data["health"]["alert_kind"]:
        return alert_title(data["health"]["alert_kind"], data["health"]["alert_subject"], reason)
    if (get_language() or "en") == "en" or data["health"]["word"] in ("healthy", "unknown"):
        return translated(reason)
    if data["offline"]:
        return _("{partitions} without a leader").format(partitions=counted(data["offline"], "partition"))
    if data["under_min_isr"]:
        return _("{partitions} under min ISR").format(partitions=counted(data["under_min_isr"], "partition"))
    if data["brokers_alive"] < data["brokers_total"]:
        return _("{brokers} down").format(brokers=counted(data["brokers_total"] - data["brokers_alive"], "broker"))
    if data["under_replicated"]:
        return _("{partitions} under-replicated").format(partitions=counted(data["under_replicated"], "partition"))
    return counted(data["alerts"], "alert") if data["alerts"] else reason


def alerts(count: int, at_risk: int) -> str:
    """The alert count of the navigation, and of the top bar on narrow screens. Empty without alerts."""
    if not count:
        return ""
    return format_html('<b class="t-{}" title="{}">{}</b>', "red" if at_risk else "amber", _("Open alerts"), count)


def cluster_size(size_bytes: int | None, answered: int, brokers: int, as_of_age_s: float | None) -> str:
    """Size of all topics. If brokers do not respond: how many do, and the age of the oldest figure."""
    shown = f.size(size_bytes)
    if answered >= brokers or size_bytes is None:
        return shown
    old = (
        "" if as_of_age_s is None else _(", oldest {as_of_age_s} old").format(as_of_age_s=coarse_duration(as_of_age_s))
    )
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


def broker_state(alive: bool, answered: bool | None) -> str:
    return f.state("down" if not alive else "silent" if answered is False else "alive")


def disk_free(free: int | None, total: int | None, severity: str) -> SafeString:
    """Free bytes in MB, with the share of the disk. `severity`: of the alert about it, whose tone the share has."""
    if free is None or not total:
        return f.unknown(_("The broker has not reported its disk space yet."))
    tone = TONES.get(severity, "")
    share = format_html('<span class="{}">{}%</span>', f"t-{tone}" if tone else "sub", f"{100 * free / total:.0f}")
    return format_html("{} {}", f.megabytes(free), share)


def _brokers(data: shapes.BrokersUpdate, subjects: Set[str], out: PageUpdate) -> None:
    out.marks["brokers", ""] = tuple(
        (
            b["broker_id"],
            b["alive"],
            b.get("cordoned"),
            b.get("leads"),
            bool(b["leaders"]),
            bool(b["replicas"]),
            b.get("replicas_on_disk"),
        )
        for b in data["brokers"]
    )
    for b in data["brokers"]:
        subject = f"broker:{b['broker_id']}"
        if subject in subjects:
            out.put(
                subject,
                state=broker_state(b["alive"], b["answered"]),
                leaders=f.number(b["leaders"]),
                replicas=f.number(b["replicas"]),
                out_of_sync=f.count(b["replicas_out_of_sync"], "amber"),
                size=f.megabytes(b["size_bytes"]),
                bytes_in=f.rate(b.get("bytes_in_per_s")),
                bytes_out=f.rate(b.get("bytes_out_per_s")),
                replication_in=f.rate(b.get("replication_bytes_in_per_s")),
                replication_out=f.rate(b.get("replication_bytes_out_per_s")),
                disk_free=disk_free(b.get("free_bytes"), b.get("total_bytes"), b.get("disk_alert", "")),
            )


def _partitions(data: shapes.PartitionsUpdate, subjects: Set[str], out: PageUpdate) -> None:
    topic = data["topic"]
    for p in data["partitions"]:
        subject = f"partition:{topic}:{p['index']}"
        if subject in subjects:
            out.put(subject, **partition(p))


def partition(p: shapes.PartitionShape) -> dict[str, str]:
    """The live cells of a partition row, from the data of `live_events.PARTITIONS`."""
    start, end = p["start_offset"], p["end_offset"]
    records = None if start is None or end is None else end - start
    return {
        "state": f.state(
            partition_state(p["leader"], p["replicas"], p["isr"], p["adding"], p["removing"], p["min_isr"])
        ),
        "leader": f.broker_chip(p["leader"]),
        "epoch": f.number(p["leader_epoch"]),
        "replicas": f.chips(p["replicas"], p["isr"], p["leader"], p["adding"], p["removing"], p["down"]),
        "isr": isr(p["isr"], p["replicas"], p["adding"], p["removing"]),
        "start": f.number(start),
        "end": f.number(end),
        "records": f.number(records),
        "size": f.megabytes(p["size_bytes"]),
        "bytes_in": f.rate(p.get("bytes_in_per_s")),
        "bytes_out": f.rate(p.get("bytes_out_per_s")),
    }


def isr(members: list[int], replicas: list[int], adding: Sequence[int] = (), removing: Sequence[int] = ()) -> str:
    """The ISR, and its size if it is smaller than the number of required replicas."""
    chips = f.chips(members)
    required = replicas_owed(replicas, adding, removing)
    return (
        chips
        if len(members) >= required
        else format_html('{} <b class="t-amber">{} of {}</b>', chips, len(members), required)
    )


def _topics(data: shapes.TopicsUpdate, subjects: Set[str], out: PageUpdate) -> None:
    for t in data["topics"]:
        subject = f"topic:{t['name']}"
        if subject in subjects:
            out.put(
                subject,
                under_replicated=f.count(t["under_replicated"], "amber"),
                offline=f.count(t["offline"], "red"),
                reassigning=f.count(t["reassigning"], "blue"),
                not_preferred=f.count(t["not_preferred"], "amber"),
                health=f.topic_state("active", health_of(t["offline"], t["under_min_isr"], t["under_replicated"])),
                size=f.topic_size(
                    t["size_bytes"],
                    None if t["size_as_of_ms"] is None else max(0.0, time.time() - t["size_as_of_ms"] / 1000),
                ),
                records=f.number(t["records"]),
                rate=f.number(t["records_per_s"]),
                bytes_in=f.rate(t.get("bytes_in_per_s")),
                bytes_out=f.rate(t.get("bytes_out_per_s")),
                replication_in=f.rate(t.get("replication_bytes_in_per_s")),
            )
        out.marks[f"partitions:{t['name']}", ""] = t.get("partitions")
    for name in data.get("gone", ()):
        if f"topic:{name}" in subjects:
            out.gone.add(f"topic:{name}")


def _groups(data: shapes.GroupsUpdate, subjects: Set[str], out: PageUpdate) -> None:
    for g in data["groups"]:
        out.marks["statuses", g["group_id"]] = g["status"]
        out.marks[f"members:{g['group_id']}", ""] = (g["member_count"], g["state"])
        subject = f"group:{g['group_id']}"
        if subject in subjects:
            out.put(
                subject,
                state=f.state(g["state"]),
                members=f.number(g["member_count"]),
                lag=f.number(g["lag_records"]),
                lag_s=f.seconds(g["lag_ms_max"], g["lag_at_least"]),
                status=f.lag_status(g["status"]),
                consumed=f.number(g["consumed_per_s"]),
                produced=f.number(g["produced_per_s"]),
                pace=f.group_pace(
                    g["consumed_per_s"],
                    g["produced_per_s"],
                    g["lag_records"],
                    g["retention_partition"],
                    g["retention_in_s"],
                    g["retention_limit"],
                    g["retention_at_most"],
                ),
                retention=f.retention_in(g["retention_in_s"], g["retention_at_most"]),
            )
    for name in data.get("gone", ()):
        if f"group:{name}" in subjects:
            out.gone.add(f"group:{name}")


def _lag(data: shapes.LagUpdate, subjects: Set[str], out: PageUpdate) -> None:
    group = data["group_id"]
    for p in data["partitions"]:
        subject = f"lag:{group}:{p['topic']}:{p['index']}"
        if subject in subjects:
            out.put(
                subject,
                committed=record_links.committed_offset(p["topic"], p["index"], p["committed"]),
                end=f.number(p["end_offset"]),
                lag=f.number(p["lag_records"]),
                lag_s=f.seconds(p["lag_ms"], p["lag_at_least"]),
                status=f.lag_status(p["status"], p["block"]),
                retention=f.retention_in(p["retention_in_s"]),
            )


def _share_groups(data: shapes.ShareGroupsUpdate, subjects: Set[str], out: PageUpdate) -> None:
    out.marks["share-groups", ""] = data["total"]
    for g in data["groups"]:
        out.marks[f"share-members:{g['group_id']}", ""] = (g["member_count"], g["state"], len(g["partitions"]))
        if f"share-group:{g['group_id']}" in subjects:
            out.put(
                f"share-group:{g['group_id']}",
                state=f.state(g["state"]),
                members=f.number(g["member_count"]),
                lag=f.number(g["lag_records"]),
                unknown=f.count(g["partitions_unknown"], "amber"),
            )
        for p in g["partitions"]:
            subject = f"share-lag:{g['group_id']}:{p['topic']}:{p['index']}"
            if subject in subjects:
                out.put(subject, start=f.number(p["start_offset"]), lag=f.number(p["lag_records"]))
    out.gone |= {f"share-group:{name}" for name in data["gone"]} & subjects


def _messages(data: shapes.MessagesUpdate, subjects: Set[str], out: PageUpdate) -> None:
    for t in data["topics"]:
        out.marks |= message_cells.marks(t)
        if f"messages:{t['name']}" in subjects:
            out.put(f"messages:{t['name']}", **message_cells.cells(t))


NO_PRODUCE_LATENCY = gettext_lazy("No produce requests on the brokers of this move, or no sample yet.")


def _moves(data: shapes.MovesUpdate, subjects: Set[str], out: PageUpdate) -> None:
    for m in data["moves"]:
        subject = f"move:{m['id']}"
        if subject in subjects:
            out.put(subject, **move(m))
            out.refresh.add(subject)
            out.points[subject, "bytes_per_s"] = m["bytes_per_s"] or 0.0
            out.points[subject, "throttle_bytes_per_s"] = m["throttle_bytes_per_s"] or 0
            if m["producers_p99_ms"] is not None:
                out.points[subject, "producers_p99_ms"] = m["producers_p99_ms"]
    if data["listed"]:
        out.refresh.add("moves")


def move(m: shapes.MoveShape) -> dict[str, str]:
    done, total = m["bytes_done"], m["bytes_total"]
    return {
        "state": f.state(m["state"]),
        "move_status": f.move_status(m["state"], m["waits_for"]),
        "parts": format_html("{} of {}", f"{m['parts_ended']:,}", f"{m['parts']:,}"),
        "percent": f.move_percent(m["percent"]),
        "bar": f.move_bar(m["state"], m["percent"]),
        "bytes": format_html("{} of {}", f.size(done), f.size(total)),
        "speed": f.speed(m["bytes_per_s"]),
        "rejected": f.count(m["parts_rejected"], "red"),
        "eta": f.ends(m["state"], m["waits_for"], m["eta_s"], m["needs_bytes_per_s"]),
        "ends": f.ends(m["state"], m["waits_for"], m["eta_s"], m["needs_bytes_per_s"], in_words=True),
        "throttle": f.throttle(m["throttle_bytes_per_s"]),
        "p99": f.number(m["producers_p99_ms"], NO_PRODUCE_LATENCY),
        "note": format_html("{}", m["note"]),
    }


def _changes(data: shapes.ChangesUpdate, subjects: Set[str], out: PageUpdate) -> None:
    out.refresh.add("changes")


NO_HEARTBEAT = gettext_lazy("The Spark driver has not reported yet.")


def _archives(data: shapes.ArchivesUpdate, subjects: Set[str], out: PageUpdate) -> None:
    for j in data["jobs"]:
        subject = f"archive:{j['id']}"
        if subject in subjects:
            out.put(subject, **archive(j))
            out.refresh.add(subject)


def archive(j: shapes.ArchiveShape) -> dict[str, str]:
    heartbeat = None if j["heartbeat_at"] is None else datetime.fromisoformat(j["heartbeat_at"])
    return {
        "state": f.state(j["state"]),
        "rows": f.number(j["rows"]),
        "batches": f.number(j["batches"]),
        "restarts": f.count(j["restarts"], "amber"),
        "heartbeat": f.instant(heartbeat, NO_HEARTBEAT),
        "process": f.process(j["pid"]),
    }


def _other_clusters(data: shapes.OtherClustersUpdate, subjects: Set[str], out: PageUpdate) -> None:
    out.refresh.add("clusters")


_KINDS: dict[str, Callable[[Any, Set[str], PageUpdate], None]] = {
    live_events.CLUSTER: _cluster,
    live_events.BROKERS: _brokers,
    live_events.PARTITIONS: _partitions,
    live_events.TOPICS: _topics,
    live_events.GROUPS: _groups,
    live_events.LAG: _lag,
    live_events.SHARE_GROUPS: _share_groups,
    live_events.MESSAGES: _messages,
    live_events.MOVES: _moves,
    live_events.CHANGES: _changes,
    live_events.ARCHIVES: _archives,
    live_events.OTHER_CLUSTERS: _other_clusters,
}
