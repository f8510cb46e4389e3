"""The search of the top bar."""

from __future__ import annotations

from django.test import Client

from tests.unit.controlplane.world import World


def test_a_search_leads_to_the_lists_that_it_does_not_read(viewer: Client, world: World) -> None:
    world.topic("orders", (1, 2))
    page = viewer.get("/search/?q=ord%26er").content.decode()
    assert all(f'href="/{name}/?q=ord%26er"' in page for name in ("clients", "audit", "acls", "users", "moves"))
    assert "Other places" not in viewer.get("/search/?q=").content.decode()
