"""The pages of share groups."""

from __future__ import annotations

import pytest
from django.test import Client
from django.utils import timezone

from controlplane.clients import kafka
from controlplane.domain.access import AccessRecordKind
from controlplane.models import AccessEntry, ShareGroupPartition, Topic
from controlplane.services import alerts
from tests.unit.controlplane.dead_letter_responses import ENABLED as DEAD_LETTERS
from tests.unit.controlplane.share_group_responses import ShareGroupWorld, patch_responses, records_in_flight
from tests.unit.controlplane.world import World


@pytest.fixture(autouse=True)
def groups(monkeypatch: pytest.MonkeyPatch, world: World) -> ShareGroupWorld:
    found = patch_responses(monkeypatch)
    found.groups = {"team/billing": {("orders", 0): (5, 7), ("orders", 1): (-1, -1)}}
    found.members = {"team/billing": ["m1"]}
    monkeypatch.setattr(kafka, "delete_group", found.groups.pop)
    return found


def text(client: Client, address: str, status: int = 200) -> str:
    response = client.get(address)
    assert response.status_code == status
    return response.content.decode()


def test_the_list_names_groups_and_silent_brokers(viewer: Client, groups: ShareGroupWorld) -> None:
    page = text(viewer, "/share-groups/")
    assert "team/billing" in page and 'data-subject="share-group:team/billing"' in page and ">7<" in page
    assert "No matching share groups." in text(viewer, "/share-groups/?q=nothing")
    groups.silent = {1}
    page = text(viewer, "/share-groups/")
    assert "2 of 3 brokers answered." in page and "No share groups." in page
    assert "/share-groups/" in text(viewer, "/groups/"), "the page of consumer groups leads to share groups"


def test_one_group_has_partitions_members_and_operations(
    operator: Client, viewer: Client, groups: ShareGroupWorld
) -> None:
    page = text(operator, "/share-groups/team/billing/")
    assert "orders-1" in page and "no member has fetched from it yet" in page and "m1" in page
    assert "/delete/share-group/team/billing/" in page and "group=team%2Fbilling" in page
    assert 'data-subject="share-lag:team/billing:orders:0"' in page
    assert "nobody" in text(operator, "/share-groups/nobody/", 404)
    groups.silent = {1}
    assert "2 of 3 brokers answered." in text(viewer, "/share-groups/team/billing/")


def test_pages_show_lag_in_time_status_and_the_open_alert(viewer: Client) -> None:
    now = timezone.now()
    stalled = {"start_offset": 5, "lag_records": 7, "lag_ms": 61_000, "lag_at_least": True, "status": "stalled"}
    ShareGroupPartition.objects.create(
        group_id="team/billing", topic="orders", index=0, member_count=1, observed_at=now, **stalled
    )
    assert "No member has fetched yet" not in text(viewer, "/share-groups/")
    alerts.evaluate()
    for address in ("/share-groups/", "/share-groups/team/billing/"):
        page = text(viewer, address)
        assert "Stalled" in page and "&gt; <span" in page and "1 min 1 s" in page
    assert "no progress" in page and "Open alerts" in page
    assert "the start offset of orders-0 does not move" in page


def test_a_blocked_partition_has_its_reason(viewer: Client) -> None:
    values = {"start_offset": 5, "lag_records": 7, "status": "blocked", "block": "open_transaction"}
    ShareGroupPartition.objects.create(
        group_id="team/billing", topic="orders", index=0, member_count=1, observed_at=timezone.now(), **values
    )
    page = text(viewer, "/share-groups/team/billing/")
    assert "An open transaction: read_committed consumers wait for its end." in page and "no progress" not in page


def test_a_page_names_the_members_that_hold_records_and_a_reached_limit(
    viewer: Client, groups: ShareGroupWorld
) -> None:
    assert "in flight: new" not in text(viewer, "/share-groups/team/billing/")
    groups.in_flight["team/billing"] = [
        records_in_flight("orders", 0, acquired={"m1": 37}, lock_ms=12_000, redelivery=41, in_flight=200)
    ]
    page = text(viewer, "/share-groups/team/billing/")
    assert page.count(">37</td>") == 2, "in the rows of the partition and of the member"
    assert "The first lock ends in 12 s" in page and ">41</td>" in page
    assert "limit of 200 records in flight: new records wait" in page
    assert page.index("1 partition is at its limit of records in flight") < page.index('<dl class="figures'), (
        "at the top"
    )


def test_the_list_shows_reached_limits_that_the_monitor_observed(viewer: Client) -> None:
    assert "records in flight: unknown" in text(viewer, "/share-groups/"), "no sample"
    values = {"group_id": "team/billing", "topic": "orders", "observed_at": timezone.now()}
    ShareGroupPartition.objects.create(index=0, is_full=True, **values)
    ShareGroupPartition.objects.create(index=1, is_full=None, **values)
    page = text(viewer, "/share-groups/")
    assert "1 partition at its limit of records in flight" in page and "records in flight: unknown" not in page
    ShareGroupPartition.objects.update(is_full=False)
    assert "records in flight" not in text(viewer, "/share-groups/")


def test_a_group_with_dead_letters_leads_to_them(viewer: Client, world: World) -> None:
    assert "no topic" in text(viewer, "/share-groups/team/billing/")
    configs = {"errors.deadletterqueue.topic.name": "dlq.orders"}
    AccessEntry.objects.create(kind=AccessRecordKind.GROUP, key="team/billing", value=configs, changed_by="alice")
    page = text(viewer, "/share-groups/team/billing/")
    assert '<b class="t-red" title="The topic does not exist' in page and "/messages/?topic=dlq.orders" not in page
    world.topic("dlq.orders", (1,), row=False)
    page = text(viewer, "/share-groups/team/billing/")
    assert '<b class="t-red"' not in page
    assert "/messages/?topic=dlq.orders&amp;header=__dlq.errors.group%3Dteam%2Fbilling" in page
    Topic.objects.create(name="dlq.orders", partitions=1, replication_factor=1, configs=DEAD_LETTERS)
    page = text(viewer, "/share-groups/team/billing/")
    assert "/topics/dlq.orders/dead-letters/?group=team%2Fbilling" in page


def test_a_deletion_needs_the_name_and_an_empty_group(operator: Client, groups: ShareGroupWorld) -> None:
    path = "/delete/share-group/team/billing/"
    assert "1 active member" in text(operator, path)
    wrong = operator.post(path, {"confirm_name": "other", "comment": "obsolete"})
    assert wrong.status_code == 400
    given = {"confirm_name": "team/billing", "comment": "obsolete"}
    rejected = operator.post(path, given)
    assert rejected.status_code == 400 and b"Stop its consumers first" in rejected.content
    groups.members = {}
    assert operator.post(path, given).status_code == 302 and groups.groups == {}
    assert "nobody" in text(operator, "/delete/share-group/nobody/", 404)
