"""No page shows a text outside of the catalogues. Elements with data of users have lang="", and the few texts that stay English have lang="en"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone, translation
from django.utils.translation import trans_real

from controlplane.models import Cluster
from tests.cluster.local import ROOT
from tests.project import catalogs
from tests.unit.console.test_pages import PAGES

TEMPLATES = ROOT / "templates"
CHINESE = {"HTTP_ACCEPT_LANGUAGE": "zh-CN"}


class BracketedTranslations:
    """The Chinese catalogue with each text as its own translation, in brackets. A text that the catalogue does not have is not in brackets."""

    def __init__(self) -> None:
        texts = catalogs.translations(catalogs.read("zh_Hans", "django"))
        self.known = {form for text in texts for form in (text.singular, text.plural)}

    def gettext(self, text: str) -> str:
        return f"⟦{text}⟧" if text in self.known else text

    def ngettext(self, one: str, many: str, count: int) -> str:
        return self.gettext(one if count == 1 else many)

    def to_language(self) -> str:
        return "zh-hans"


def forget_rendered_parts() -> None:
    """Empties the caches of cells and fragments, which are kept by language."""
    from console import cells, fragments

    for module in (cells, fragments):
        for value in vars(module).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()


@pytest.fixture
def bracketed_translations(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    forget_rendered_parts()
    monkeypatch.setitem(trans_real._translations, "zh-hans", BracketedTranslations())
    yield
    translation.activate("en")  # a request leaves its language active in this thread
    forget_rendered_parts()


ENGLISH = {
    "console/change.html": 1,
    "console/moves.html": 1,
    "console/parts/changes_table.html": 1,
    "console/parts/lookup_progress.html": 1,
    "console/permissions.html": 2,
    "console/zookeeper.html": 1,
}
"""Elements with lang="en" in a template. Their texts are English in each language: details of the audit log, which is a record of what was done, ACL operations,
and errors that a broker, Spark, DuckDB or the operating system reports."""
SKIPPED = {"script", "style", "code", "pre", "kbd", "time", "textarea", "option"}
SHOWN_ATTRIBUTES = ("title", "aria-label", "placeholder", "data-l", "data-caption", "alt")
DATA_CLASSES = {"mono", "name", "record", "curl", "long"}
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
BREAK = "\x1f"
SENTENCE = re.compile(r"[A-Za-z]{2,},? [a-z]{2,}|^[A-Z][a-z]{2,}$")
"""Words in a row, or one word with a capital. Names of the scene are single words without capitals."""


class VisibleText(HTMLParser):
    """The visible text of a page: the text in one line, with BREAK between its nodes, and attributes. Elements with the classes of data or with a language
    of their own are left out."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[tuple[str, bool]] = []
        self.text = ""
        self.attributes: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        classes = set((named.get("class") or "").split())
        # lang="": a text of a user, in an unknown language. lang="en": see ENGLISH. The buttons of the languages have their own.
        data = tag in SKIPPED or bool(classes & DATA_CLASSES) or (tag != "html" and "lang" in named)
        self.attributes += [named[a] or "" for a in SHOWN_ATTRIBUTES if a in named and not (data and a == "title")]
        if tag not in VOID:
            self.open.append((tag, data))

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        if not any(hidden for _, hidden in self.open):
            self.text += BREAK + data


def untranslated_texts(page: str) -> set[str]:
    """The texts of a page outside of brackets that look like a sentence or a label."""
    shown = VisibleText()
    shown.feed(page)
    pieces = [piece for text in (shown.text, *shown.attributes) for piece in text_outside_brackets(text).split(BREAK)]
    return {text for piece in pieces if SENTENCE.search(text := " ".join(piece.split()))}


def text_outside_brackets(text: str) -> str:
    while (shorter := re.sub(r"⟦[^⟦⟧]*⟧", BREAK, text)) != text:
        text = shorter
    return text


DATA = {"Weir", "User", "Group"}


def test_a_text_outside_of_brackets_is_found() -> None:
    page = '<p title="⟦Age⟧">⟦There is <b>no</b> page⟧ orders-1</p><p title="Not translated">⟦x⟧</p><code>a word</code><dt>Name</dt>'
    assert untranslated_texts(page) == {"Not translated", "Name"}
    assert untranslated_texts(
        '<html lang="zh"><p lang="">disk is old</p><p lang="en" title="Not found">Not found</p><p>Not found'
    ) == {"Not found"}


def test_few_elements_are_english_in_each_language() -> None:
    found = {
        str(path.relative_to(TEMPLATES)): count
        for path in TEMPLATES.rglob("*.html")
        if (count := path.read_text().count('lang="en"'))
    }
    assert found == ENGLISH


def test_no_text_is_outside_of_the_catalogues(
    seeded_cluster: dict[str, Any], operator: Client, bracketed_translations: None
) -> None:
    found: dict[str, str] = {}
    for address in PAGES:
        # On a slow machine the data of the scene would become old, and the pages would say so.
        Cluster.objects.update(observed_at=timezone.now())
        found |= dict.fromkeys(untranslated_texts(operator.get(address, **CHINESE).content.decode()) - DATA, address)
    assert not found, sorted(found.items())
