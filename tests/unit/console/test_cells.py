"""What the feed says and what the pages show are one: every live cell of a page is written by some update, and a move is no trouble."""

from __future__ import annotations

from collections import defaultdict
from html.parser import HTMLParser
from typing import Any

import pytest
from django.test import Client

from console import cells
from console.fragments import duration_text, megabytes
from controlplane import events
from controlplane.feed import Feed
from controlplane.live import Hub
from controlplane.mirror import Difference
from controlplane.models import MovePartition, ObservedTopic, Partition
from controlplane.samples import Book
from controlplane.selectors import moves, overview, partitions
from controlplane.services import moves as moves_service
from tests.unit.console.test_pages import PAGES
from tests.unit.controlplane.world import World

VOID = {"input", "br", "hr", "img", "link", "meta"}


class LiveCells(HTMLParser):
    """(kinds of the subjects around it, field) of each cell that a page promises to keep live."""

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


def said(world: World) -> list[events.LiveUpdate]:
    """What the observer says when it sees this world for the first time. Groups come from samples, which no row holds: their shape is written out."""
    hub = Hub()
    feed = Feed(hub)
    everything = Difference(
        topics=set(world.image.topics),
        partitions={i: list(t.partitions) for i, t in world.image.topics.items()},
        brokers=True,
    )
    feed.image(world.image, everything, Book())
    feed.periodic()
    hub.publish(
        events.GROUPS,
        {
            "groups": [
                {
                    "group_id": "g",
                    "state": "Stable",
                    "member_count": 1,
                    "lag_records": 5,
                    "lag_ms_max": 7,
                    "verdict": "OK",
                }
            ]
        },
    )
    place = {
        "topic": "orders", "index": 0, "committed": 1, "end_offset": 2, "lag_records": 1, "lag_ms": 3, "verdict": "OK",
        "client_id": "",
    }  # fmt: skip
    hub.publish(events.LAG, {"group_id": "g", "partitions": [place]})
    return hub.since(hub.run, 0) or []


class Everything(frozenset):  # type: ignore[type-arg]
    def __contains__(self, _: object) -> bool:
        return True


def test_every_live_cell_of_every_page_is_written_by_the_feed(seeded: dict[str, Any], operator: Client) -> None:
    written: dict[str, set[str]] = defaultdict(set)
    for update in said(seeded["world"]):
        for subject, field in cells.outcome(update, Everything()).cells:
            written[subject.partition(":")[0]].add(field)
    silent = []
    for address in PAGES:
        parser = LiveCells()
        parser.feed(operator.get(address).content.decode())
        silent += [
            (address, sorted(kinds), field)
            for kinds, field in parser.found
            if not any(field in written[kind] for kind in kinds)
        ]
    assert not silent


@pytest.mark.django_db
def test_a_move_is_under_way_and_not_in_trouble(world: World) -> None:
    """A replica that is only joining is not missed, in no count and no colour (KIP-455); one that was there and fell silent is."""
    world.topic("flights", (1, 2, 3), (2, 3, 1))
    world.begin_move("flights", 0, (2, 3, 4))
    row = partitions.partition_row("flights", 0)
    assert row is not None and row.state == "moving"
    assert "amber" not in cells.isr(row.isr, row.replicas, row.adding, row.removing)
    assert ObservedTopic.objects.get(name="flights").under_replicated == 0
    assert not Partition.objects.filter(in_trouble=True).exists()
    assert partitions.partition_list(only="problems").total == 0
    assert "replica" not in overview.health().reason.replace("all replicas in sync", "")
    world.put("flights", 0, isr=(1, 2))
    row = partitions.partition_row("flights", 0)
    assert row is not None and row.state == "under_replicated"
    assert "2 of 3" in cells.isr(row.isr, row.replicas, row.adding, row.removing)
    assert partitions.partition_list(only="problems").total == 1
    assert ObservedTopic.objects.get(name="flights").under_replicated == 1


@pytest.mark.django_db
def test_a_move_says_a_hundred_per_cent_when_every_part_has_ended_and_not_before(world: World) -> None:
    """Sizes are samples: parts whose topic was empty when last sampled count by parts, or the first one copied would be the whole move."""
    world.topic("fresh", (1, 2), (1, 2), (1, 2), (1, 2), size=0)
    parts = [{"topic": "fresh", "partition": i, "replicas": [1, 3]} for i in range(4)]
    pk = moves_service.plan_move({"kind": "partitions", "partitions": parts}, who="alice").pk
    MovePartition.objects.filter(move_id=pk, partition=0).update(state="done", bytes_total=1_000, bytes_done=1_000)
    row = moves.move_row(pk)
    assert row is not None and row.percent == 25
    MovePartition.objects.filter(move_id=pk).update(bytes_total=1_000, bytes_done=1_000)
    row = moves.move_row(pk)
    assert row is not None and row.percent == 99
    MovePartition.objects.filter(move_id=pk).update(state="done")
    row = moves.move_row(pk)
    assert row is not None and row.percent == 100


def test_just_below_a_megabyte_looks_as_just_above_it() -> None:

    assert [megabytes(n) for n in (900_000, 999_400, 999_999, 1_000_001)] == ["0.900", "0.999", "1.0", "1.0"]
    assert [duration_text(s) for s in (59, 60, 62, 3600, 3660, 7 * 86400)] == [
        "59 s", "1 min", "1 min 2 s", "1 h", "1 h 1 min", "7 d",
    ]  # fmt: skip
