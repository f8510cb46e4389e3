"""The live feed updates every live cell of every page, and a reassignment does not count as a problem."""

from __future__ import annotations

from collections import defaultdict
from html.parser import HTMLParser
from typing import Any

import pytest
from django.db import DatabaseError
from django.db.models import F
from django.test import Client
from django.utils import translation

from console import cells, cluster_cells
from controlplane.models import (
    ArchiveJob,
    Broker,
    Move,
    MovePartition,
    MoveTransition,
    ObservedPartition,
    ObservedTopic,
)
from controlplane.monitoring import live_events
from controlplane.monitoring.hub import Hub
from controlplane.monitoring.projection import Difference
from controlplane.monitoring.publisher import LivePublisher, move_shape
from controlplane.monitoring.samples import MetricsCache
from controlplane.selectors import moves, overview, partitions
from controlplane.services import moves as moves_service
from controlplane.services.move_planning import parse_scope
from tests.unit.console.test_pages import PAGES
from tests.unit.controlplane.world import World

VOID = {"input", "br", "hr", "img", "link", "meta"}


class LiveCells(HTMLParser):
    """(types of the enclosing subjects, field) of each live cell of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[tuple[str, str | None]] = []
        self.found: set[tuple[frozenset[str], str]] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        subject = named.get("data-subject")
        here = [*self.open, (tag, subject)]
        if field := named.get("data-f"):
            self.found.add((frozenset(s.partition(":")[0] for _, s in here if s), field))
        if tag not in VOID:
            self.open = here

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop()[0] != tag:
            pass


def first_updates(world: World) -> list[live_events.LiveUpdate]:
    """The first updates about this cluster. Groups come from samples that are not in the database, so the test publishes them."""
    hub = Hub()
    feed = LivePublisher(hub)
    everything = Difference(
        topics=set(world.image.topics),
        partitions={i: list(t.partitions) for i, t in world.image.topics.items()},
        brokers=True,
    )
    feed.image(world.image, everything, MetricsCache())
    feed.periodic()
    hub.publish(
        live_events.GROUPS,
        {
            "groups": [
                {
                    "group_id": "g",
                    "state": "Stable",
                    "member_count": 1,
                    "lag_records": 5,
                    "lag_ms_max": 7,
                    "lag_at_least": True,
                    "status": "healthy",
                    "consumed_per_s": 1200.0,
                    "produced_per_s": 2000.0,
                    "lost_records": 0,
                    "retention_partition": "orders-0",
                    "retention_in_s": 600.0,
                    "retention_limit": "retention.ms",
                    "retention_at_most": False,
                }
            ],
            "statuses_changed": False,
        },
    )
    place = {
        "topic": "orders",
        "index": 0,
        "committed": 1,
        "end_offset": 2,
        "lag_records": 1,
        "lag_ms": 3,
        "lag_at_least": False,
        "status": "blocked",
        "block": "no_leader",
        "retention_in_s": None,
        "client_id": "",
    }
    hub.publish(live_events.LAG, {"group_id": "g", "partitions": [place]})
    lag = {"lag_at_least": False, "status": "healthy"}
    shared = {"topic": "orders", "index": 0, "start_offset": 4, "lag_records": 1, "lag_ms": 900, "block": "", **lag}
    counts = {"member_count": 2, "lag_records": 1, "lag_ms_max": 900, "partitions_unknown": 0}
    group = {"group_id": "s", "state": "Stable", **counts, **lag}
    hub.publish(live_events.SHARE_GROUPS, {"groups": [{**group, "partitions": [shared]}], "gone": [], "total": 1})
    return hub.since(hub.run, 0) or []


def test_every_live_cell_is_updated_by_live_updates(seeded_cluster: dict[str, Any], operator: Client) -> None:
    written: dict[str, set[str]] = defaultdict(set)
    for update in first_updates(seeded_cluster["world"]):
        for subject, field in cells.page_update(update, cells.ALL_SUBJECTS).cells:
            written[subject.partition(":")[0]].add(field)
    without_update = []
    for address in PAGES:
        parser = LiveCells()
        parser.feed(operator.get(address).content.decode())
        without_update += [
            (address, sorted(kinds), field)
            for kinds, field in parser.found
            if not any(field in written[kind] for kind in kinds)
        ]
    assert not without_update


def test_a_share_group_updates_its_row_its_partitions_and_its_list() -> None:
    lag = {"lag_at_least": True, "status": "stalled"}
    shared = {"topic": "t", "index": 0, "start_offset": 4000, "lag_records": 1, "lag_ms": 61_000, "block": "", **lag}
    counts = {"member_count": 2, "lag_records": None, "lag_ms_max": 61_000, "partitions_unknown": 1}
    group = {"group_id": "s", "state": "Stable", **counts, **lag}
    data = {"groups": [{**group, "partitions": [shared]}], "gone": ["old"], "total": 1}
    update = live_events.LiveUpdate(run="r", seq=1, kind=live_events.SHARE_GROUPS, data=data)
    shown = {
        "share-groups",
        "share-group:s",
        "share-lag:s:t:0",
        "share-group:old",
        "share-members:s",
        "share-progress:s",
    }
    found = cells.page_update(update, shown)
    assert found.cells["share-group:s", "members"] == "2" and "4" in found.cells["share-lag:s:t:0", "start"]
    assert found.gone == {"share-group:old"}
    for subject in ("share-group:s", "share-lag:s:t:0"):
        assert "1 min 1 s" in found.cells[subject, "lag_s"] and "&gt;" in found.cells[subject, "lag_s"]
        assert "Stalled" in found.cells[subject, "status"]
    assert found.marks["share-members:s", ""] == (2, "Stable", ("stalled",)) and found.marks["share-groups", ""] == 1
    assert found.marks["share-progress:s", ""] == ((4000, 1),)
    assert cells.page_update(update, {"group:s"}).cells == {}


@pytest.mark.django_db
def test_a_running_move_is_not_shown_as_a_problem(world: World) -> None:
    """A joining replica is not counted as missing, in any count or colour (KIP-455). A former ISR member that does not respond is counted."""
    world.topic("flights", (1, 2, 3), (2, 3, 1))
    world.begin_move("flights", 0, (2, 3, 4))
    row = partitions.partition_row("flights", 0)
    assert row is not None and row.state == "moving"
    assert "amber" not in cells.isr(row.isr, row.replicas, row.adding, row.removing)
    assert ObservedTopic.objects.get(name="flights").under_replicated == 0
    assert not ObservedPartition.objects.filter(in_trouble=True).exists()
    assert partitions.partition_list(state="problems").total == 0
    assert "replica" not in overview.overview().health.reason.replace("all replicas are in sync", "")
    world.put("flights", 0, isr=(1, 2))
    row = partitions.partition_row("flights", 0)
    assert row is not None and row.state == "under_replicated"
    assert "2 of 3" in cells.isr(row.isr, row.replicas, row.adding, row.removing)
    assert partitions.partition_list(state="problems").total == 1
    assert ObservedTopic.objects.get(name="flights").under_replicated == 1


@pytest.mark.django_db
def test_a_move_shows_100_percent_only_after_every_partition_has_ended(world: World) -> None:
    """Sizes are samples. Parts whose topic was empty when last sampled are weighed by count; otherwise the first
    copied part would be the whole move."""
    world.topic("fresh", (1, 2), (1, 2), (1, 2), (1, 2), size=0)
    parts = [{"topic": "fresh", "partition": i, "replicas": [1, 3]} for i in range(4)]
    pk = moves_service.plan_move(parse_scope({"kind": "partitions", "partitions": parts}), actor="alice").pk
    MovePartition.objects.filter(move_id=pk, partition=0).update(state="done", bytes_total=1_000, bytes_done=1_000)
    row = moves.move_row(pk)
    assert row is not None and row.percent == 25
    MovePartition.objects.filter(move_id=pk).update(bytes_total=2_000_000, bytes_done=2_000_000)
    row = moves.move_row(pk)
    assert row is not None and row.percent == 99
    MovePartition.objects.filter(move_id=pk).update(state="done")
    row = moves.move_row(pk)
    assert row is not None and row.percent == 100


@pytest.mark.django_db
def test_empty_partitions_do_not_count_as_progress_of_a_move(world: World) -> None:
    """A drain whose 84 empty partitions are copied and whose large ones are not started: 120 kB of 230 MB are not 79 per cent."""
    world.topic("empty", *[(1, 2)] * 100, size=0)
    world.topic("flights", *[(1, 2)] * 6, size=38_000_000)
    pk = moves_service.plan_move(parse_scope({"kind": "drain", "broker": 1}), actor="alice").pk
    arrived = MovePartition.objects.filter(move_id=pk, topic_name="empty", partition__lt=84)
    arrived.update(state="done", bytes_total=1_400, bytes_done=1_400)
    row = moves.move_row(pk)
    assert row is not None and (row.parts, row.parts_ended) == (106, 84)
    assert row.percent is not None and 20 < row.percent < 30


@pytest.mark.django_db
def test_large_partitions_are_not_copied_last(world: World) -> None:
    world.topic("empty", *[(1, 2)] * 20, size=0)
    world.topic("flights", *[(1, 2)] * 6, size=38_000_000)
    pk = moves_service.plan_move(parse_scope({"kind": "drain", "broker": 1}), actor="alice").pk
    order = list(MovePartition.objects.filter(move_id=pk).order_by("id").values_list("topic_name", flat=True))
    assert order[0] == "flights" and order[1] == "empty"
    assert order.index("flights") == 0 and len(order) - 1 - order[::-1].index("flights") < 12
    by_hand = {
        "kind": "partitions",
        "partitions": [{"topic": "other", "partition": i, "replicas": [2, 3]} for i in (2, 0, 1)],
    }
    world.topic("other", (1, 2), (1, 2), (1, 2), size=1)
    pk = moves_service.plan_move(parse_scope(by_hand), actor="alice").pk
    assert list(MovePartition.objects.filter(move_id=pk).order_by("id").values_list("partition", flat=True)) == [
        2,
        0,
        1,
    ]


@pytest.mark.django_db
def test_a_move_that_was_rolled_back_has_no_full_bar(world: World) -> None:
    """All partitions were reverted. A bar at 100 % would state that the move is complete."""
    world.topic("flights", (1, 2), (1, 2), size=2_000_000)
    pk = moves_service.plan_move(parse_scope({"kind": "drain", "broker": 1}), actor="alice").pk
    MovePartition.objects.filter(move_id=pk).update(state="reverted", bytes_done=2_000_000)
    Move.objects.filter(pk=pk).update(state="rolled_back")
    row = moves.move_row(pk)
    assert row is not None and row.percent is None
    shown = cells.move(move_shape(row))
    assert "progress" not in shown["bar"] and "100" not in shown["percent"]
    MovePartition.objects.filter(move_id=pk, partition=0).update(state="done")
    Move.objects.filter(pk=pk).update(state="cancelled")
    row = moves.move_row(pk)
    assert row is not None and row.percent == 50, "what stays where it was moved to"
    assert "bar-grey" in cells.move(move_shape(row))["bar"]


def kinds_said(hub: Hub, kind: str) -> list[dict[str, Any]]:
    return [u["data"] for u in hub.since(hub.run, 0) or [] if u["kind"] == kind]


@pytest.mark.django_db
def test_an_unfinished_move_is_published_however_many_moves_are_newer(world: World) -> None:
    """Only the 50 newest moves were published. The page of an older move never showed the end of its rollback."""
    world.topic("flights", (1, 2))
    old = moves_service.plan_move(parse_scope({"kind": "drain", "broker": 1}), actor="alice")
    Move.objects.bulk_create([Move(mode="copy", actor="alice", state="cancelled") for _ in range(60)])
    hub = Hub()
    feed = LivePublisher(hub)
    feed.periodic()
    for state in ("rolling_back", "rolled_back"):
        Move.objects.filter(pk=old.pk).update(state=state, version=old.version + 1 + (state == "rolled_back"))
        MoveTransition.objects.create(move=old, state_from="done", state_to=state, actor="worker")
        feed.periodic()
        last = kinds_said(hub, live_events.MOVES)[-1]["moves"]
        assert [(m["id"], m["state"]) for m in last] == [(old.pk, state)]
    page = f"move:{old.pk}"
    *_, update = [u for u in hub.since(hub.run, 0) or [] if u["kind"] == live_events.MOVES]
    shown = cells.page_update(update, {page})
    assert "rolled back" in shown.cells[page, "move_status"] and "waits for" not in shown.cells[page, "move_status"]
    assert page in shown.refresh, "its panels are reloaded"


@pytest.mark.django_db
def test_progress_of_a_move_reloads_no_list_of_moves(world: World) -> None:
    """A running move changed every second, and every open overview, list of moves and list of alerts was rendered again."""
    world.topic("flights", (1, 2))
    pk = moves_service.plan_move(parse_scope({"kind": "drain", "broker": 1}), actor="alice").pk
    hub = Hub()
    feed = LivePublisher(hub)

    def is_reloaded(**changes: Any) -> bool:
        _, seen = hub.latest()
        Move.objects.filter(pk=pk).update(**changes, version=F("version") + 1)
        feed.periodic()
        found = [u for u in hub.since(hub.run, seen) or [] if u["kind"] == live_events.MOVES]
        assert len(found) == 1
        shown = cells.page_update(found[0], {f"move:{pk}", "moves"})
        assert f"move:{pk}" in shown.refresh and shown.cells, "the page of the move"
        return "moves" in shown.refresh

    assert is_reloaded(state="running"), "a new row"
    assert not is_reloaded(comment="progress")
    assert is_reloaded(state="paused")
    assert not is_reloaded(comment="more")


@pytest.mark.django_db
def test_panels_about_the_state_of_a_move_follow_its_state_and_not_its_progress(world: World) -> None:
    world.topic("flights", (1, 2))
    pk = moves_service.plan_move(parse_scope({"kind": "drain", "broker": 1}), actor="alice").pk
    hub = Hub()
    feed = LivePublisher(hub)
    marks = []
    for changes in ({"state": "running"}, {"comment": "progress"}, {"state": "paused"}):
        Move.objects.filter(pk=pk).update(**changes, version=F("version") + 1)
        feed.periodic()
        *_, update = [u for u in hub.since(hub.run, 0) or [] if u["kind"] == live_events.MOVES]
        panel = f"move-state:{pk}"
        shown = cells.page_update(update, {panel})
        assert set(shown.marks) == {(panel, "")} and not shown.cells and not shown.refresh
        marks.append(shown.marks[panel, ""])
    assert marks[0] == marks[1] != marks[2]


def test_an_update_for_many_pages_is_rendered_once_per_language(monkeypatch: pytest.MonkeyPatch) -> None:
    rendered = []
    render = cluster_cells.broker

    def count(b: Any) -> dict[str, str]:
        rendered.append(b["broker_id"])
        return render(b)

    monkeypatch.setattr(cluster_cells, "broker", count)
    counts = {"leaders": 3, "replicas": 9, "replicas_out_of_sync": 0, "size_bytes": 10}
    brokers = [{"broker_id": i, "alive": True, "answered": True, **counts} for i in (1, 2)]
    update = Hub().publish(live_events.BROKERS, {"brokers": brokers})
    for subjects in ({"broker:1"}, {"broker:2", "brokers"}, {"broker:1", "broker:2"}):
        shown = cells.page_update(update, subjects)
        assert {subject for subject, _ in shown.cells} == subjects - {"brokers"}
        assert {panel for panel, _ in shown.marks} == subjects & {"brokers"}
        assert {subject for subject, _ in shown.points} == subjects - {"brokers"}
    assert rendered == [1, 2]
    with translation.override("zh-hans"):
        assert "存活" in cells.page_update(update, {"broker:1"}).cells["broker:1", "state"]
    assert rendered == [1, 2] * 2
    later = Hub().publish(live_events.BROKERS, {"brokers": [{**brokers[0], "alive": False}]})
    assert "down" in cells.page_update(later, {"broker:1"}).cells["broker:1", "state"]


@pytest.mark.django_db
def test_changes_during_a_database_error_are_published_later(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.topic("flights", (1, 2))
    pk = moves_service.plan_move(parse_scope({"kind": "drain", "broker": 1}), actor="alice").pk
    hub = Hub()
    feed = LivePublisher(hub)

    def raise_database_locked(ids: list[int]) -> list[Any]:
        raise DatabaseError("database is locked")

    with monkeypatch.context() as m:
        m.setattr(moves, "move_rows", raise_database_locked)
        with pytest.raises(DatabaseError):
            feed.periodic()
    feed.periodic()
    assert [m["id"] for u in kinds_said(hub, live_events.MOVES) for m in u["moves"]] == [pk]


@pytest.mark.django_db
def test_an_archives_process_and_heartbeat_change_in_place(world: World) -> None:
    job = ArchiveJob.objects.create(topics=["flights"], actor="alice", state="running")
    for _ in range(30):
        ArchiveJob.objects.create(topics=["other"], actor="alice", state="stopped")
    hub = Hub()
    feed = LivePublisher(hub)
    feed.periodic()
    ArchiveJob.objects.filter(pk=job.pk).update(pid=4711, restarts=2)
    feed.periodic()
    (update,) = [u for u in (hub.since(hub.run, 0) or []) if u["kind"] == live_events.ARCHIVES][1:]
    shown = cells.page_update(update, cells.ALL_SUBJECTS).cells
    assert shown[f"archive:{job.pk}", "process"] == "4711"
    assert "2" in shown[f"archive:{job.pk}", "restarts"]
    ArchiveJob.objects.filter(pk=job.pk).update(state="stopped", pid=None)
    feed.periodic()
    assert kinds_said(hub, live_events.ARCHIVES)[-1]["jobs"][0]["state"] == "stopped"


def test_the_brokers_page_shows_free_disk_space_and_updates_it(world: World, operator: Client) -> None:
    Broker.objects.filter(broker_id=1).update(total_bytes=500 * 10**9, free_bytes=20 * 10**9)
    page = operator.get("/brokers/").content.decode()
    assert 'data-f="disk_free">20.0 GB <span class="t-amber">4%</span>' in page
    assert "The broker has not reported its disk space yet." in page, "brokers without a sample"
    metrics = MetricsCache()
    metrics.space[1] = (500 * 10**9, 10 * 10**9)
    hub = Hub()
    LivePublisher(hub).image(world.image, Difference(brokers=True), metrics)
    (found,) = [u for u in hub.since(hub.run, 0) or () if u["kind"] == live_events.BROKERS]
    assert found["data"]["brokers"][0]["disk_alert"] == "at_risk"
    shown = cells.page_update(found, frozenset({"broker:1"}))
    assert shown.cells["broker:1", "disk_free"] == cluster_cells.disk_free(10 * 10**9, 500 * 10**9, "at_risk")


def test_metrics_of_messages_update_their_cells_and_lists() -> None:
    shape = {"name": "t", "half_checks": 4, "delayed_next_at": None, "half_undecided": 2, "half_oldest_s": 75.0}
    data = {
        "topics": [{**shape, "half_expired": 1, "delayed_pending": None, "delayed_overdue_s": None, "dead_letters": 3}]
    }
    shown = {"messages:t", "half-messages:t", "topic:t"}
    found = cells.page_update(Hub().publish(live_events.MESSAGES, data), shown)
    assert found.cells["messages:t", "undecided"] == "2" and "1 min" in found.cells["messages:t", "oldest"]
    assert found.marks == {("half-messages:t", ""): (2, 4)}
    assert found.points["topic:t", "half_undecided"] == 2 and ("topic:t", "delayed_pending") not in found.points
    stale = {"topics": [{"name": "t", "half_checks": None, "delayed_next_at": None}]}
    assert cells.page_update(Hub().publish(live_events.MESSAGES, stale), shown).cells


def test_a_part_of_a_total_is_in_the_language_of_the_page() -> None:
    """After a live update a Chinese page showed "2 of 3"."""
    assert "2 of 3" in cells.isr([1, 2], [1, 2, 3])
    assert '<b class="t-amber">2 of 3' in cells.isr([1, 2], [1, 2, 3]) and '<b class="t-red">0 of 1' in cells.isr(
        [], [1]
    )
    with translation.override("zh-hans"):
        shown = cells.isr([1, 2], [1, 2, 3])
    assert "2 / 3" in shown and " of " not in shown
