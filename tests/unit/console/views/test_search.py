"""The search of the top bar."""

from __future__ import annotations

from django.test import Client

from tests.unit.controlplane.world import World


def test_a_search_leads_to_the_lists_that_it_does_not_read(viewer: Client, world: World) -> None:
    world.topic("orders", (1, 2))
    page = viewer.get("/search/?q=ord%26er").content.decode()
    assert all(f'href="/{name}/?q=ord%26er"' in page for name in ("clients", "audit", "acls", "users", "moves"))
    assert "Other places" not in viewer.get("/search/?q=").content.decode()


def test_a_search_finds_pages_by_the_words_of_engineers(viewer: Client, operator: Client) -> None:
    page = viewer.get("/search/?q=delayed").content.decode()
    assert 'href="/topics/?q=.delay"' in page
    assert (
        'href="/restarts/' not in page
        and 'href="/brokers/restarts/new/"' not in viewer.get("/search/?q=reboot").content.decode()
    )
    assert 'href="/brokers/restarts/new/"' in operator.get("/search/?q=reboot").content.decode()
