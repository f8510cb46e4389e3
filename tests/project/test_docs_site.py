"""The documents render as a site without a broken link, and nothing is left out of its navigation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.cluster.local import ROOT
from tests.project.docs_site import build


def test_the_site_is_built_without_a_broken_link(tmp_path: Path) -> None:
    done = build(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "index.html").exists() and (tmp_path / "docs" / "decisions" / "index.html").exists()


@pytest.mark.parametrize("link", ["nowhere.md", "docs/flows.md#no-such-section"])
def test_a_broken_link_is_an_error(tmp_path: Path, link: str) -> None:
    done = build(tmp_path, {"broken.md": f"[text]({link})\n"})
    assert done.returncode != 0 and "broken.md" in done.stderr


def test_the_navigation_has_every_document_but_single_decisions() -> None:
    named = set(re.findall(r"[\w./-]+\.md", yaml.safe_dump(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])))
    pages = {str(p.relative_to(ROOT)) for p in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]}
    assert named == {p for p in pages if not re.fullmatch(r"docs/decisions/\d{3}-.*", p)}


def test_the_index_of_decisions_has_each_title() -> None:
    index = (ROOT / "docs" / "decisions" / "README.md").read_text()
    rows = re.findall(r"^\| \[(\d{3})\]\(([\w-]+\.md)\) \| (.+) \|$", index, flags=re.M)
    records = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    assert [f"# {number}. {title}" for number, _, title in rows] == [p.read_text().split("\n", 1)[0] for p in records]
    assert [name for _, name, _ in rows] == [p.name for p in records]
