"""Decisions by flags, permissions, role bindings and the scope of a token; and why."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser, Group, Permission
from django.utils import translation

from console import vocabulary
from controlplane.domain.roles import Access, RoleResource
from controlplane.domain.token_scopes import TokenScope
from controlplane.models import Change, Move, MovePartition
from controlplane.services import Rejected, authorization, role_bindings
from controlplane.services.authorization import AccessRule
from controlplane.services.request_resources import RequestNames, field_name, path_name, query_name

pytestmark = pytest.mark.django_db
TOPIC, GROUP = RoleResource.TOPIC, RoleResource.GROUP
RULE = AccessRule(TOPIC, path_name("name"))


def bind(user: str, role: str = "operator", kind: str = "topic", name: str = "team.", **more: Any) -> Any:
    values = {"pattern_type": "prefixed", "actor": "root", **more}
    return role_bindings.create_binding(user=user, role=role, resource_type=kind, resource_name=name, **values)


@pytest.fixture
def bob() -> Any:
    return get_user_model().objects.create_user("bob")


def request_names(name: str) -> RequestNames:
    return RequestNames({"name": name}, {}, {})


def test_a_binding_permits_its_resources_only(bob: Any) -> None:
    assert authorization.rejection(bob, RULE, lambda: request_names("team.a")) == authorization.NEEDS_OPERATOR
    bind("bob")
    assert authorization.rejection(bob, RULE, lambda: request_names("team.a")) == ""
    rejected = authorization.rejection(bob, RULE, lambda: request_names("other"))
    assert "role operator on topic other" in rejected and authorization.HOW_TO_GET in rejected
    assert authorization.rejection(bob, None, lambda: request_names("team.a")) == authorization.NEEDS_OPERATOR
    assert authorization.rejection(bob, AccessRule(GROUP, path_name("name")), lambda: request_names("team.a"))
    assert authorization.rejection(bob, RULE, lambda: RequestNames({}, {}, {})) == authorization.NEEDS_OPERATOR


def test_an_operation_on_several_resources_names_all_that_are_not_permitted(bob: Any) -> None:
    bind("bob")
    names = ["team.a", "x", *(f"y{n:02}" for n in range(30))]
    rejected = authorization.rejection_of(bob, Access.OPERATE, TOPIC, names)
    assert "role operator on topics x, y00" in rejected and "and 11 more" in rejected and "team.a" not in rejected
    with translation.override("zh-hans"):
        shown = vocabulary.translated(rejected)
    assert "Topic x、y00" in shown and "操作员" in shown and "role" not in shown.replace("role-bindings", ""), shown


def test_members_of_a_group_have_its_roles(bob: Any) -> None:
    group = Group.objects.create(name="payments")
    bind("", "owner", group="payments")
    assert not authorization.permits(bob, Access.OPERATE, TOPIC, "team.a")
    bob.groups.add(group)
    assert all(authorization.permits(bob, access, TOPIC, "team.a") for access in Access)
    bob.is_active = False
    assert not authorization.permits(bob, Access.OPERATE, TOPIC, "team.a")
    assert authorization.grants_of(AnonymousUser()) == []


def test_a_token_of_the_scope_read_permits_only_reads(bob: Any) -> None:
    bind("bob", "owner")
    setattr(bob, authorization.TOKEN_SCOPE, TokenScope.READ)
    assert authorization.permits(bob, Access.READ_RECORDS, TOPIC, "team.a")
    assert not authorization.permits(bob, Access.OPERATE, TOPIC, "team.a")
    assert not authorization.permits(bob, Access.PRODUCE_RECORDS, TOPIC, "team.a")
    assert not authorization.may_change_something(bob)
    setattr(bob, authorization.TOKEN_SCOPE, TokenScope.OPERATE)
    assert authorization.may_change_something(bob)


def test_a_user_who_only_reads_can_change_nothing(bob: Any) -> None:
    bind("bob", "reader")
    assert not authorization.may_change_something(bob)
    assert authorization.has_role(bob, Access.READ_RECORDS, TOPIC)


def test_names_come_from_the_place_that_the_view_reads() -> None:
    given = RequestNames({"name": "p"}, {"name": "f", "n": 1}, {"name": "q"})
    assert [source("name")(given) for source in (path_name, field_name, query_name)] == [["p"], ["f"], ["q"]]
    assert [field_name("n")(given), field_name("x")(given), query_name("x")(given)] == [[], [], []]


def test_a_check_names_the_reason_and_the_bindings(bob: Any) -> None:
    def reason(access: str = "operate", kind: str = "topic", name: str = "team.a") -> tuple[bool, str, int]:
        found = authorization.check_access(user="bob", access=access, resource_type=kind, resource_name=name)
        return found.allowed, found.reason, len(found.bindings)

    assert reason() == (False, "none", 0)
    bind("bob", "owner")
    assert reason() == (True, "role_binding", 1) and reason(name="x") == (False, "none", 0)
    bob.user_permissions.add(*Permission.objects.filter(codename__in=("read_records", "produce_records")))
    assert reason("read_records", name="x") == (True, "permission", 0)
    # A change needs the flag of an operator, also with the permission.
    assert reason("produce_records", name="x") == (False, "none", 0)
    bob.is_staff = True
    bob.save()
    assert reason("produce_records", name="x") == (True, "permission", 0)
    assert reason(kind="group", name="g") == (True, "cluster_operator", 0)
    bob.is_superuser = True
    bob.save()
    assert reason("read_records") == (True, "superuser", 1)
    bob.is_active = False
    bob.save()
    assert reason() == (False, "none", 0)
    with pytest.raises(Rejected):
        authorization.check_access(user="nobody", access="operate", resource_type="topic", resource_name="a")
    assert Change.objects.count() and not Move.objects.count() and not MovePartition.objects.count()
