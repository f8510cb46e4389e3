"""What a live update changes on a page: cells, points of charts, panels to read again. Law: pure; renders with `fragments` only, and only
what the page said it shows (its subjects), so that 10,000 topics cost a browser nothing it does not look at.

Called by `sockets`. A subject is what a row of a page is about: `cluster`, `broker:1`, `topic:T`, `partition:T:0`, `group:G`,
`lag:G:T:0`, `move:7`, `archive:3`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from django.utils.html import format_html

from console import fragments as f
from controlplane import events
from controlplane.events import LiveUpdate
from controlplane.selectors.console_history import figures
from controlplane.selectors.partitions import partition_state, replicas_owed


@dataclass(slots=True)
class Outcome:
    """`cells`: (subject, field) -> html. `refresh`: panels to be read again. `marks`: (panel, what) -> value; a panel is read again only when
    one of its marks differs from the last. `points`: (subject, figure) -> value. `gone`: subjects whose rows died."""

    cells: dict[tuple[str, str], str] = field(default_factory=dict)
    refresh: set[str] = field(default_factory=set)
    points: dict[tuple[str, str], float] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    marks: dict[tuple[str, str], object] = field(default_factory=dict)

    def put(self, subject: str, **values: str) -> None:
        for name, html in values.items():
            self.cells[subject, name] = str(html)

    def join(self, later: Outcome) -> None:
        self.cells.update(later.cells)
        self.refresh |= later.refresh
        self.points.update(later.points)
        self.gone |= later.gone
        self.marks.update(later.marks)

    def __bool__(self) -> bool:
        return bool(self.cells or self.refresh or self.points or self.gone or self.marks)


def outcome(update: LiveUpdate, subjects: Set[str]) -> Outcome:
    """What `update` changes on a page that shows `subjects`."""
    out = Outcome()
    _KINDS[update["kind"]](update["data"], subjects, out)
    for subject, figure, value in figures(update):
        if subject in subjects:
            out.points[subject, figure] = value
    out.refresh &= subjects
    out.marks = {key: value for key, value in out.marks.items() if key[0] in subjects}
    return out


def health(data: dict[str, Any]) -> dict[str, str]:
    """The top bar's words, of `overview().as_dict()` or its like."""
    word, reason = data["health"]["word"], data["health"]["reason"]
    epoch = data["controller_epoch"]
    controller = (
        f.unknown("No controller holds the seat.") if data["controller_id"] is None else f.number(data["controller_id"])
    )
    return {
        "health": format_html('{} <span class="reason">{}</span>', f.state(word), reason),
        "controller": format_html("{} · epoch {}", controller, f.number(epoch)),
    }


def _cluster(data: dict[str, Any], subjects: Set[str], out: Outcome) -> None:
    figures_shown = {
        "partitions": f.number(data["partitions"]),
        "topics": f.number(data["topics"]),
        "groups": f.number(data["groups"]),
        "under_replicated": f.count(data["under_replicated"], "amber"),
        "under_min_isr": f.count(data["under_min_isr"], "red"),
        "offline": f.count(data["offline"], "red"),
        "reassigning": f.count(data["reassigning"], "blue"),
        "size": f.size(data["size_bytes"]),
        "records": f.number(data["records"]),
        "records_per_s": f.number(data["records_per_s"]),
        "lag_records": f.number(data["lag_records"]),
        "lag_s": f.seconds(data["lag_ms_max"]),
        "brokers_alive": brokers_alive(data["brokers_alive"], data["brokers_total"]),
        "moves_working": f.count(data["moves_working"], "blue"),
        "changes_pending": f.count(data["changes_pending"], "blue"),
        "drift": f.count(data["drift"], "amber"),
        "alerts": alerts(data["alerts"], data["alerts_at_risk"]),
    }
    out.put("cluster", **figures_shown, **health(data))
    troubles = (
        "under_replicated",
        "under_min_isr",
        "offline",
        "reassigning",
        "brokers_alive",
        "brokers_total",
        "drift",
    )
    out.marks["problems", ""] = tuple(data[k] for k in troubles)
    out.marks["alerts", ""] = (data["alerts"], data["alerts_at_risk"], data["alert_newest"])
    out.marks["topics", ""] = data["topics"]
    out.marks["groups", ""] = data["groups"]


def alerts(count: int, at_risk: int) -> str:
    """The rail's badge; nothing where nothing is wrong."""
    if not count:
        return ""
    return format_html('<b class="t-{}" title="What is wrong now">{}</b>', "red" if at_risk else "amber", count)


def brokers_alive(alive: int, total: int) -> str:
    text = f"{alive} of {total}"
    return format_html("{}", text) if alive == total else format_html('<b class="t-red">{}</b>', text)


def broker_state(alive: bool, answered: bool | None) -> str:
    return f.state("down" if not alive else "silent" if answered is False else "alive")


