"""The pages of consumer groups: list, export, and the deletion of an empty group."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from controlplane.clients import kafka
from controlplane.clients.connection import NoResponse
from controlplane.models import AccessEntry, Alert, ConsumerGroup, GroupPartition
from tests.unit.console.seed import group
from tests.unit.controlplane.forecast_runs import DISK, finished_run


@pytest.fixture(autouse=True)
def groups(db: None) -> None:
    group("billing", {("orders", 0): (10, 15)}, "healthy")
    group("nightly", {("payments", 0): (1, 9)}, "stopped", members=0)


def test_groups_are_listed_by_topic_and_exported(operator: Client) -> None:
    page = operator.get("/groups/?topic=orders").content.decode()
    assert "billing" in page and "nightly" not in page
    response: Any = operator.get("/groups/?format=csv&q=night")
    text = b"".join(response.streaming_content).decode() if response.streaming else response.content.decode()
    assert "nightly" in text and "billing" not in text


def test_the_group_of_a_stopped_route_names_the_route(operator: Client) -> None:
    """The group of a stopped route was "Healthy" without a word about the route."""
    group("weir.route.copy", {("orders", 0): (10, 15)}, "healthy", members=0)
    assert "positions of route" not in operator.get("/groups/weir.route.copy/").content.decode()
    value = {"source": "orders", "start": "latest", "enabled": False, "bindings": []}
    AccessEntry.objects.create(kind="route", key="copy", value=value, generation=1)
    page = operator.get("/groups/weir.route.copy/").content.decode()
    assert '<a href="/routes/copy/">copy</a>' in page and "The route is stopped" in page
    assert "positions of route" not in operator.get("/groups/billing/").content.decode()


def test_the_deletion_of_empty_groups_has_their_number_and_only_if_there_are_some(operator: Client) -> None:
    page = " ".join(operator.get("/groups/?q=night").content.decode().split())
    assert re.search(r'<a class="button fatal" [^>]*> Delete 1 empty group…', page)
    assert "empty group" not in operator.get("/groups/?q=bill").content.decode()


def test_a_group_that_will_lose_records_leads_to_the_retention_of_the_topic(operator: Client) -> None:
    address = "/topics/orders/alter/?config=retention.bytes&amp;config=retention.ms"
    assert address not in operator.get("/groups/billing/").content.decode()
    ConsumerGroup.objects.filter(group_id="billing").update(retention_in_s=1200, retention_partition="orders-0")
    assert address in operator.get("/groups/billing/").content.decode()


def test_partitions_with_a_problem_are_first_and_clients_are_links(operator: Client) -> None:
    """The stalled partition of a group with 100 partitions was somewhere in the list."""
    statuses = {0: "healthy", 1: "stalled", 2: "data_lost", 3: "blocked", 4: "unknown"}
    group("mixed", {("orders", index): (10, 15) for index in statuses}, "stalled")
    for index, status in statuses.items():
        GroupPartition.objects.filter(group_id="mixed", index=index).update(status=status)
    page = operator.get("/groups/mixed/").content.decode()
    assert re.findall(r'data-subject="lag:mixed:orders:(\d)"', page) == ["2", "1", "3", "0", "4"]
    assert '<a href="/clients/?q=mixed-client">mixed-client</a>' in page


def test_a_group_is_deleted_with_its_name_and_a_reason(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    deleted: list[str] = []
    monkeypatch.setattr(kafka, "delete_group", deleted.append)
    for form in ({"confirm_name": "night", "comment": "x"}, {"confirm_name": "nightly"}):
        assert operator.post("/delete/group/nightly/", form).status_code == 400
    form = {"confirm_name": "nightly", "comment": "unused"}
    page = operator.post("/delete/group/nightly/", form, follow=True).content.decode()
    assert "Group nightly deleted." in page and deleted == ["nightly"]
    assert operator.get("/delete/group/none/").status_code == 404


def test_a_rejection_and_an_unknown_outcome_are_shown(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    rejected = operator.post("/delete/group/billing/", {"confirm_name": "billing", "comment": "x"})
    assert rejected.status_code == 400 and "has 2 members" in rejected.content.decode()

    def raise_no_response(group_id: str) -> None:
        raise NoResponse("late")

    monkeypatch.setattr(kafka, "delete_group", raise_no_response)
    form = {"confirm_name": "nightly", "comment": "unused"}
    assert "Group nightly: unknown." in operator.post("/delete/group/nightly/", form, follow=True).content.decode()


def test_the_page_has_the_forecast_of_the_lag(viewer: Client) -> None:
    finished_run(DISK | {"subject": "group:billing", "metric": "lag_records"})
    assert "Forecast, group caught up:" in " ".join(viewer.get("/groups/billing/").content.decode().split())


def test_the_page_leads_to_the_open_alerts_of_the_group(viewer: Client) -> None:
    assert "Open alerts" not in viewer.get("/groups/billing/").content.decode()
    values = {
        "severity": "degraded",
        "text": "Group billing is falling behind.",
        "do": "Add consumers.",
        "since": timezone.now(),
    }
    alert = Alert.objects.create(kind="group_falling_behind", subject="billing", **values)
    Alert.objects.create(kind="group_falling_behind", subject="nightly", **values)
    Alert.objects.create(kind="group_stopped", subject="billing", ended_at=timezone.now(), **values)
    page = viewer.get("/groups/billing/").content.decode()
    assert (
        f'href="/alerts/{alert.pk}/"' in page
        and page.partition('id="alerts"')[2].partition("</div>")[0].count("/alerts/") == 1
    )


def test_a_share_group_has_its_own_page(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    assert viewer.get("/groups/workers/").status_code == 404
    monkeypatch.setattr("console.views.groups.share_groups.share_group", lambda g: SimpleNamespace(row=g))
    assert viewer.get("/groups/workers/")["Location"] == "/share-groups/workers/"
