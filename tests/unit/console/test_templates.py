"""Form of the templates: short lines, one table cell per line, standard words, declared attributes of components."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cluster.local import ROOT

CHARS_MAX = 160
PRIVATE_WORDS = re.compile(
    r"\b(anew|by itself|by themselves|for want of|onlooker|placed anew|the house|told|whoever|mend(ed|s)?|is come to|lies? (in|on))\b",
    re.IGNORECASE,
)
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))


def lines(template: Path) -> list[tuple[int, str]]:
    return list(enumerate(template.read_text().splitlines(), 1))


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_a_template_can_be_read_and_reviewed_line_by_line(template: Path) -> None:
    long = [(number, len(line)) for number, line in lines(template) if len(line) > CHARS_MAX]
    assert not long, f"(line, characters) above {CHARS_MAX}: {long}"
    crowded = [number for number, line in lines(template) if line.count("<td") > 1]
    assert not crowded, f"lines with several table cells: {crowded}"


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_a_template_uses_standard_words(template: Path) -> None:
    found = [(number, match.group()) for number, line in lines(template) for match in PRIVATE_WORDS.finditer(line)]
    assert not found


def test_the_templates_are_found() -> None:
    assert len(TEMPLATES) > 50


COMPONENTS = {p.stem.replace("_", "-"): p for p in (ROOT / "templates" / "cotton").glob("*.html")}
TAG = re.compile(r"<c-([a-z-]+)((?:\s+:?[\w-]+(?:=\"[^\"]*\"|='[^']*')?)*)\s*/?>")
ATTRIBUTE = re.compile(r"\s:?([\w-]+)(?==|\s|$)(?:=(?:\"[^\"]*\"|'[^']*'))?")


def attributes(component: Path) -> tuple[set[str], set[str]]:
    """The declared attributes of a component, and those without a default."""
    declaration = re.search(r"<c-vars(.*?)/>", component.read_text())
    assert declaration, f"{component.name} declares no attributes"
    names = set(ATTRIBUTE.findall(declaration.group(1)))
    optional = set(re.findall(r"([\w-]+)=", declaration.group(1)))
    return names, names - optional


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_components_get_the_attributes_that_they_declare(template: Path) -> None:
    """django-cotton ignores an unknown attribute and leaves a missing one empty."""
    text = re.sub(r"{% comment %}.*?{% endcomment %}", "", template.read_text(), flags=re.DOTALL)
    tags = [(m.group(1), set(ATTRIBUTE.findall(m.group(2))), m.group(2)) for m in TAG.finditer(text)]
    assert len(tags) == len(re.findall(r"<c-[a-z]", text)), "a component tag that this test cannot read"
    for name, given, _ in tags:
        if name in ("vars", "slot"):
            continue
        declared, required = attributes(COMPONENTS[name])
        slots = set(re.findall(r'<c-slot name="(\w+)"', text))
        assert given <= declared, f"<c-{name}>: unknown {given - declared}"
        assert required <= given | slots, f"<c-{name}>: missing {required - given}"


def test_the_description_of_each_component_is_its_first_line() -> None:
    assert len(COMPONENTS) >= 10
    assert [p.name for p in COMPONENTS.values() if not p.read_text().startswith("{% comment %}")] == []
