"""Saved views and chosen columns in the console."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client


def test_a_saved_view_is_in_the_list_and_in_the_palette(seeded_cluster: dict[str, Any], viewer: Client) -> None:
    response = viewer.post("/saved-views/save/", {"name": "Broken topics", "address": "/topics/?state=problems"})
    assert (response.status_code, response.headers["Location"]) == (302, "/topics/?state=problems")
    assert "/topics/?state=problems" in viewer.get("/saved-views/").content.decode()
    assert "Broken topics" in viewer.get("/palette/?q=broken").content.decode()


def test_a_view_of_another_site_is_rejected(seeded_cluster: dict[str, Any], viewer: Client) -> None:
    assert viewer.post("/saved-views/save/", {"name": "x", "address": "https://example.org"}).status_code == 409


def test_the_views_of_others_are_not_seen_or_deleted(
    seeded_cluster: dict[str, Any], viewer: Client, operator: Client
) -> None:
    viewer.post("/saved-views/save/", {"name": "Mine", "address": "/topics/"})
    assert "Mine" not in operator.get("/saved-views/").content.decode()
    assert operator.post("/saved-views/1/delete/").status_code == 409
    assert viewer.post("/saved-views/1/delete/").status_code == 302


@pytest.mark.parametrize("table", ["topics", "groups"])
def test_a_hidden_column_stays_hidden_for_this_user(
    seeded_cluster: dict[str, Any], viewer: Client, operator: Client, table: str
) -> None:
    form = {"all": ["State", "Partitions"], "show": ["Partitions"], "next": f"/{table}/?sort=name"}
    response = viewer.post(f"/columns/{table}/", form)
    assert response.headers["Location"] == f"/{table}/?sort=name"
    assert 'class="cards hide-2"' in viewer.get(f"/{table}/").content.decode()
    assert "hide-" not in operator.get(f"/{table}/").content.decode()
    viewer.post(f"/columns/{table}/", {**form, "show": form["all"]})
    assert "hide-" not in viewer.get(f"/{table}/").content.decode()


def test_the_way_back_stays_in_the_console(seeded_cluster: dict[str, Any], viewer: Client) -> None:
    assert viewer.post("/columns/topics/", {"next": "https://example.org/"}).headers["Location"] == "/"
