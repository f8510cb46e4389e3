"""The pages of SCRAM users."""

from __future__ import annotations

import html
import logging
import re
from typing import Any

import pytest
from django.test import Client

from controlplane.models import AccessEntry, Change
from controlplane.services import access

PASSWORD = "correct horse battery"
FORM = {"name": "ann", "mechanisms": ["SCRAM-SHA-256"], "iterations": "4096", "comment": "new service"}


def stored_credential() -> AccessEntry:
    return AccessEntry.objects.get(key="SCRAM-SHA-256:ann")


def test_a_generated_password_is_only_in_the_response_that_creates_it(operator: Client) -> None:
    response = operator.post("/new/user/", FORM)
    page = response.content.decode()
    found = re.search(r'<code id="generated-password">([^<]+)</code>', page)
    assert response.status_code == 200 and found is not None and "no-store" in response.headers["Cache-Control"]
    assert access.password_fits(stored_credential(), found[1])
    for address in ("/users/", "/users/ann/", "/audit/", f"/audit/{Change.objects.get().pk}/"):
        again = operator.get(address)
        assert again.status_code == 200 and found[1] not in again.content.decode()
    changed = operator.post("/password/user/ann/", {"comment": "leaked"}).content.decode()
    second = re.search(r'<code id="generated-password">([^<]+)</code>', changed)
    assert second is not None and second[1] != found[1] and access.password_fits(stored_credential(), second[1])


def test_the_change_of_a_password_says_what_happens_to_logins(operator: Client) -> None:
    operator.post("/new/user/", FORM)
    page = operator.get("/password/user/ann/").content.decode()
    assert "new logins with the old password are rejected" in page and "New password" in page


def test_a_typed_password_is_shown_nowhere_and_not_logged(operator: Client, caplog: Any) -> None:
    caplog.set_level(logging.DEBUG)
    response = operator.post("/new/user/", {**FORM, "password": PASSWORD}, follow=True)
    assert "User ann created." in response.content.decode() and access.password_fits(stored_credential(), PASSWORD)
    assert PASSWORD not in response.content.decode()
    rejected = operator.post("/new/user/", {**FORM, "password": PASSWORD})
    assert rejected.status_code == 400 and "exists already" in rejected.content.decode()
    assert PASSWORD not in rejected.content.decode(), "the form does not return it"
    operator.post("/password/user/ann/", {"password": PASSWORD + "2", "comment": "x"})
    assert access.password_fits(stored_credential(), PASSWORD + "2")
    assert PASSWORD not in caplog.text and PASSWORD not in operator.get("/audit/").content.decode()


def test_all_errors_of_the_form_are_shown_at_once(operator: Client) -> None:
    response = operator.post("/new/user/", {"name": "", "password": "short", "iterations": "1", "comment": ""})
    text = response.content.decode()
    assert response.status_code == 400 and text.count('class="error"') == 4
    assert not AccessEntry.objects.exists()


def test_a_deletion_names_the_acls_and_needs_the_name(seeded_cluster: dict[str, Any], operator: Client) -> None:
    page = operator.get("/delete/user/billing/").content.decode()
    assert "1 ACL name" in page and "User:billing" in page and "orders" in page
    wrong = operator.post("/delete/user/billing/", {"confirm_name": "bill", "comment": "left"})
    assert wrong.status_code == 400 and "does not match" in wrong.content.decode()
    done = operator.post("/delete/user/billing/", {"confirm_name": "billing", "comment": "left"}, follow=True)
    assert "User billing deleted." in done.content.decode()
    assert operator.get("/users/billing/").status_code == 404
    assert Change.objects.filter(verb="scram.delete", comment="left", actor="alice").count() == 2


@pytest.mark.parametrize("address", ["/new/user/", "/password/user/billing/", "/delete/user/billing/"])
def test_a_viewer_changes_no_user(seeded_cluster: dict[str, Any], viewer: Client, address: str) -> None:
    before = list(AccessEntry.objects.values("key", "value", "generation"))
    response = viewer.post(address, {**FORM, "confirm_name": "billing"})
    assert response.status_code == 403
    assert list(AccessEntry.objects.values("key", "value", "generation")) == before


def test_the_page_of_a_user_leads_to_filled_in_forms_for_its_acls_and_its_quota(operator: Client) -> None:
    operator.post("/new/user/", FORM)
    page = html.unescape(operator.get("/users/ann/").content.decode())
    for address, field in (
        ("/acls/from-template/?template=producer&principal=User%3Aann", 'value="User:ann"'),
        ("/new/quota/?user=ann", 'value="ann"'),
    ):
        assert address in page
        assert field in operator.get(address).content.decode()
