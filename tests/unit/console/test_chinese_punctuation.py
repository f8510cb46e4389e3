"""Chinese pages have full-width punctuation: no half-width comma or colon beside a Chinese word, no space after a full-width mark."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

from django.test import Client
from django.utils import timezone

from controlplane.models import Cluster
from tests.project import catalogs
from tests.unit.console.test_languages import CHINESE, SHOWN_ATTRIBUTES, SKIPPED
from tests.unit.console.test_pages import PAGES

INLINE = {"a", "abbr", "b", "code", "em", "i", "small", "span", "strong", "time"}
BOXES = {"alerts-now", "button", "go"}
"""Classes of inline elements with a margin."""
DATA = "\ufffc"
"""Stands for the text of an element with data of users, or of an English text."""
WORD = r"[\u3400-\u9fff]"
WRONG = re.compile(rf"{WORD}[,;:](?!\S*//)|[,;]\s*{WORD}|: {WORD}|[。，；：、！？] +(?=[^\s·])|{WORD} [，。；：、]")
AROUND = 30


class RunsOfText(HTMLParser):
    """The texts of a page: each run of text without an element that begins a new line or box, and attributes that are shown."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[tuple[str, bool, bool]] = []
        self.runs = [""]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        classes = set((named.get("class") or "").split())
        if tag not in INLINE or classes & BOXES or (self.open and self.open[-1][2]):
            self.runs.append("")
        hidden = tag in SKIPPED - {"code", "time"} or (tag != "html" and "lang" in named)
        self.runs[-1:-1] = [named[a] or "" for a in SHOWN_ATTRIBUTES if a in named]
        if tag not in {
            "br",
            "hr",
            "img",
            "input",
            "link",
            "meta",
            "source",
            "wbr",
            "path",
            "circle",
            "line",
            "rect",
            "use",
        }:
            self.open.append((tag, hidden, tag in {"header", "nav"} or "head" in classes))

    def handle_endtag(self, tag: str) -> None:
        if tag not in INLINE:
            self.runs.append("")
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        self.runs[-1] += DATA if any(hidden for _, hidden, _ in self.open) else data


def wrong_punctuation(page: str) -> set[str]:
    """Each place with wrong punctuation, with some characters on both sides."""
    found = RunsOfText()
    found.feed(page)
    runs = (" ".join(run.split()) for run in found.runs)
    return {run[max(0, m.start() - AROUND) : m.end() + AROUND] for run in runs for m in WRONG.finditer(run)}


def test_wrong_punctuation_is_found() -> None:
    assert wrong_punctuation("<p>一, 二</p><p>一: 二</p><p>一。\n <b>二</b></p>") == {"一, 二", "一: 二", "一。 二"}
    assert not wrong_punctuation("<p>一、a, b：二。</p><p lang=''>一, 二</p><p>一。</p> <p>二</p>")


def test_chinese_pages_have_full_width_punctuation(seeded_cluster: dict[str, Any], operator: Client) -> None:
    found: dict[str, str] = {}
    for address in PAGES:
        Cluster.objects.update(observed_at=timezone.now())
        found |= dict.fromkeys(wrong_punctuation(operator.get(address, **CHINESE).content.decode()), address)
    assert not found, "\n".join(f"{address}: {place}" for place, address in sorted(found.items()))


def test_descriptions_of_the_rest_api_have_full_width_punctuation() -> None:
    texts = [string for (string,) in catalogs.translations(catalogs.read("zh_Hans", "rest")).values()]
    assert texts and not [text for text in texts if WRONG.search(text)]
