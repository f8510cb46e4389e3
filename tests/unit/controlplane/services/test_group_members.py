"""Removal of a member from a consumer group."""

from __future__ import annotations

import pytest

from controlplane.clients.group_samples import GroupType
from controlplane.models import Change
from controlplane.services import Rejected
from controlplane.services.group_members import remove_member
from tests.unit.controlplane.group_world import GroupWorld, group_world, member

pytestmark = pytest.mark.django_db


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> GroupWorld:
    return group_world(monkeypatch)


@pytest.mark.parametrize("group_type", [GroupType.CLASSIC, GroupType.CONSUMER, GroupType.STREAMS])
@pytest.mark.parametrize("name", ["m-1", "static-1"])
def test_a_member_is_removed_by_member_id_or_instance_id(group: GroupWorld, name: str, group_type: GroupType) -> None:
    group.members, group.type = [member("m-1", "static-1"), member("m-2")], group_type
    assert remove_member("g", name, actor="alice", comment="hangs") == "confirmed"
    assert [m.member_id for m in group.members] == ["m-2"]
    change = Change.objects.get()
    assert (change.verb, change.outcome, change.before["member_id"]) == ("group.remove_member", "confirmed", "m-1")


def test_an_unknown_member_is_rejected(group: GroupWorld) -> None:
    with pytest.raises(Rejected) as rejection:
        remove_member("g", "m-9", actor="alice")
    assert rejection.value.field == "member_id" and Change.objects.get().outcome == "refused"


def test_without_a_response_the_outcome_is_unknown(group: GroupWorld) -> None:
    group.members, group.silent = [member()], {"remove_member"}
    assert remove_member("g", "m-1", actor="alice") == "unknown" and Change.objects.get().outcome == "unknown"
    group.silent = {"status"}
    with pytest.raises(Rejected, match="did not respond"):
        remove_member("g", "m-1", actor="alice")
