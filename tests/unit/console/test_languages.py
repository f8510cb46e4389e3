"""No page shows a text outside of the catalogues."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import pytest
from django.test import Client
from django.utils.translation import trans_real

from tests.unit.console.test_pages import PAGES

CHINESE = {"HTTP_ACCEPT_LANGUAGE": "zh-CN"}


class Bracketed:
    """A catalogue in which each text is its own translation, in brackets."""

    def gettext(self, text: str) -> str:
        return f"⟦{text}⟧"

    def ngettext(self, one: str, many: str, count: int) -> str:
        return f"⟦{one if count == 1 else many}⟧"

    def to_language(self) -> str:
        return "zh-hans"


@pytest.fixture
def bracketed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    from console import fragments

    fragments._chip.cache_clear()
    monkeypatch.setitem(trans_real._translations, "zh-hans", Bracketed())
    yield
    fragments._chip.cache_clear()


SKIPPED = {"script", "style", "code", "pre", "kbd", "time", "textarea", "option"}
SHOWN_ATTRIBUTES = ("title", "aria-label", "placeholder", "data-l", "data-caption", "alt")
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


class Shown(HTMLParser):
    """The texts of a page that a user reads: text nodes and attributes. `mono`, `name` and the like are data."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[tuple[str, bool]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        classes = set((named.get("class") or "").split())
        data = (
            tag in SKIPPED
            or bool(classes & {"mono", "name", "record", "curl"})
            or (named.get("lang") in ("en", "zh-hans") and tag == "button")
        )
        self.texts += [named[a] or "" for a in SHOWN_ATTRIBUTES if a in named and not (data and a == "title")]
        if tag not in VOID:
            self.open.append((tag, data))

    def handle_endtag(self, tag: str) -> None:
        while self.open:
            if self.open.pop()[0] == tag:
                return

    def handle_data(self, data: str) -> None:
        if not any(skip for _, skip in self.open):
            self.texts.append(data)


def outside(text: str) -> str:
    """The part of a text outside of brackets."""
    while (shorter := re.sub(r"⟦[^⟦⟧]*⟧", " ", text)) != text:
        text = shorter
    return " ".join(text.split())


KNOWN_LEFT_MAX = 480
"""Distinct texts outside of brackets on all pages: names of the scene, sentences that are stored with their figures, refusals, descriptions of topic
configs (GAPS.md). It only goes down."""


def test_no_more_texts_are_outside_of_the_catalogues(seeded: dict[str, Any], operator: Client, bracketed: None) -> None:
    left: dict[str, str] = {}
    for address in PAGES:
        shown = Shown()
        shown.feed(operator.get(address, **CHINESE).content.decode())
        left |= {rest: address for text in shown.texts if re.search(r"[A-Za-z]{2}", rest := outside(text))}
    assert len(left) <= KNOWN_LEFT_MAX, sorted(left.items())
