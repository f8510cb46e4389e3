"""Deletion of a share group: rejections, the outcome, the audit row."""

from __future__ import annotations

import pytest

from controlplane.clients import kafka
from controlplane.clients.connection import Declined, NoResponse
from controlplane.models import Change
from controlplane.services import Rejected
from controlplane.services import share_groups as services
from tests.unit.controlplane.share_group_responses import ShareGroupWorld, patch_responses
from tests.unit.controlplane.world import World


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch, world: World) -> ShareGroupWorld:
    found = patch_responses(monkeypatch)
    found.groups = {"g": {("orders", 0): (5, 7), ("orders", 1): (-1, -1)}}
    monkeypatch.setattr(kafka, "delete_group", found.groups.pop)
    return found


def delete(name: str = "g") -> str:
    return services.delete_share_group(name, actor="alice", comment="obsolete")


def test_a_group_is_deleted_and_its_offsets_are_recorded(groups: ShareGroupWorld) -> None:
    assert delete() == "confirmed" and groups.groups == {}
    (change,) = Change.objects.all()
    assert (change.verb, change.object_name, change.outcome) == ("share_group.delete", "g", "confirmed")
    assert change.before == {"state": "Empty", "start_offsets": {"orders-0": 5}}


def test_a_group_with_members_or_without_a_coordinator_is_rejected(groups: ShareGroupWorld) -> None:
    groups.members = {"g": ["m"]}
    with pytest.raises(Rejected, match="has 1 members"):
        delete()
    with pytest.raises(Rejected, match="no broker coordinates it"):
        delete("absent")
    groups.silent = {1}
    with pytest.raises(Rejected, match="brokers 1 did not respond"):
        delete()
    assert set(Change.objects.values_list("outcome", flat=True)) == {"refused"} and "g" in groups.groups


@pytest.mark.parametrize("error", [NoResponse("late"), Declined("non empty group")])
def test_the_coordinator_does_not_confirm(
    groups: ShareGroupWorld, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def raise_error(name: str) -> None:
        raise error

    monkeypatch.setattr(kafka, "delete_group", raise_error)
    if isinstance(error, NoResponse):
        assert delete() == "unknown"
    else:
        with pytest.raises(Rejected, match="non empty group"):
            delete()
    (change,) = Change.objects.all()
    assert change.outcome == ("unknown" if isinstance(error, NoResponse) else "refused")
