"""Share groups from the responses of their coordinators."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from controlplane.domain.access import AccessRecordKind
from controlplane.models import AccessEntry, ShareGroupPartition
from controlplane.selectors import share_groups as selectors
from tests.unit.controlplane.share_group_responses import ShareGroupWorld, patch_responses, records_in_flight
from tests.unit.controlplane.world import World


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch, world: World) -> ShareGroupWorld:
    found = patch_responses(monkeypatch)
    found.groups = {"b": {("orders", 0): (5, 7), ("orders", 1): (-1, -1)}, "a/1": {}, "other": {}}
    found.members = {"b": ["m1", "m2"]}
    return found


def test_a_page_has_the_groups_of_all_coordinators(groups: ShareGroupWorld) -> None:
    page = selectors.share_group_list()
    assert [(r.group_id, r.member_count, r.lag_records, r.partitions_unknown) for r in page.rows] == [
        ("a/1", 0, None, 0),
        ("b", 2, 7, 1),
        ("other", 0, None, 0),
    ]
    assert page.rows[1].topics == ["orders"] and page.rows[1].coordinator == 1
    assert (page.total, page.first, page.last, page.brokers_responded, page.brokers_asked) == (3, 1, 3, 3, 3)
    found = selectors.share_group_list(query="O", sort="-state", page=1, per_page=1)
    assert (found.total, found.sort, [r.group_id for r in found.rows]) == (1, "-state", ["other"])
    assert selectors.share_group_list(sort="nonsense").sort == "group_id"


def test_a_silent_broker_is_named(groups: ShareGroupWorld) -> None:
    groups.silent = {1}
    page = selectors.share_group_list()
    assert (page.rows, page.brokers_responded, page.brokers_silent[0].problem) == ([], 2, "it is frozen")
    found = selectors.share_group("b")
    assert found.row is None and [s.broker_id for s in found.brokers_silent] == [1]


def test_one_group_has_members_and_partitions(groups: ShareGroupWorld) -> None:
    found = selectors.share_group("b")
    assert found.row is not None and (found.row.state, found.epoch, found.assignor) == ("Stable", 4, "simple")
    assert [(p.topic, p.index, p.start_offset, p.lag_records, p.member_count) for p in found.partitions] == [
        ("orders", 0, 5, 7, 2),
        ("orders", 1, None, None, 2),
    ]
    assert [(x.member_id, x.partitions) for x in found.members] == [
        ("m1", ["orders-0", "orders-1"]),
        ("m2", ["orders-0", "orders-1"]),
    ]
    assert found.dead_letter_topic == "" and not found.key_order
    configs = {"errors.deadletterqueue.topic.name": "dlq.orders", "weir.share.key.order.enable": "true"}
    AccessEntry.objects.create(kind=AccessRecordKind.GROUP, key="b", value=configs, changed_by="alice")
    again = selectors.share_group("b")
    assert again.dead_letter_topic == "dlq.orders" and again.key_order
    assert selectors.share_group("absent").row is None


def test_records_in_flight_are_those_of_the_leaders_that_answer(groups: ShareGroupWorld) -> None:
    before = selectors.share_group("b")
    assert {(p.acquired, p.in_flight, p.is_full) for p in before.partitions} == {(None, None, False)}
    assert [x.acquired for x in before.members] == [None, None]
    groups.in_flight["b"] = [
        records_in_flight("orders", 0, acquired={"m1": 3, "gone": 1}, lock_ms=900, redelivery=2, in_flight=200)
    ]
    found = selectors.share_group("b")
    full, unknown = found.partitions
    assert (full.acquired, full.lock_ms, full.redelivery, full.archiving, full.in_flight) == (4, 900, 2, 0, 200)
    assert full.is_full and not unknown.is_full and unknown.acquired is None
    assert [(x.member_id, x.acquired) for x in found.members] == [("m1", 3), ("m2", 0)]


def create_share_partition(index: int, group: str = "b", topic: str = "orders", **values: object) -> None:
    now = timezone.now()
    ShareGroupPartition.objects.create(group_id=group, topic=topic, index=index, observed_at=now, **values)


def test_a_list_counts_the_partitions_at_their_limit_that_the_monitor_observed(
    groups: ShareGroupWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list asked each broker for the records in flight of up to 25 groups."""
    monkeypatch.delattr("controlplane.clients.share_groups.describe_in_flight")
    assert [r.partitions_full for r in selectors.share_group_list().rows] == [None, None, None], "no sample"
    create_share_partition(0, is_full=True)
    create_share_partition(1, is_full=None)
    create_share_partition(0, group="other", is_full=False)
    create_share_partition(0, group="a/1", is_full=None)
    with CaptureQueriesContext(connection) as several:
        assert [r.partitions_full for r in selectors.share_group_list().rows] == [None, 1, 0]
    ShareGroupPartition.objects.all().delete()
    with CaptureQueriesContext(connection) as none:
        selectors.share_group_list()
    assert len(several) == len(none)


def test_a_group_counts_the_partitions_at_their_limit_when_it_is_read(groups: ShareGroupWorld) -> None:
    def partitions_full() -> int | None:
        row = selectors.share_group("b").row
        assert row is not None
        return row.partitions_full

    create_share_partition(0, is_full=True)
    create_share_partition(1, is_full=True)
    assert partitions_full() is None, "no leader responded"
    groups.in_flight["b"] = [
        records_in_flight("orders", 0, in_flight=200),
        records_in_flight("orders", 1, in_flight=199),
    ]
    assert partitions_full() == 1
    groups.in_flight["b"] = [records_in_flight("orders", 0, in_flight=3)]
    assert partitions_full() == 0


def test_lag_in_time_and_status_are_those_of_the_monitor(groups: ShareGroupWorld) -> None:
    (_, unobserved, _) = selectors.share_group_list().rows
    assert (unobserved.lag_ms_max, unobserved.lag_at_least, unobserved.status) == (None, False, "unknown")
    create_share_partition(0, lag_ms=90_000, lag_at_least=True, status="stalled", member_count=2)
    create_share_partition(1, lag_ms=400, status="healthy")
    create_share_partition(0, group="other", lag_ms=5_000_000, status="stopped")
    row = selectors.share_group_list().rows[1]
    assert (row.lag_ms_max, row.lag_at_least, row.status) == (90_000, True, "stalled")
    found = selectors.share_group("b")
    assert found.row == row
    assert [(p.lag_ms, p.lag_at_least, p.status, p.stall) for p in found.partitions] == [
        (90_000, True, "stalled", "no_progress"),
        (400, False, "healthy", ""),
    ]