def _brokers(data: dict[str, Any], subjects: Set[str], out: Outcome) -> None:
    out.marks["brokers", ""] = tuple(
        (
            b["broker_id"],
            b["alive"],
            b.get("cordoned"),
            b.get("leads"),
            bool(b["leaders"]),
            bool(b["replicas"]),
            b.get("held"),
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
            )


def _partitions(data: dict[str, Any], subjects: Set[str], out: Outcome) -> None:
    topic = data["topic"]
    for p in data["partitions"]:
        subject = f"partition:{topic}:{p['index']}"
        if subject in subjects:
            out.put(subject, **partition(p))


def partition(p: dict[str, Any]) -> dict[str, str]:
    """The changing cells of a partition's row, from the shape of `events.PARTITIONS`."""
    start, end = p["start_offset"], p["end_offset"]
    records = None if start is None or end is None else end - start
    return {
        "state": f.state(partition_state(p["leader"], p["replicas"], p["isr"], p["adding"], p["removing"])),
        "leader": f.broker_chip(p["leader"]),
        "epoch": f.number(p["leader_epoch"]),
        "replicas": f.chips(p["replicas"], p["isr"], p["leader"], p["adding"], p["removing"]),
        "isr": isr(p["isr"], p["replicas"], p["adding"], p["removing"]),
        "start": f.number(start),
        "end": f.number(end),
        "records": f.number(records),
        "size": f.megabytes(p["size_bytes"]),
    }


def isr(members: list[int], replicas: list[int], adding: Sequence[int] = (), removing: Sequence[int] = ()) -> str:
    """Who is in sync, and how many of how many when somebody is missing whom the partition is owed."""
    chips = f.chips(members)
    owed = replicas_owed(replicas, adding, removing)
    return (
        chips if len(members) >= owed else format_html('{} <b class="t-amber">{} of {}</b>', chips, len(members), owed)
    )


def _topics(data: dict[str, Any], subjects: Set[str], out: Outcome) -> None:
    for t in data["topics"]:
        subject = f"topic:{t['name']}"
        if subject in subjects:
            out.put(
                subject,
                under_replicated=f.count(t["under_replicated"], "amber"),
                offline=f.count(t["offline"], "red"),
                reassigning=f.count(t["reassigning"], "blue"),
                size=f.megabytes(t["size_bytes"]),
                records=f.number(t["records"]),
                rate=f.number(t["records_per_s"]),
            )
        out.marks[f"partitions:{t['name']}", ""] = t.get("partitions")
    for name in data.get("gone", ()):
        if f"topic:{name}" in subjects:
            out.gone.add(f"topic:{name}")


def _groups(data: dict[str, Any], subjects: Set[str], out: Outcome) -> None:
    for g in data["groups"]:
        out.marks["verdicts", g["group_id"]] = g["verdict"]
        out.marks[f"members:{g['group_id']}", ""] = (g["member_count"], g["state"])
        subject = f"group:{g['group_id']}"
        if subject in subjects:
            out.put(
                subject,
                state=f.state(g["state"]),
                members=f.number(g["member_count"]),
                lag=f.number(g["lag_records"]),
                lag_s=f.seconds(g["lag_ms_max"]),
                verdict=f.state(g["verdict"]),
            )
    for name in data.get("gone", ()):
        if f"group:{name}" in subjects:
            out.gone.add(f"group:{name}")


def _lag(data: dict[str, Any], subjects: Set[str], out: Outcome) -> None:
    group = data["group_id"]
    for p in data["partitions"]:
        subject = f"lag:{group}:{p['topic']}:{p['index']}"
        if subject in subjects:
            out.put(
                subject,
                committed=f.number(p["committed"]),
                end=f.number(p["end_offset"]),
                lag=f.number(p["lag_records"]),
                lag_s=f.seconds(p["lag_ms"]),
                verdict=f.state(p["verdict"]),
            )


NOBODY_PRODUCED = "Nobody produced on the brokers that it burdens, or they have not told yet."


def _moves(data: dict[str, Any], subjects: Set[str], out: Outcome) -> None:
    for m in data["moves"]:
        subject = f"move:{m['id']}"
        if subject in subjects:
            out.put(subject, **move(m))
            out.refresh.add(subject)
            out.points[subject, "bytes_per_s"] = m["bytes_per_s"] or 0.0
            out.points[subject, "throttle_bytes_per_s"] = m["throttle_bytes_per_s"] or 0
            if m["producers_p99_ms"] is not None:
                out.points[subject, "producers_p99_ms"] = m["producers_p99_ms"]
    out.refresh.add("moves")


def move(m: dict[str, Any]) -> dict[str, str]:
    done, total = m["bytes_done"], m["bytes_total"]
    return {
        "state": f.state(m["state"]),
        "standing": f.standing(m["state"], m["waits_for"]),
        "parts": format_html("{} of {}", f"{m['parts_ended']:,}", f"{m['parts']:,}"),
        "percent": format_html("{}%", f"{m['percent']:.0f}"),
        "bar": f.bar(m["percent"], "red" if m["state"] == "failed" else "blue"),
        "bytes": format_html("{} of {}", f.size(done), f.size(total)),
        "speed": f.speed(m["bytes_per_s"]),
        "stuck": f.count(m["parts_stuck"], "red"),
        "eta": f.ends(m["state"], m["waits_for"], m["eta_s"], m["needs_bytes_per_s"]),
        "ends": f.ends(m["state"], m["waits_for"], m["eta_s"], m["needs_bytes_per_s"], in_words=True),
        "throttle": f.throttle(m["throttle_bytes_per_s"]),
        "p99": f.number(m["producers_p99_ms"], NOBODY_PRODUCED),
        "note": format_html("{}", m["note"]),
    }


def _changes(data: dict[str, Any], subjects: Set[str], out: Outcome) -> None:
    out.refresh.add("changes")


def _archives(data: dict[str, Any], subjects: Set[str], out: Outcome) -> None:
    for j in data["jobs"]:
        subject = f"archive:{j['id']}"
        if subject in subjects:
            out.put(subject, state=f.state(j["state"]), rows=f.number(j["rows"]), batches=f.number(j["batches"]))
            out.refresh.add(subject)


_KINDS: dict[str, Callable[[dict[str, Any], Set[str], Outcome], None]] = {
    events.CLUSTER: _cluster,
    events.BROKERS: _brokers,
    events.PARTITIONS: _partitions,
    events.TOPICS: _topics,
    events.GROUPS: _groups,
    events.LAG: _lag,
    events.MOVES: _moves,
    events.CHANGES: _changes,
    events.ARCHIVES: _archives,
}
