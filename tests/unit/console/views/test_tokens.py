"""Pages of API tokens."""

from __future__ import annotations

import re
from typing import Any

from django.test import Client

from controlplane.models import ApiToken


def test_a_token_is_created_shown_one_time_and_revoked(seeded_cluster: Any, operator: Client) -> None:
    made = operator.post("/new/token/", {"name": "deploy", "scope": "operate", "days": "30", "comment": "x"})
    text = made.content.decode()
    found = re.search(r'id="api-token">(weir_[\w-]+)<', text)
    assert found is not None
    listed = operator.get("/tokens/").content.decode()
    assert "deploy" in listed and found[1][:11] in listed and found[1] not in listed and "never" in listed
    row = ApiToken.objects.get()
    assert row.expires_at is not None
    here = f"/tokens/{row.pk}/revoke/"
    assert operator.get(here).status_code == 200
    assert operator.post(here, {"confirm_name": "wrong", "comment": "x"}).status_code == 400
    gone = operator.post(here, {"confirm_name": "deploy", "comment": "x"}, follow=True)
    assert "API token deploy revoked" in gone.content.decode()
    assert operator.get(here).status_code == 404


def test_scopes_above_the_role_are_neither_offered_nor_accepted(seeded_cluster: Any, operator: Client) -> None:
    assert 'value="admin"' not in operator.get("/new/token/").content.decode()
    assert operator.post("/new/token/", {"name": "x", "scope": "admin"}).status_code == 400


def test_a_name_that_exists_is_an_error_of_the_field(seeded_cluster: Any, operator: Client) -> None:
    form = {"name": "deploy", "scope": "read"}
    operator.post("/new/token/", form)
    again = operator.post("/new/token/", form)
    assert again.status_code == 400 and "You have a token named" in again.content.decode()


def test_a_viewer_creates_and_revokes_a_read_token(seeded_cluster: Any, viewer: Client) -> None:
    assert viewer.get("/tokens/").status_code == 200
    form = viewer.get("/new/token/").content.decode()
    assert 'value="read"' in form and 'value="operate"' not in form
    assert viewer.post("/new/token/", {"name": "x", "scope": "operate"}).status_code == 400
    assert viewer.post("/new/token/", {"name": "x", "scope": "read"}).status_code == 200
    here = f"/tokens/{ApiToken.objects.get(scope='read').pk}/revoke/"
    viewer.post(here, {"confirm_name": "x", "comment": "over"})
    assert not ApiToken.objects.exists()


def test_a_viewer_revokes_no_token_of_another_user(seeded_cluster: Any, viewer: Client, operator: Client) -> None:
    operator.post("/new/token/", {"name": "x", "scope": "read"})
    here = f"/tokens/{ApiToken.objects.get().pk}/revoke/"
    assert viewer.post(here, {"confirm_name": "x", "comment": "over"}).status_code == 404
    assert ApiToken.objects.exists()


def test_no_token_is_created_without_a_login(seeded_cluster: Any, client: Client) -> None:
    assert client.post("/new/token/", {"name": "x", "scope": "read"}).status_code == 302
    assert not ApiToken.objects.exists()
