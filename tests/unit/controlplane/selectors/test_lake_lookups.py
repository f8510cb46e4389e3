"""Look-ups that continue in the lake: no record twice and none missing, whatever the limit, and what a failed search of the lake leaves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from brokerd.wire.messages.key_lookups import KeyLookupRequest, KeyLookupResponse, LookupStop
from controlplane.clients import key_lookups as client
from controlplane.clients import lake
from controlplane.models import ObservedPartition, ObservedTopic, SparkJob
from controlplane.selectors.key_lookups import KeyLookup, look_up_for_download, look_up_key
from controlplane.selectors.lake_lookups import has_archive
from tests.unit.controlplane.selectors.test_key_lookups import Leaders
from tests.unit.controlplane.world import World
from weir_common.lake_queries import QueryError
from weir_common.lake_records import LakeLookup, LakeRecord, LakeRecords

pytestmark = pytest.mark.django_db
STAMPS = {0: [5, 9, 1, 4, 30], 1: [1, 2, 3, 90], 2: [7, 7, 8]}
"""Timestamps of the records by partition; all have the key."""
STARTS = {0: 3, 1: 3, 2: 0}
"""Log start offsets: the records below are in the lake only."""


class DeletingLeaders(Leaders):
    """Leaders that have deleted the records below the log start offset."""

    def __call__(self, broker: Any, topic: str, partition: int, q: KeyLookupRequest) -> KeyLookupResponse:
        start = STARTS[partition]
        self.records = {p: stamps[start:] if p == partition else stamps for p, stamps in STAMPS.items()}
        asked = replace(q, before_offset=q.before_offset if q.before_offset < 0 else max(0, q.before_offset - start))
        response = super().__call__(broker, topic, partition, asked)
        for match in response.matches:
            match.offset += start
        response.start_offset = start
        if response.next_before_offset >= 0:
            response.next_before_offset += start
        return response


class Lake:
    """The tables of the topic, as `pipeline.lake.record_query` answers. It has some records that the brokers have too."""

    def __init__(self) -> None:
        self.asked: list[LakeLookup] = []
        self.error: QueryError | None = None

    def __call__(self, lookup: LakeLookup) -> LakeRecords:
        self.asked.append(lookup)
        if self.error is not None:
            return LakeRecords(error=self.error, detail="The read of the lake took longer than 15 s.")
        found = [
            (max(STAMPS[p][: o + 1]), o, LakeRecord(p, o, STAMPS[p][o], b"k", 1, b"v", 1))
            for p, before in lookup.before.items()
            for o in range(min(before, len(STAMPS[p])))
        ]
        found.sort(key=lambda f: f[:2], reverse=True)
        rows = [r for _, _, r in found]
        return LakeRecords(rows[: lookup.rows_max], len(rows) > lookup.rows_max, files=2)


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch, world: World) -> Lake:
    world.topic("orders", *[(1, 2)] * len(STAMPS))
    monkeypatch.setattr(client, "look_up", DeletingLeaders(STAMPS))
    tables = Lake()
    monkeypatch.setattr(lake, "records", tables)
    return tables


def partitions_and_offsets(found: KeyLookup) -> list[tuple[int, int]]:
    return [(r.partition, r.offset) for r in found.rows]


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 100])
def test_tokens_lead_through_the_brokers_and_the_lake_once(tables: Lake, limit: int) -> None:
    rows: list[tuple[int, int]] = []
    found = look_up_key("orders", b"k", limit=limit, lake=True)
    while True:
        assert found.rows or found.complete, "each response makes progress"
        rows += partitions_and_offsets(found)
        if found.complete:
            break
        found = look_up_key("orders", b"k", limit=limit, lake=True, token=found.token)
    assert sorted(rows) == [(p, o) for p, stamps in STAMPS.items() for o in range(len(stamps))]
    for partition in STAMPS:
        offsets = [o for p, o in rows if p == partition]
        assert offsets == sorted(offsets, reverse=True)
    assert not found.token


def test_the_lake_is_searched_below_the_log_start_offsets_only(tables: Lake) -> None:
    found = look_up_key("orders", b"k", limit=100, lake=True, from_ms=0, to_ms=100)
    [lookup] = tables.asked
    assert (lookup.before, lookup.from_ms, lookup.to_ms) == ({0: 3, 1: 3}, 0, 100)
    assert found.lake is not None and (found.lake.state, found.lake.records, found.lake.files) == ("searched", 6, 2)
    assert {(r.partition, r.offset) for r in found.rows if "From the lake." in r.notes} == {
        (0, 0),
        (0, 1),
        (0, 2),
        (1, 0),
        (1, 1),
        (1, 2),
    }


def test_without_the_request_the_lake_is_not_searched(tables: Lake) -> None:
    found = look_up_key("orders", b"k", limit=100)
    assert found.lake is None and found.complete and not tables.asked and len(found.rows) == 6


def test_the_lake_waits_until_the_brokers_have_searched_their_records(tables: Lake) -> None:
    found = look_up_key("orders", b"k", limit=1, lake=True, partitions=[1])
    assert partitions_and_offsets(found) == [(1, 3)] and found.lake is not None and not found.complete
    found = look_up_key("orders", b"k", limit=1, bytes_max=1, lake=True)
    assert found.lake is not None and found.lake.state == "not_reached" and not found.complete


def test_a_topic_without_deleted_records_needs_no_process(tables: Lake) -> None:
    found = look_up_key("orders", b"k", limit=100, lake=True, partitions=[2])
    assert not tables.asked and found.complete and found.lake is not None and found.lake.state == "searched"


def test_a_failed_search_of_the_lake_is_said_and_can_be_repeated(tables: Lake) -> None:
    tables.error = QueryError.TIME
    found = look_up_key("orders", b"k", limit=100, lake=True)
    assert found.lake is not None and found.lake.state == "failed" and not found.complete and len(found.rows) == 6
    assert found.note == "The lake could not be searched."
    assert found.lake.problem == "The read of the lake took longer than 15 s."
    tables.error = None
    again = look_up_key("orders", b"k", limit=100, lake=True, token=found.token)
    assert again.complete and sorted(partitions_and_offsets(again)) == [(p, o) for p in (0, 1) for o in range(3)]


def test_a_topic_that_is_not_in_the_lake(tables: Lake) -> None:
    tables.error = QueryError.NO_TABLE
    found = look_up_key("orders", b"k", limit=100, lake=True)
    assert found.complete and found.lake is not None and found.lake.state == "no_table"
    assert not has_archive("orders")
    SparkJob.objects.create(name="archive", kind="archive", parameters={"topics": ["orders"]}, actor="a")
    assert has_archive("orders") and not has_archive("order")


def test_a_look_up_of_a_tiered_topic_is_complete_only_if_the_lake_was_searched(tables: Lake) -> None:
    topic = ObservedTopic.objects.get(name="orders")
    topic.configs = {"remote.storage.enable": "true"}
    topic.save()
    ObservedPartition.objects.filter(topic=topic).update(start_offset=0)
    ObservedPartition.objects.filter(topic=topic, index=1).update(start_offset=3)
    found = look_up_key("orders", b"k", limit=100)
    assert not found.complete and not found.token and found.stopped == "remote"
    assert found.note == "Older records are in the remote tier, which could not be searched."
    assert [(p.state, p.stopped) for p in found.partitions] == [
        ("more", "remote"),
        ("complete", "end"),
        ("complete", "end"),
    ]
    assert look_up_key("orders", b"k", limit=100, lake=True).complete
    tables.error = QueryError.NO_TABLE
    assert not look_up_key("orders", b"k", limit=100, lake=True).complete


def test_a_download_continues_in_the_lake_and_ends_when_the_lake_fails(
    tables: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controlplane.selectors.key_lookups.MATCHES_MAX", 2)
    found = look_up_for_download("orders", b"k", limit=100, lake=True)
    expected = [(p, o) for p, stamps in STAMPS.items() for o in range(len(stamps))]
    assert found.complete and sorted(partitions_and_offsets(found)) == expected
    tables.error = QueryError.TIME
    tables.asked.clear()
    found = look_up_for_download("orders", b"k", limit=100, lake=True)
    assert (found.complete, len(found.rows), len(tables.asked)) == (False, 6, 1)


def test_a_download_ends_when_the_remote_tier_does_not_respond(tables: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    leaders = DeletingLeaders(STAMPS)
    asked: list[int] = []

    def without_remote_tier(broker: Any, topic: str, partition: int, q: KeyLookupRequest) -> KeyLookupResponse:
        asked.append(partition)
        response = leaders(broker, topic, partition, q)
        if response.stop == LookupStop.LOG_START and STARTS[partition]:
            response.stop, response.next_before_offset = LookupStop.REMOTE, STARTS[partition]
        return response

    monkeypatch.setattr(client, "look_up", without_remote_tier)
    found = look_up_for_download("orders", b"k", limit=100)
    assert (found.complete, found.stopped, len(found.rows)) == (False, "remote", 6)
    assert len(asked) <= 2 * len(STAMPS)


def test_the_lake_is_searched_instead_of_a_remote_tier_that_does_not_respond(
    tables: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaders = DeletingLeaders(STAMPS)

    def without_remote_tier(broker: Any, topic: str, partition: int, q: KeyLookupRequest) -> KeyLookupResponse:
        response = leaders(broker, topic, partition, q)
        if response.stop == LookupStop.LOG_START and STARTS[partition]:
            response.stop, response.next_before_offset, response.start_offset = LookupStop.REMOTE, STARTS[partition], 0
        return response

    monkeypatch.setattr(client, "look_up", without_remote_tier)
    found = look_up_key("orders", b"k", limit=100)
    assert (found.complete, found.stopped, len(found.rows)) == (False, "remote", 6) and found.token
    found = look_up_key("orders", b"k", limit=100, lake=True)
    assert found.complete and not found.token
    assert sorted(partitions_and_offsets(found)) == [(p, o) for p, stamps in STAMPS.items() for o in range(len(stamps))]
    tables.error = QueryError.TIME
    found = look_up_key("orders", b"k", limit=100, lake=True)
    assert (found.complete, found.stopped) == (False, "remote") and found.token
