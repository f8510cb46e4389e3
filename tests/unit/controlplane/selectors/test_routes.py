"""Routes as listed, and one with the states that brokers committed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.utils import timezone

from controlplane.clients.connection import NoResponse
from controlplane.clients.group_offsets import CommittedOffset
from controlplane.models import ConsumerGroup, GroupPartition, Topic
from controlplane.selectors import routes as selectors
from controlplane.services import routes

pytestmark = pytest.mark.django_db


class Offsets:
    """A group coordinator."""

    found: dict[tuple[str, int], CommittedOffset] | None = None

    def __init__(self, group_id: str) -> None:
        assert group_id == "weir.route.r"

    def __enter__(self) -> Offsets:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def fetch_committed(self) -> tuple[dict[tuple[str, int], CommittedOffset], set[Any]]:
        if self.found is None:
            raise NoResponse("no coordinator")
        return self.found, set()


@pytest.fixture(autouse=True)
def route(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selectors, "GroupOffsetsClient", Offsets)
    Offsets.found = None
    Topic.objects.create(name="orders", partitions=2, replication_factor=3)
    bindings = [{"target": "paid", "match": {"kind": "pattern", "value": "*.paid"}, "drop_key": True}]
    routes.create_route("r", {"source": "orders", "bindings": bindings}, actor="ada")


def create_observed_group() -> None:
    now = timezone.now()
    group = ConsumerGroup.objects.create(
        group_id="weir.route.r", state="Empty", lag_records=7, lag_ms_max=900, status="healthy", observed_at=now
    )
    for index in (0, 1):
        GroupPartition.objects.create(
            group=group, topic="orders", index=index, committed=5, end_offset=12, lag_records=7, observed_at=now
        )


def test_a_route_without_observations_has_no_lag() -> None:
    (row,) = selectors.route_list().rows
    assert (row.name, row.source, row.targets, row.lag_records, row.status) == (
        "r",
        "orders",
        ["paid"],
        None,
        "unknown",
    )
    assert selectors.route_list(source="other").total == 0 and selectors.route_list(query="R").total == 1


def test_the_lag_is_that_of_the_group() -> None:
    create_observed_group()
    (row,) = selectors.route_list().rows
    assert (row.lag_records, row.lag_ms, row.status) == (7, 900, "healthy")


def test_the_states_are_those_that_brokers_committed() -> None:
    create_observed_group()
    state = {"state": "blocked", "generation": 1, "lost": 3, "problems": [["paid", "target_missing", "NONE"]]}
    Offsets.found = {("orders", 0): CommittedOffset(5, 1, json.dumps(state)), ("orders", 1): CommittedOffset(5, 1, "{")}
    detail = selectors.route_detail("r")
    assert detail is not None and detail.states_unknown == ""
    first, second = detail.partitions
    assert (first.state, first.lost_records, first.problems[0].problem) == ("blocked", 3, "target_missing")
    assert (second.state, second.position) == ("unknown", 5)


def test_a_coordinator_that_does_not_respond_leaves_the_states_unknown() -> None:
    create_observed_group()
    detail = selectors.route_detail("r")
    assert detail is not None and detail.states_unknown == "no coordinator"
    assert {(p.state, p.lost_records, p.is_unknown) for p in detail.partitions} == {("unknown", None, True)}
    assert selectors.route_detail("x") is None


def test_a_record_is_tested() -> None:
    assert selectors.test_record("r", "eu.paid", [("h", "1")]) == [
        selectors.RouteTestRow(0, "paid", None, [["h", "1"]])
    ]
    assert selectors.test_record("r", None, []) == []
    assert selectors.test_record("x", "k", []) is None
