"""The deletion of empty groups of a filter: preview, confirmation, results."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any

import pytest
from django.test import Client

from controlplane.models.change import Outcome
from controlplane.services import bulk_groups

ADDRESS = "/bulk/groups/"
FILTERED = f"{ADDRESS}?q=i"
"""The groups of the seeded rows, all of which have this letter."""


@pytest.fixture
def deleted_groups(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []

    def delete(group_id: str, *, actor: str, comment: str) -> Outcome:
        found.append(f"{group_id} {actor} {comment}")
        return Outcome.CONFIRMED

    monkeypatch.setattr(bulk_groups, "delete_group", delete)
    return found


def previewed_groups(page: str) -> list[str]:
    match = re.search(r'name="groups" value="([^"]*)"', page)
    assert match is not None
    found: list[str] = json.loads(unescape(match[1]))
    return found


def test_empty_groups_of_the_filter_are_deleted(
    seeded_cluster: dict[str, Any], operator: Client, deleted_groups: list[str]
) -> None:
    page = operator.get(FILTERED).content.decode()
    empty = previewed_groups(page)
    assert "nightly" in empty and "billing" not in empty and "omitted" in page
    form = {"groups": json.dumps(empty), "comment": "old"}
    for typed in ("", str(len(empty) + 1)):
        assert operator.post(FILTERED, {**form, "confirm_name": typed}).status_code == 400
    assert not deleted_groups
    response = operator.post(FILTERED, {**form, "confirm_name": str(len(empty))})
    assert response.status_code == 200 and "Result" in response.content.decode()
    assert deleted_groups == [f"{name} alice old" for name in empty]


def test_a_filter_and_selected_groups(seeded_cluster: dict[str, Any], operator: Client) -> None:
    assert previewed_groups(operator.get(f"{ADDRESS}?q=nightly").content.decode()) == ["nightly"]
    assert previewed_groups(operator.get(f"{ADDRESS}?g=nightly&g=billing").content.decode()) == ["nightly"]
    assert "No empty group matches" in operator.get(f"{ADDRESS}?q=billing").content.decode()


def test_a_viewer_deletes_nothing(seeded_cluster: dict[str, Any], viewer: Client, deleted_groups: list[str]) -> None:
    form = {"groups": '["nightly"]', "comment": "old", "confirm_name": "1"}
    assert viewer.get(ADDRESS).status_code == 403 and viewer.post(ADDRESS, form).status_code == 403
    assert not deleted_groups


def test_a_deletion_without_a_filter_is_rejected_and_not_offered(
    seeded_cluster: dict[str, Any], operator: Client, deleted_groups: list[str]
) -> None:
    form = {"groups": '["nightly"]', "comment": "old", "confirm_name": "1"}
    for response in (operator.get(ADDRESS), operator.post(ADDRESS, form)):
        assert response.status_code == 409 and "needs a filter" in response.content.decode()
        assert 'href="/groups/"' in response.content.decode()
    assert not deleted_groups
    every, filtered = (operator.get(f"/groups/{query}").content.decode() for query in ("", "?q=nightly"))
    assert ADDRESS not in every and "Filter the list to delete several empty groups." in every
    assert f'href="{ADDRESS}?q=nightly"' in filtered.partition('id="list"')[2]
