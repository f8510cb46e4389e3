"""The pages of masking rules."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from controlplane.models import MaskingRule

FORM = {"topics": "pay.*", "target": "value", "field": "$.card", "comment": ""}


@pytest.fixture
def administrator(db: None) -> Client:
    client = Client()
    client.force_login(get_user_model().objects.create_user("root", is_staff=True, is_superuser=True))
    return client


def test_an_administrator_creates_and_deletes_a_rule(administrator: Client) -> None:
    assert administrator.post("/masking/new/", FORM).status_code == 302
    page = administrator.get("/masking/?q=pay").content.decode()
    assert "$.card" in page and "pay.*" in page
    number = MaskingRule.objects.get().pk
    deletion = administrator.get(f"/masking/{number}/delete/").content.decode()
    assert "Viewers see value $.card" in deletion and "Delete the masking rule of topics" in deletion
    assert administrator.post(f"/masking/{number}/delete/", {"comment": "old"}).status_code == 302
    assert not MaskingRule.objects.exists()
    assert administrator.get(f"/masking/{number}/delete/").status_code == 404


def test_a_wrong_path_is_named_beside_its_field(administrator: Client) -> None:
    page = administrator.post("/masking/new/", {**FORM, "field": "card"})
    assert page.status_code == 400 and "not a supported JSON path" in page.content.decode()


def test_operators_and_viewers_change_no_rule(administrator: Client, operator: Any, viewer: Client) -> None:
    administrator.post("/masking/new/", FORM)
    number = MaskingRule.objects.get().pk
    for client in (operator, viewer):
        assert client.get("/masking/").status_code == 200
        assert client.post("/masking/new/", {**FORM, "field": "$.x"}).status_code == 403
        assert client.post(f"/masking/{number}/delete/", {"comment": "x"}).status_code == 403
    assert MaskingRule.objects.count() == 1
