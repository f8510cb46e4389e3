"""The response of the command palette."""

from __future__ import annotations

from django.test import Client

from tests.unit.controlplane.world import World


def test_entries_are_links(viewer: Client, operator: Client, world: World) -> None:
    world.topic("b", (1, 2))
    page = operator.get("/palette/?q=create").content.decode()
    assert 'href="/new/topic/"' in page and page.count('aria-selected="true"') == 1 and "<html" not in page
    assert "/new/topic/" not in viewer.get("/palette/?q=create").content.decode()
    assert "No page, operation or object matches." in viewer.get("/palette/?q=" + "x" * 5_000).content.decode()


def test_an_anonymous_user_is_sent_to_the_login(client: Client) -> None:
    assert client.get("/palette/").status_code == 302
