"""Every page of the console has a screenshot."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from django.test import Client
from django.urls import resolve, reverse

from console.urls import urlpatterns
from tests.browser.pages import NOT_PAGES, PAGES, WITHOUT_LOGIN
from tests.browser.screenshots import LANGUAGES, SCALES, THEMES, WIDTHS, pictures

VALUES: dict[str, Any] = {"language": "zh-hans", "topic_id": "00000000-0000-0000-0000-000000000001", "kind": "archive"}
PAIRS = list(itertools.product(LANGUAGES, THEMES, WIDTHS))


def missing(names: set[str], addresses: list[str]) -> set[str]:
    """URL names that no address opens."""
    return names - {str(resolve(a.partition("?")[0]).url_name) for a in addresses}


def test_every_url_of_the_console_has_a_picture_or_is_no_page() -> None:
    names = {str(p.name) for p in urlpatterns}
    addresses = [*PAGES.values(), *WITHOUT_LOGIN.values()]
    assert missing(names - NOT_PAGES, addresses) == set(), "add them to tests/browser/pages.py"
    assert names >= NOT_PAGES and missing(set(NOT_PAGES), addresses) == NOT_PAGES
    assert missing({"overview", "a-new-page"}, addresses) == {"a-new-page"}


def test_each_page_is_taken_in_each_language_theme_and_width() -> None:
    taken = list(pictures(["overview", "topics"]))
    assert len(taken) == len({p.path for p in taken}) == 2 * len(PAIRS) == 24
    assert set(SCALES) == set(WIDTHS)


@pytest.mark.parametrize("name", sorted(NOT_PAGES))
def test_a_view_without_a_screenshot_is_not_a_page(seeded: dict[str, Any], operator: Client, name: str) -> None:
    pattern = next(p for p in urlpatterns if p.name == name)
    values = {n: VALUES.get(n, 1 if "Int" in type(c).__name__ else "x") for n, c in pattern.pattern.converters.items()}
    answer = operator.get(reverse(name, kwargs=values))
    assert not (answer.status_code == 200 and "<main" in answer.content.decode()), name
