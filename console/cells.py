"""Changes that a live update makes to a page: cells, chart points, panels to reload. Pure functions.

A subject is the object of a row: `cluster`, `broker:1`, `topic:T`, `partition:T:0`, `group:G`, `lag:G:T:0`, `share-group:G`, `messages:T`, `move:7`,
`archive:3`. Only the subjects that the page shows are rendered, so a cluster of 10,000 topics costs a page no more than its own rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any

from django.utils.html import format_html
from django.utils.translation import get_language

from console import cluster_cells, driver_cells, message_cells, move_cells, record_links
from console import fragments as f
from console.texts import gettext_lazy
from console.vocabulary import translated
from controlplane.domain import wait_reason
from controlplane.domain.topic_states import TopicRowState
from controlplane.monitoring import live_events
from controlplane.monitoring import live_shapes as shapes
from controlplane.monitoring.live_events import LiveUpdate
from controlplane.monitoring.live_points import metrics
from controlplane.selectors.archives import ACTIVE_STATES
from controlplane.selectors.overview import OverviewShape
from controlplane.selectors.partitions import (  # type: ignore[attr-defined]
    partition_state,
    replicas_owed,
)
from controlplane.selectors.topics import health_of
from weir_common.phrases import with_phrase


@dataclass(slots=True)
class PageUpdate:
    """`cells`: (subject, field) -> HTML. `refresh`: panels to reload. `marks`: (panel, key) -> value; a panel is reloaded only if one of its
    marks differs from the previous one. `points`: (subject, metric) -> value. `gone`: subjects that were deleted."""

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


class _AllSubjects(frozenset[str]):
    def __contains__(self, _: object) -> bool:
        return True


ALL_SUBJECTS = _AllSubjects()


def page_update(update: LiveUpdate, subjects: Set[str]) -> PageUpdate:
    """The changes of `update` on a page that shows `subjects`."""
    if update["kind"] not in _SHARED:
        return _select_subjects(_render_update(update, subjects), subjects)
    language = get_language() or ""
    rendered = _latest.get((update["kind"], language))
    if rendered is None or rendered[0] is not update["data"]:
        rendered = _latest[update["kind"], language] = (update["data"], _render_update(update, ALL_SUBJECTS))
    return _select_subjects(rendered[1], subjects)


def marks_of(update: LiveUpdate, subjects: Set[str]) -> dict[tuple[str, str], object]:
    """The marks of an older update, which is not kept as the newest of its kind."""
    rendered = _latest.get((update["kind"], get_language() or ""))
    if rendered is not None and rendered[0] is update["data"]:
        return _select_subjects(rendered[1], subjects).marks
    return _select_subjects(_render_update(update, subjects), subjects).marks


_SHARED = frozenset({live_events.CLUSTER, live_events.BROKERS, live_events.MOVES})
"""Updates with few rows that many pages show: rendered once per language, not once per page."""
_latest: dict[tuple[str, str], tuple[Mapping[str, object], PageUpdate]] = {}
"""(kind, language) -> the data of the newest update of the kind, and all that it changes."""


def _render_update(update: LiveUpdate, subjects: Set[str]) -> PageUpdate:
    """May also have points, panels and marks of other subjects."""
    out = PageUpdate()
    _KINDS[update["kind"]](update["data"], subjects, out)
    for subject, metric, value in metrics(update):
        out.points[subject, metric] = value
    return out


def _select_subjects(update: PageUpdate, subjects: Set[str]) -> PageUpdate:
    return PageUpdate(
        {key: html for key, html in update.cells.items() if key[0] in subjects},
        {name for name in update.refresh if name in subjects},
        {key: value for key, value in update.points.items() if key[0] in subjects},
        {subject for subject in update.gone if subject in subjects},
        {key: value for key, value in update.marks.items() if key[0] in subjects},
    )


def _cluster(data: OverviewShape, subjects: Set[str], out: PageUpdate) -> None:
    out.put("cluster", **cluster_cells.cluster(data))
    out.marks["problems", ""] = (
        data["under_replicated"],
        data["under_min_isr"],
        data["offline"],
        data["reassigning"],
        data["brokers_alive"],
        data["brokers_total"],
        data["drift"],
    )
    out.marks["alerts", ""] = (data["alerts"], data["alerts_at_risk"], data["alert_newest"])
    out.marks["topics", ""] = data["topics"]
    out.marks["groups", ""] = data["groups"]


def _brokers(data: shapes.BrokersUpdate, subjects: Set[str], out: PageUpdate) -> None:
    out.marks["brokers", ""] = tuple(
        (
            b["broker_id"],
            b["alive"],
            b["answered"],
            tuple(b.get("dirs_failed", ())),
            tuple(b.get("dirs_slow", ())),
            b.get("started_ms"),
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
            out.put(subject, **cluster_cells.broker(b))


def _partitions(data: shapes.PartitionsUpdate, subjects: Set[str], out: PageUpdate) -> None:
    topic = data["topic"]
    for p in data["partitions"]:
        subject = f"partition:{topic}:{p['index']}"
        if subject in subjects:
            out.put(subject, **partition(p))


def partition(shape: shapes.PartitionShape) -> dict[str, str]:
    """The live cells of a partition row, from the data of `live_events.PARTITIONS`."""
    start, end = shape["start_offset"], shape["end_offset"]
    records = None if start is None or end is None else end - start
    lists = (
        tuple(shape["replicas"]),
        tuple(shape["isr"]),
        tuple(shape["adding"]),
        tuple(shape["removing"]),
        tuple(shape["down"]),
    )
    return {
        **_placement(shape["leader"], shape["min_isr"], lists, get_language()),
        "epoch": f.number(shape["leader_epoch"]),
        "start": f.number(start),
        "end": f.number(end),
        "records": f.number(records),
        "size": f.size_cell(shape["size_bytes"]),
        "bytes_in": f.rate(shape.get("bytes_in_per_s")),
        "bytes_out": f.rate(shape.get("bytes_out_per_s")),
    }


@lru_cache(maxsize=4096)
def _placement(
    leader: int | None, min_isr: int, lists: tuple[tuple[int, ...], ...], language: str | None
) -> dict[str, str]:
    """Cached: most updates of a partition change only its offsets. `lists`: replicas, ISR, adding, removing, down. `language`: the active one."""
    replicas, members, adding, removing, down = lists
    return {
        "state": f.state(partition_state(leader, replicas, members, adding, removing, min_isr)),
        "leader": f.broker_chip(leader),
        "replicas": f.chips(replicas, members, leader, adding, removing, down),
        "isr": isr(members, replicas, adding, removing),
    }


def isr(
    members: Sequence[int], replicas: Sequence[int], adding: Sequence[int] = (), removing: Sequence[int] = ()
) -> str:
    """The ISR, and its size if it is smaller than the number of required replicas."""
    chips = f.chips(members)
    required = replicas_owed(replicas, adding, removing)
    return (
        chips
        if len(members) >= required
        else format_html(
            '{} <b class="t-{}">{}</b>', chips, "amber" if members else "red", f.of_total(len(members), required)
        )
    )


def _topics(data: shapes.TopicsUpdate, subjects: Set[str], out: PageUpdate) -> None:
    for topic in data["topics"]:
        subject = f"topic:{topic['name']}"
        if subject in subjects:
            out.put(
                subject,
                under_replicated=f.count(topic["under_replicated"], "amber"),
                offline=f.count(topic["offline"], "red"),
                reassigning=f.count(topic["reassigning"], "blue"),
                not_preferred=f.count(topic["not_preferred"], "amber"),
                health=f.topic_state(
                    TopicRowState.ACTIVE, health_of(topic["offline"], topic["under_min_isr"], topic["under_replicated"])
                ),
                size=f.topic_size(
                    topic["size_bytes"],
                    None if topic["size_as_of_ms"] is None else max(0.0, time.time() - topic["size_as_of_ms"] / 1000),
                ),
                records=f.number(topic["records"]),
                rate=f.number(topic["records_per_s"]),
                bytes_in=f.rate(topic.get("bytes_in_per_s")),
                bytes_out=f.rate(topic.get("bytes_out_per_s")),
                replication_in=f.rate(topic.get("replication_bytes_in_per_s")),
            )
        out.marks[f"partitions:{topic['name']}", ""] = topic.get("partitions")
    for name in data.get("gone", ()):
        if f"topic:{name}" in subjects:
            out.gone.add(f"topic:{name}")


def _groups(data: shapes.GroupsUpdate, subjects: Set[str], out: PageUpdate) -> None:
    if data["statuses_changed"]:
        out.refresh.add("statuses")
    for group in data["groups"]:
        out.marks[f"members:{group['group_id']}", ""] = (group["member_count"], group["state"])
        subject = f"group:{group['group_id']}"
        if subject in subjects:
            out.put(
                subject,
                state=f.state(group["state"]),
                members=f.number(group["member_count"]),
                lag=f.number(group["lag_records"]),
                lag_s=f.lag_time(group["lag_ms_max"], group["lag_at_least"]),
                status=f.lag_status(group["status"]),
                consumed=f.number(group["consumed_per_s"]),
                produced=f.number(group["produced_per_s"]),
                pace=f.group_pace(
                    group["consumed_per_s"],
                    group["produced_per_s"],
                    group["lag_records"],
                    group["retention_partition"],
                    group["retention_in_s"],
                    group["retention_limit"],
                    group["retention_at_most"],
                ),
                retention=f.retention_in(group["retention_in_s"], group["retention_at_most"]),
            )
    for name in data.get("gone", ()):
        if f"group:{name}" in subjects:
            out.gone.add(f"group:{name}")


def _lag(data: shapes.LagUpdate, subjects: Set[str], out: PageUpdate) -> None:
    group = data["group_id"]
    for partition in data["partitions"]:
        subject = f"lag:{group}:{partition['topic']}:{partition['index']}"
        if subject in subjects:
            out.put(
                subject,
                committed=record_links.committed_offset(partition["topic"], partition["index"], partition["committed"]),
                end=f.number(partition["end_offset"]),
                lag=f.number(partition["lag_records"]),
                lag_s=f.lag_time(partition["lag_ms"], partition["lag_at_least"]),
                status=f.lag_status(partition["status"], partition["block"]),
                retention=f.retention_in(partition["retention_in_s"]),
            )


def _share_groups(data: shapes.ShareGroupsUpdate, subjects: Set[str], out: PageUpdate) -> None:
    out.marks["share-groups", ""] = data["total"]
    for group in data["groups"]:
        out.marks[f"share-members:{group['group_id']}", ""] = (
            group["member_count"],
            group["state"],
            tuple(p["status"] for p in group["partitions"]),
        )
        # Records in flight are read from the leaders when the panel reloads.
        out.marks[f"share-progress:{group['group_id']}", ""] = tuple(
            (p["start_offset"], p["lag_records"]) for p in group["partitions"]
        )
        if f"share-group:{group['group_id']}" in subjects:
            out.put(
                f"share-group:{group['group_id']}",
                state=f.state(group["state"]),
                members=f.number(group["member_count"]),
                lag=f.number(group["lag_records"]),
                lag_s=f.lag_time(group["lag_ms_max"], group["lag_at_least"]),
                status=f.share_lag_status(group["status"]),
                unknown=f.count(group["partitions_unknown"], "amber"),
            )
        for partition in group["partitions"]:
            subject = f"share-lag:{group['group_id']}:{partition['topic']}:{partition['index']}"
            if subject in subjects:
                out.put(
                    subject,
                    start=f.number(partition["start_offset"]),
                    lag=f.number(partition["lag_records"]),
                    lag_s=f.lag_time(partition["lag_ms"], partition["lag_at_least"]),
                    status=f.share_lag_status(partition["status"], partition["block"]),
                )
    out.gone |= {f"share-group:{name}" for name in data["gone"]} & subjects


def _messages(data: shapes.MessagesUpdate, subjects: Set[str], out: PageUpdate) -> None:
    for t in data["topics"]:
        out.marks |= message_cells.marks(t)
        if f"messages:{t['name']}" in subjects:
            out.put(f"messages:{t['name']}", **message_cells.cells(t))


NO_PRODUCE_LATENCY = gettext_lazy("No produce requests on the brokers of this move, or no sample yet.")


def _moves(data: shapes.MovesUpdate, subjects: Set[str], out: PageUpdate) -> None:
    for shape in data["moves"]:
        subject = f"move:{shape['id']}"
        if subject in subjects:
            out.put(subject, **move(shape))
            out.refresh.add(subject)
            out.marks[f"move-state:{shape['id']}", ""] = (
                shape["state"],
                wait_reason.from_json(shape["waits_for"]),
                shape["parts_rejected"],
                tuple(shape["can"]),
            )
            out.points[subject, "bytes_per_s"] = shape["bytes_per_s"] or 0.0
            out.points[subject, "throttle_bytes_per_s"] = shape["throttle_bytes_per_s"] or 0
            if shape["producers_p99_ms"] is not None:
                out.points[subject, "producers_p99_ms"] = shape["producers_p99_ms"]
    if data["listed"]:
        out.refresh.add("moves")


def move(shape: shapes.MoveShape) -> dict[str, str]:
    done, total = shape["bytes_done"], shape["bytes_total"]
    waits_for = wait_reason.from_json(shape["waits_for"])
    return {
        "state": f.state(shape["state"]),
        "move_status": move_cells.move_status(shape["state"], waits_for, shape["needs_bytes_per_s"]),
        "parts": f.of_total(f"{shape['parts_ended']:,}", f"{shape['parts']:,}"),
        "percent": move_cells.move_percent(shape["percent"]),
        "bar": move_cells.move_bar(shape["state"], shape["percent"]),
        "bytes": f.of_total(f.size(done), f.size(total)),
        "speed": f.speed(shape["bytes_per_s"]),
        "rejected": f.count(shape["parts_rejected"], "red"),
        "eta": move_cells.ends(shape["state"], waits_for, shape["eta_s"], shape["needs_bytes_per_s"]),
        "ends": move_cells.ends(shape["state"], waits_for, shape["eta_s"], shape["needs_bytes_per_s"], in_words=True),
        "throttle": f.throttle(shape["throttle_bytes_per_s"]),
        "p99": f.number(shape["producers_p99_ms"], NO_PRODUCE_LATENCY),
        "note": format_html("{}", translated(with_phrase(shape["note"], shape["note_phrase"]))),
    }


def _changes(data: shapes.ChangesUpdate, subjects: Set[str], out: PageUpdate) -> None:
    out.refresh.add("changes")


def _archives(data: shapes.ArchivesUpdate, subjects: Set[str], out: PageUpdate) -> None:
    for j in data["jobs"]:
        subject = f"archive:{j['id']}"
        if subject in subjects:
            out.put(subject, **archive(j))
            out.refresh.add(subject)


def archive(shape: shapes.ArchiveShape) -> dict[str, str]:
    reported = None if shape["heartbeat_at"] is None else datetime.fromisoformat(shape["heartbeat_at"])
    return {
        "state": driver_cells.driver_state(shape["state"], reported, shape["state"] in ACTIVE_STATES),
        "rows": f.number(shape["rows"]),
        "batches": f.number(shape["batches"]),
        "restarts": f.count(shape["restarts"], "amber"),
        "heartbeat": driver_cells.heartbeat(reported, shape["state"] in ACTIVE_STATES),
        "process": f.process(shape["pid"]),
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
