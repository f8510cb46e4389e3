"""The pages of ACLs: create with the rejection beside its field, delete with a reason."""

from __future__ import annotations

import pytest
from django.test import Client

from console.views import acls
from controlplane.models import Acl, Change
from controlplane.selectors.authorizers import AuthorizerReport, AuthorizerState

FORM = {
    "resource_type": "topic",
    "pattern_type": "literal",
    "resource_name": "orders",
    "principal": "User:ann",
    "host": "*",
    "operation": "read",
    "permission": "allow",
}


@pytest.fixture
def acl(operator: Client) -> int:
    operator.post("/acls/new/", FORM)
    return int(Acl.objects.get().pk)


def test_an_acl_is_created_listed_and_found(operator: Client, acl: int) -> None:
    page = operator.get("/acls/?q=ANN").content.decode()
    assert "ACL created: allow read on topic orders for User:ann." in page and "orders" in page
    assert f"/acls/{acl}/delete/" not in operator.get("/acls/?q=none").content.decode()


def test_a_rejection_is_beside_its_field(operator: Client) -> None:
    response = operator.post("/acls/new/", {**FORM, "principal": "User:"})
    assert response.status_code == 400 and not Acl.objects.exists()
    assert Change.objects.get().outcome == "refused" and 'id="id_principal"' in response.content.decode()


def test_a_principal_without_a_type_is_a_user(operator: Client) -> None:
    operator.post("/acls/new/", {**FORM, "principal": "ann"})
    operator.post("/acls/new/", {**FORM, "principal": "Group:ops"})
    assert set(Acl.objects.values_list("principal", flat=True)) == {"User:ann", "Group:ops"}


@pytest.mark.parametrize("address", ["/acls/new/", "/acls/from-template/"])
def test_a_form_says_whether_brokers_enforce_acls(operator: Client, address: str) -> None:
    assert 'hx-get="/acls/enforcement/"' in operator.get(address).content.decode()


def test_a_new_acl_allows_to_read_and_not_everything_unless_chosen(operator: Client) -> None:
    page = operator.get("/acls/new/").content.decode()
    assert '<option value="read" selected>' in page and '<option value="all">' in page


def test_a_deletion_shows_the_acl_and_needs_a_reason(operator: Client, acl: int) -> None:
    page = operator.get(f"/acls/{acl}/delete/").content.decode()
    assert "<h1>Delete an ACL of User:ann</h1>" in page
    assert "User:ann loses read on topic orders (literal) from host *, unless another ACL allows it." in page
    operator.post(f"/acls/{acl}/delete/", {"comment": ""})
    assert Acl.objects.exists()
    done = operator.post(f"/acls/{acl}/delete/", {"comment": "left"}, follow=True)
    assert f"ACL {acl} deleted." in done.content.decode() and not Acl.objects.exists()
    assert operator.get(f"/acls/{acl}/delete/").status_code == 404


def test_the_deletion_of_a_denial_says_that_other_acls_decide(operator: Client) -> None:
    operator.post("/acls/new/", {**FORM, "permission": "deny"})
    page = operator.get(f"/acls/{Acl.objects.get().pk}/delete/").content.decode()
    assert "User:ann is no longer denied read on topic orders" in page and "loses" not in page


def test_acls_of_a_template_are_shown_and_then_created(operator: Client) -> None:
    form = {"template": "consumer", "principal": "User:ann", "topic": "orders", "host": "*", "pattern_type": "literal"}
    page = operator.post("/acls/from-template/", {**form, "step": "review"})
    assert page.status_code == 400 and "needs a group" in page.content.decode()
    form["group"] = "billing"
    page = operator.post("/acls/from-template/", {**form, "step": "review"})
    text = page.content.decode()
    assert page.status_code == 200 and "billing" in text and 'value="apply"' in text
    assert not Acl.objects.exists()
    created = operator.post("/acls/from-template/", {**form, "step": "apply"}, follow=True).content.decode()
    assert "3 ACLs created for User:ann, 0 existed." in created
    assert Acl.objects.count() == 3


@pytest.mark.parametrize(
    ("report", "statement"),
    [
        (AuthorizerReport(AuthorizerState.ENFORCED, enforcing=(1, 2)), "ACLs are enforced by the brokers 1, 2."),
        (AuthorizerReport(AuthorizerState.NONE, without=(1, 2)), "<b>Brokers do not enforce ACLs</b>"),
        (
            AuthorizerReport(AuthorizerState.DIFFERENT, without=(2,), enforcing=(1, 3)),
            "<b>Brokers 2 do not enforce ACLs</b>",
        ),
        (AuthorizerReport(AuthorizerState.UNKNOWN, silent=(1,)), "it is unknown whether ACLs are enforced"),
        (
            AuthorizerReport(AuthorizerState.ENFORCED, silent=(3,), enforcing=(1,)),
            "their authorizer is unknown:\n  3.",
        ),
        (AuthorizerReport(AuthorizerState.ENFORCED, allow_if_no_acl=True, enforcing=(1,)), "is open to every client"),
    ],
)
def test_the_list_loads_a_statement_whether_brokers_enforce_acls(
    viewer: Client, monkeypatch: pytest.MonkeyPatch, report: AuthorizerReport, statement: str
) -> None:
    monkeypatch.setattr(acls, "authorizer_report", lambda: report)
    assert 'hx-get="/acls/enforcement/"' in viewer.get("/acls/").content.decode()
    response = viewer.get("/acls/enforcement/").content.decode()
    assert " ".join(statement.split()) in " ".join(response.split()) and "<html" not in response
    assert ("is open to every client" in response) == report.allow_if_no_acl
