"""Role bindings are created and deleted by administrators, with an audit row each."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.core.exceptions import PermissionDenied

from controlplane.models import Change, RoleBinding
from controlplane.services import Rejected
from controlplane.services import role_bindings as services
from controlplane.services.common import AlreadyExists

pytestmark = pytest.mark.django_db
TEAM: dict[str, Any] = {
    "role": "operator",
    "resource_type": "topic",
    "pattern_type": "prefixed",
    "resource_name": "team.",
    "actor": "root",
}


def test_a_binding_is_in_the_audit_log_when_it_is_created_and_deleted() -> None:
    get_user_model().objects.create_user("bob")
    row = services.create_binding(user="bob", comment="on call", **TEAM)
    services.delete_binding(row.pk, actor="root", comment="left")
    made, gone = Change.objects.order_by("id")
    assert (made.verb, made.object_name, made.comment, made.after["resource_name"]) == (
        "role_binding.create",
        "bob",
        "on call",
        "team.",
    )
    assert (gone.verb, gone.before["role"], gone.outcome) == ("role_binding.delete", "operator", "confirmed")
    with pytest.raises(Rejected, match="does not exist"):
        services.delete_binding(row.pk, actor="root")


@pytest.mark.parametrize(
    ("holder", "field"),
    [({}, "user"), ({"user": "bob", "group": "g"}, "user"), ({"user": "eve"}, "user"), ({"group": "h"}, "group")],
)
def test_a_binding_has_one_existing_user_or_group(holder: dict[str, str], field: str) -> None:
    get_user_model().objects.create_user("bob")
    Group.objects.create(name="g")
    with pytest.raises(Rejected) as rejection:
        services.create_binding(**holder, **TEAM)
    assert rejection.value.field == field and Change.objects.get().outcome == "refused"


def test_a_binding_exists_one_time_and_their_number_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    Group.objects.create(name="g")
    services.create_binding(group="g", **TEAM)
    with pytest.raises(AlreadyExists):
        services.create_binding(group="g", **TEAM)
    monkeypatch.setattr(services, "BINDINGS_MAX", 1)
    with pytest.raises(Rejected, match="already"):
        services.create_binding(group="g", **{**TEAM, "role": "owner"})


def test_a_later_user_of_the_same_name_inherits_nothing() -> None:
    user = get_user_model().objects.create_user("bob")
    services.create_binding(user="bob", **TEAM)
    user.delete()
    get_user_model().objects.create_user("bob")
    assert not RoleBinding.objects.exists()


def test_only_administrators_change_bindings() -> None:
    user = get_user_model().objects.create_user("alice", is_staff=True)
    with pytest.raises(PermissionDenied):
        services.check_administrator(user, "role_binding.create", "alice")
    assert Change.objects.get().outcome == "refused"
    services.check_administrator(get_user_model().objects.create_superuser("root"), "role_binding.create", "alice")
