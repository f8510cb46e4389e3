"""The deletion of quotas and SCRAM users of a filter: preview, confirmation, results, roles."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from controlplane.models import AccessEntry
from controlplane.services import quotas, users
from controlplane.services.role_bindings import create_binding


def previewed_keys(page: str) -> list[str]:
    match = re.search(r'name="keys" value="([^"]*)"', page)
    assert match is not None
    found: list[str] = json.loads(unescape(match[1]))
    return found


@pytest.fixture
def three_users(seeded_cluster: dict[str, Any]) -> None:
    for name in ("mail-1", "mail-2", "shop"):
        users.create_user(name, password="long enough for a test", actor="ada")
        quotas.set_quota({"user": name}, {"producer_byte_rate": 5e6}, actor="ada")


def existing_keys(kind: str) -> set[str]:
    return set(AccessEntry.objects.filter(kind=kind, value__isnull=False).values_list("key", flat=True))


@pytest.mark.parametrize(("address", "kind"), [("/bulk/quotas/", "quota"), ("/bulk/users/", "scram")])
def test_quotas_and_users_of_the_filter_are_deleted(
    three_users: None, operator: Client, address: str, kind: str
) -> None:
    before = existing_keys(kind)
    page = operator.get(f"{address}?q=mail-").content.decode()
    keys = previewed_keys(page)
    assert len(keys) == 2 and "mail-1" in page and "cannot be undone" in page
    form = {"keys": json.dumps(keys), "comment": "left"}
    for typed in ("", "3"):
        assert operator.post(address, {**form, "confirm_name": typed}).status_code == 400
    assert existing_keys(kind) == before
    response = operator.post(address, {**form, "confirm_name": "2"})
    assert response.status_code == 200 and "Result" in response.content.decode()
    gone = before - existing_keys(kind)
    assert gone and all("mail-" in key for key in gone) and any("shop" in key for key in existing_keys(kind))
    assert "Nothing matches" in operator.get(f"{address}?q=mail-").content.decode()


def test_a_role_permits_the_rows_of_its_pattern_only(three_users: None) -> None:
    client = Client()
    client.force_login(get_user_model().objects.create_user("team"))
    for kind, name in (("user", "mail-"), ("quota", "user mail-")):
        create_binding(
            user="team", role="operator", resource_type=kind, pattern_type="prefixed", resource_name=name, actor="root"
        )
    for address, kind in (("/bulk/quotas/", "quota"), ("/bulk/users/", "scram")):
        assert client.get(f"{address}?q=shop").status_code == 403
        page = client.get(f"{address}?q=mail-")
        assert page.status_code == 200 and len(previewed_keys(page.content.decode())) == 2
        others = [k for k in existing_keys(kind) if "shop" in k]
        key = "shop" if kind == "scram" else str(AccessEntry.objects.get(kind="quota", key='{"user":"shop"}').pk)
        form = {"keys": json.dumps([key]), "comment": "x", "confirm_name": "1"}
        assert client.post(address, form).status_code == 403 and others == [
            k for k in existing_keys(kind) if "shop" in k
        ]


def test_a_viewer_deletes_nothing(three_users: None, viewer: Client) -> None:
    assert viewer.get("/bulk/quotas/").status_code == viewer.get("/bulk/users/").status_code == 403


@pytest.mark.parametrize(
    ("address", "listed", "kind"), [("/bulk/quotas/", "/quotas/", "quota"), ("/bulk/users/", "/users/", "scram")]
)
def test_a_deletion_without_a_filter_is_rejected_and_not_offered(
    three_users: None, operator: Client, address: str, listed: str, kind: str
) -> None:
    before = existing_keys(kind)
    response = operator.get(address)
    page = response.content.decode()
    assert response.status_code == 409 and "needs a filter" in page and f'href="{listed}"' in page
    every, filtered = (operator.get(f"{listed}{query}").content.decode() for query in ("", "?q=mail-"))
    assert address not in every and f"Filter the list to delete several {listed.strip('/')}." in every
    # The button is in the part of the page that a typed filter replaces: otherwise it would keep the former filter.
    assert f'href="{address}?q=mail-"' in filtered.partition('id="list"')[2].partition("</main>")[0]
    assert f"Delete all filtered {listed.strip('/')} (2)" in " ".join(filtered.split())
    assert existing_keys(kind) == before


def test_the_number_of_quotas_is_on_the_button_of_their_limits(three_users: None, operator: Client) -> None:
    every, filtered = (
        " ".join(operator.get(f"/quotas/{query}").content.decode().split()) for query in ("", "?q=mail-")
    )
    number = len(existing_keys("quota"))
    assert f"Change the limits of all quotas ({number})" in every
    assert "Change the limits of all filtered quotas (2)" in filtered
