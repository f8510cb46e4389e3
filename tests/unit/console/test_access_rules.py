"""The table of pages with operations and roles, generated from the URLs: a new page without a rule fails."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory
from django.urls import ResolverMatch

from console import access_rules, urls
from console.views import shell
from controlplane.domain.roles import ROLES_OF, AccessRole, RoleResource
from controlplane.services.request_resources import no_names
from controlplane.services.role_bindings import create_binding

pytestmark = pytest.mark.django_db
PAGES = {str(p.name): p for p in urls.urlpatterns}
OPERATIONS = sorted(name for name, p in PAGES.items() if getattr(p.callback, "needs_operator", False))
TEAM = {
    RoleResource.BROKER: ("literal", "1"),
    RoleResource.ACL: ("prefixed", "topic:team."),
}
"""Pattern type and name of the bindings of the team, where they are not a prefix of the name."""
OWNED = [kind for kind in RoleResource if AccessRole.OWNER in ROLES_OF[kind]]
LOADED_ROWS = {"offset-reset-act", "move-act", "acl-delete", "quota-edit", "quota-delete", "restart-act", "plan-act"}
"""Their resource is in a row, as for the REST routes of the same rules (tests/unit/controlplane/api/test_access_rules.py)."""


def test_each_operation_has_a_rule_and_each_rule_a_page() -> None:
    assert set(OPERATIONS) <= set(access_rules.RULES) <= set(PAGES)
    asked = {n for n in OPERATIONS if (rule := access_rules.RULES[n]) and rule.names is no_names}
    assert asked == set(access_rules.CHECKED_IN_VIEW)


def page(user: Any, name: str, resource: str) -> int:
    """The status of a POST about `resource`; the view itself is replaced."""
    given = dict.fromkeys(("name", "topic", "group", "group_id", "resource_name"), resource)
    given["resource_type"] = "topic"
    request = RequestFactory().post("/", given, query_params={"group": resource})
    request.user = user
    values: dict[str, Any] = {p: resource for p in ("name", "group_id") if p in PAGES[name].pattern.converters}
    if "broker_id" in PAGES[name].pattern.converters:
        values["broker_id"] = 1 if resource.startswith("team.") else 2
    request.resolver_match = ResolverMatch(lambda: None, (), values, name)
    request.session = {}  # type: ignore[assignment]

    @shell.operator_required
    def view(request: HttpRequest) -> HttpResponse:
        return HttpResponse()

    return view(request).status_code


def test_each_page_permits_only_the_expected_users(monkeypatch: pytest.MonkeyPatch) -> None:
    def respond_denied(request: HttpRequest, template: str, context: object, *, status: int) -> HttpResponse:
        return HttpResponse(status=status)

    monkeypatch.setattr(
        shell, "render_page", respond_denied
    )  # a thousand denied requests, whose page takes most of the time

    def user(name: str, **flags: bool) -> Any:
        return get_user_model().objects.create_user(name, **flags)

    def bind(name: str, role: AccessRole, kind: RoleResource, pattern: str, resource: str) -> None:
        create_binding(
            user=name, role=role, resource_type=kind, pattern_type=pattern, resource_name=resource, actor="root"
        )

    viewer, operator, team = user("viewer"), user("operator", is_staff=True), user("team")
    owners = {kind: user(kind.value) for kind in OWNED}
    for kind in OWNED:
        bind("team", AccessRole.OWNER, kind, *TEAM.get(kind, ("prefixed", "team.")))
        bind(kind.value, AccessRole.OWNER, kind, "literal", "*")
    for name in OPERATIONS:
        rule = access_rules.RULES[name]
        assert (page(viewer, name, "team.a"), page(operator, name, "other")) == (403, 200), name
        if name in LOADED_ROWS:
            continue
        assert (page(team, name, "team.a") == 200) is (rule is not None), name
        for kind, owner in owners.items():
            assert (page(owner, name, "x") == 200) is (rule is not None and rule.resource is kind), (name, kind)
        if name not in access_rules.CHECKED_IN_VIEW:
            assert page(team, name, "other") == 403, name


def test_a_name_in_the_form_does_not_replace_the_name_in_the_query() -> None:
    team = get_user_model().objects.create_user("team")
    create_binding(
        user="team",
        role="operator",
        resource_type="group",
        pattern_type="literal",
        resource_name="mine",
        actor="root",
    )
    request = RequestFactory().post("/", {"group": "mine"}, query_params={"group": "other"})
    request.user = team
    request.resolver_match = ResolverMatch(lambda: None, (), {}, "offset-reset-new")
    assert "role operator on group other" in shell.lacking_role(request)
