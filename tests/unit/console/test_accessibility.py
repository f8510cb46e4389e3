"""Accessibility of every page by rules: one level-1 heading, no skipped level, labelled fields, named buttons and columns, a skip link."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import pytest
from django.test import Client

from tests.unit.console.test_pages import PAGES

NAMED = {"a", "button", "th", "h1", "h2", "h3", "summary"}


class Outline(HTMLParser):
    """Headings, fields without a label, and elements without a name."""

    def __init__(self) -> None:
        super().__init__()
        self.headings: list[int] = []
        self.labels: set[str] = set()
        self.fields: list[tuple[bool, str]] = []
        self.skip = False
        self.nameless: list[str] = []
        self._open: list[tuple[str, list[str]]] = []
        self._labels_open = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if tag in ("h1", "h2", "h3"):
            self.headings.append(int(tag[1]))
        if tag == "label":
            self.labels.add(found.get("for", ""))
            self._labels_open += 1
        if tag in ("input", "select", "textarea") and found.get("type") not in ("hidden", "submit"):
            self.fields.append((self._labels_open > 0 or "aria-label" in found, found.get("id", "")))
        if found.get("href") == "#main":
            self.skip = True
        if tag in NAMED and "hidden" not in found:
            self._open.append((tag, [found.get("aria-label", "")]))
        if tag == "input" and self._open:
            self._open[-1][1].append(found.get("aria-label", ""))

    def handle_data(self, data: str) -> None:
        for _, texts in self._open:
            texts.append(data.strip())

    def handle_endtag(self, tag: str) -> None:
        if tag == "label":
            self._labels_open -= 1
        if self._open and self._open[-1][0] == tag:
            _, texts = self._open.pop()
            if not any(texts):
                self.nameless.append(tag)


@pytest.mark.parametrize("address", PAGES)
def test_a_page_can_be_used_with_a_screen_reader(
    seeded_cluster: dict[str, Any], operator: Client, address: str
) -> None:
    outline = Outline()
    outline.feed(operator.get(address).content.decode())
    assert outline.headings.count(1) == 1
    steps = zip(outline.headings, outline.headings[1:], strict=False)
    assert all(after <= before + 1 for before, after in steps), outline.headings
    assert [name for labelled, name in outline.fields if not labelled and name not in outline.labels] == []
    assert outline.nameless == []
    assert outline.skip
