"""Pages of offset resets: form, preview, rejection with the difference, result, undo, and removal of a member."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from controlplane.domain.offset_reset_types import CommittedOffset, ResetState
from controlplane.models import ConsumerGroup, OffsetReset
from tests.unit.controlplane.group_world import OFFSETS, GroupWorld, group_world, member

pytestmark = pytest.mark.django_db
NEW = "/offset-resets/new/?group=g"


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> GroupWorld:
    return group_world(monkeypatch)


def create_preview(operator: Client, **values: str) -> str:
    """The address of a new preview."""
    response = operator.post(NEW, {"target": "earliest", **values})
    assert response.status_code == 302, response.content.decode()
    return str(response.headers["Location"])


def page(client: Client, address: str, status: int = 200) -> str:
    response = client.get(address)
    assert response.status_code == status
    return " ".join(response.content.decode().split())


def test_preview_apply_and_undo(seeded_cluster: dict[str, Any], group: GroupWorld, operator: Client) -> None:
    address = create_preview(operator, topics="orders")
    text = page(operator, address)
    assert "Reset the offsets of 3 partitions" in text and "orders-2" in text and ">none<" in text
    assert group.offsets["g"] == OFFSETS
    response = operator.post(f"{address}apply/", {"comment": ""})
    assert response.status_code == 409 and "Give a reason" in response.content.decode()
    operator.post(f"{address}apply/", {"comment": "replay"})
    text = page(operator, address)
    assert "applied" in text and "Reset the offsets of" not in text and f"{address}undo/" in text
    undo = operator.post(f"{address}undo/").headers["Location"]
    assert "Undo of offset reset" in page(operator, undo)
    operator.post(f"{undo}apply/", {"comment": "mistake"})
    assert group.offsets["g"] == OFFSETS
    listed = page(operator, "/offset-resets/?group=g")
    assert listed.count("applied</span>") == 2 and "Undo of" in listed


def test_a_commit_in_between_is_shown_as_a_difference(
    seeded_cluster: dict[str, Any], group: GroupWorld, operator: Client
) -> None:
    address = create_preview(operator)
    group.commit(60)
    response = operator.post(f"{address}apply/", {"comment": "replay"})
    text = " ".join(response.content.decode().split())
    assert response.status_code == 409 and "orders-0: expected 50, found 60" in text
    assert group.offsets["g"]["orders", 0] == CommittedOffset(60)
    again = operator.post(f"{address}preview/").headers["Location"]
    operator.post(f"{again}apply/", {"comment": "replay"})
    assert group.offsets["g"]["orders", 0] == CommittedOffset(10)


def test_an_active_group_is_waited_for_and_the_wait_is_cancelled(
    seeded_cluster: dict[str, Any], group: GroupWorld, operator: Client
) -> None:
    group.members = [member()]
    address = create_preview(operator)
    assert "is active" in operator.post(f"{address}apply/", {"comment": "replay"}).content.decode()
    operator.post(f"{address}apply/", {"comment": "replay", "wait_minutes": "5"})
    assert "waits until the group is empty" in page(operator, address)
    operator.post(f"{address}cancel/")
    assert OffsetReset.objects.get().state == ResetState.CANCELLED
    response = operator.post(f"{address}undo/")
    assert response.status_code == 409 and "only an applied one" in response.content.decode()


def test_pages_of_a_reset_lead_to_the_members_of_an_active_group(
    seeded_cluster: dict[str, Any], group: GroupWorld, operator: Client
) -> None:
    group.members = [member()]
    row = ConsumerGroup.objects.create(group_id="g", state="Stable", member_count=1, observed_at=timezone.now())
    link = '<a href="/groups/g/#members">'
    assert link in page(operator, NEW) and link in page(operator, create_preview(operator))
    ConsumerGroup.objects.filter(pk=row.pk).update(member_count=0)
    assert link not in page(operator, NEW)


def test_invalid_input_is_shown_at_its_field(
    seeded_cluster: dict[str, Any], group: GroupWorld, operator: Client
) -> None:
    for values, said in (
        ({"target": "time", "value": "yesterday"}, "Enter a UTC time"),
        ({"target": "offset", "value": "x"}, "Enter a whole number"),
        ({"target": "shift"}, "Enter a whole number"),
        ({"target": "file", "offsets": "orders,0"}, "Line 1"),
        ({"target": "earliest", "topics": "orders:x"}, "TOPIC:PARTITION"),
        ({"target": "delete"}, "Name the topics"),
        ({"target": "group", "value": "absent"}, "has no committed offsets"),
    ):
        response = operator.post(NEW, values)
        assert response.status_code == 400 and said in response.content.decode(), values
    assert not OffsetReset.objects.exists()


def test_a_member_is_removed_after_a_review(
    seeded_cluster: dict[str, Any], group: GroupWorld, operator: Client
) -> None:
    group.members = [member("billing-0")]
    address = "/remove/member/?group=billing&member=billing-0"
    assert address.replace("&", "&amp;") in page(operator, "/groups/billing/")
    assert "joins the group again" in page(operator, address)
    assert operator.post(address, {"comment": "hangs"}).headers["Location"] == "/groups/billing/"
    assert group.members == []
    assert "has no member" in operator.post(address, {"comment": "hangs"}).content.decode()
    assert operator.get("/remove/member/?group=billing&member=other").status_code == 404


def test_a_viewer_sees_and_does_not_act(
    seeded_cluster: dict[str, Any], group: GroupWorld, operator: Client, viewer: Client
) -> None:
    address = create_preview(operator)
    assert "disabled" in page(viewer, address)
    assert viewer.post(f"{address}apply/", {"comment": "replay"}).status_code == 403
    assert viewer.get(NEW).status_code == 403
    assert viewer.get("/remove/member/?group=billing&member=billing-0").status_code == 403
    assert page(operator, "/offset-resets/99999/", 404)
    assert operator.get(f"{address}dance/").status_code == 404
