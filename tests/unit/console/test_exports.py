"""CSV of lists: all pages of the filter, in the order of the page."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from django.test import Client

from console import exports


def rows(client: Client, address: str) -> list[dict[str, str]]:
    response = client.get(address)
    assert response.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert response.headers["Content-Disposition"].startswith("attachment")
    return list(csv.DictReader(io.StringIO(response.content.decode())))


def test_all_pages_of_the_filter_in_its_order(
    seeded_cluster: dict[str, Any], viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "PER_PAGE_MAX", 2)
    names = [r["name"] for r in rows(viewer, "/topics/?sort=-name&format=csv")]
    assert len(names) > 2
    assert names[0] == "fresh", "topics that are not applied yet are above the others"
    assert names[1:] == sorted(names[1:], reverse=True)
    assert [r["name"] for r in rows(viewer, "/topics/?q=order&format=csv")] == [
        n for n in reversed(names) if "order" in n
    ]


@pytest.mark.parametrize("address", ["/groups/", "/audit/", "/alerts/", "/users/", "/topics/"])
def test_every_list_with_a_link_has_a_file(seeded_cluster: dict[str, Any], operator: Client, address: str) -> None:
    assert "format=csv" in operator.get(address).content.decode()
    assert rows(operator, f"{address}?format=csv")


def test_a_file_with_too_many_rows_has_a_note(
    seeded_cluster: dict[str, Any], viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "PER_PAGE_MAX", 2)
    monkeypatch.setattr(exports, "ROWS_MAX", 2)
    last = viewer.get("/topics/?format=csv").content.decode().splitlines()[-1]
    assert last.endswith("more rows are not in this file; narrow the filter")
