from __future__ import annotations

from django.test import Client


def test_the_list_has_the_keys_of_pages_and_a_page_has_only_its_address(operator: Client) -> None:
    listed = operator.get("/keyboard-shortcuts/").content.decode()
    assert "<kbd>g</kbd> <kbd>t</kbd></dt><dd>Topics</dd>" in listed and 'method="dialog"' in listed
    page = operator.get("/").content.decode()
    assert '<dialog id="keys" data-url="/keyboard-shortcuts/"></dialog>' in page


def test_the_list_needs_a_login(client: Client) -> None:
    assert client.get("/keyboard-shortcuts/").status_code == 302
