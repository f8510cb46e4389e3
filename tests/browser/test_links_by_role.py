"""A viewer of some topics and groups walks through the console by its links (WEIR_VIEW_BY_ROLE): each link that a page shows leads to a page, and no page that
links lead to has a name of others. The browser resolves the links; pages that no link leads to are in tests/unit/console/test_view_by_role.py."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.urls import Resolver404, resolve

from tests.browser.conftest import BrowserSession
from tests.browser.test_view_by_role import hidden, served, session  # noqa: F401 - fixtures

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]

READ = """async (address) => {
  const answer = await fetch(address)
  const text = await answer.text()
  const type = answer.headers.get('content-type') || ''
  const page = type.startsWith('text/html') ? new DOMParser().parseFromString(text, 'text/html') : null
  const links = page ? [...page.querySelectorAll('a[href]')].map((a) => new URL(a.getAttribute('href'), answer.url)) : []
  const own = links.filter((link) => link.origin === location.origin).map((link) => link.pathname + link.search)
  return { status: answer.status, text, links: [...new Set(own)] }
}"""
EXAMPLES = ("/moves/new/?kind=plan", "/api/v1/docs/", "/api/v1/schema")
"""Pages without data of the cluster whose texts have a topic of the demo as an example."""
EXPLAINED = ("/messages/",)
"""Pages that also open without the role to read records, and name it."""
PAGES_MIN = 25


def shape(address: str) -> tuple[str, ...]:
    """The page and the names of its parameters: one address of each is visited."""
    parts = urlsplit(address)
    try:
        name = str(resolve(parts.path).url_name)
    except Resolver404:
        name = parts.path
    return (name, *sorted(re.findall(r"(?:^|&)([^=&]+)=", parts.query)))


def test_each_shown_link_leads_to_a_page_without_names_of_others(session: BrowserSession) -> None:  # noqa: F811
    session.page.goto("/")
    queue, known = [("/", "/")], {shape("/")}
    dead, leaks, visited = list[tuple[int, str, str]](), dict[str, Any](), 0
    while queue:
        address, origin = queue.pop(0)
        found = session.page.evaluate(READ, address)
        visited += 1
        if found["status"] == 403 and address.startswith(EXPLAINED):
            assert "the role" in found["text"], address
        elif found["status"] >= 400:
            dead.append((found["status"], address, f"link on {origin}"))
            continue
        if not address.startswith(EXAMPLES) and (names := hidden(found["text"], address)):
            leaks[address] = names
        for link in found["links"]:
            if (key := shape(link)) not in known:
                known.add(key)
                queue.append((link, address))
    assert not dead and not leaks, "\n".join(map(str, [*dead, *leaks.items()]))
    assert visited >= PAGES_MIN
