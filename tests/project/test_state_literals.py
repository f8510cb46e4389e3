"""States, kinds and verbs are compared with members of enums, not with string literals: a misspelt literal is never equal, and nothing reports it.

A template has no enums. It reads a property of the row, for example `move.is_paused`, which compares."""

from __future__ import annotations

import ast
import re

from django.template.base import Lexer, TokenType

from tests.cluster.local import ROOT
from tests.project.test_structure import product_files

PACKAGES = ("console", "controlplane")
NAMES = {
    "baseline",
    "cause",
    "health",
    "importance",
    "kind",
    "mode",
    "origin",
    "outcome",
    "severity",
    "source",
    "state",
    "status",
    "verb",
}
"""Attributes and variables whose values are members of an enum. Weir's enums are in `controlplane.domain`, which the console may import."""
TEMPLATE_NAMES = {
    "panels": "ids of elements of the same template",
    "tab": "tabs of a page, which the template lists with their texts and addresses",
    "page.sort": "a column of the table of the same template",
    "classes": "CSS classes of a component",
    "e.name": "URL names of the navigation, two of which have a number",
    "method": "an HTTP method",
    "language": "a language code",
    "message.tags": "a slash: the tag is an address",
}
"""Names that a template compares with literals, and what their values are. None is a state of an object."""

FLAG = re.compile(r"\.((?:awaits|can|counts|has|is|lake|needs|waits)_\w+)")
"""Attributes that are true or false."""


def is_state(node: ast.AST) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name in NAMES


def has_literal(node: ast.AST) -> bool:
    """Whether the node is a text, or a tuple, list or set that contains one. The empty text means that there is no value."""
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return any(map(has_literal, node.elts))
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value != ""


def compared_literals(source: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            states = sides[:1] if isinstance(node.ops[0], ast.In | ast.NotIn) else sides
            if any(map(is_state, states)) and any(map(has_literal, sides)):
                found.append(f"{node.lineno} {ast.unparse(node)}")
        elif isinstance(node, ast.Match) and is_state(node.subject):
            patterns = [p for case in node.cases for p in ast.walk(case.pattern)]
            found += [
                f"{p.lineno} case {ast.unparse(p)}"
                for p in patterns
                if isinstance(p, ast.MatchValue) and has_literal(p.value)
            ]
    return found


def template_comparisons(source: str) -> list[tuple[int, str, str]]:
    """(line, name, comparison) of each comparison with a text that is not empty."""
    found = []
    for token in Lexer(source).tokenize():
        words = token.split_contents() if token.token_type is TokenType.BLOCK else []
        if words[:1] not in (["if"], ["elif"]):
            continue
        for place, operator in enumerate(words):
            if operator in ("==", "!=", "in"):
                left = place - 2 if words[place - 1] == "not" else place - 1
                names = [word for word in (words[left], words[place + 1]) if word[0] not in "\"'"]
                if len(names) < 2 and '""' not in words[left : place + 2]:
                    found.append((token.lineno or 0, "".join(names), " ".join(words[left : place + 2])))
    return found


def test_no_state_is_compared_with_a_literal() -> None:
    files = [path for path in product_files() if path.parts[0] in PACKAGES]
    assert len(files) > 300
    found = [f"{path}:{text}" for path in files for text in compared_literals((ROOT / path).read_text())]
    assert found == [], "compare with the member of an enum"


def test_no_template_compares_a_state_with_a_literal() -> None:
    templates = sorted((ROOT / "templates").rglob("*.html"))
    assert len(templates) > 150
    found = [(path.name, *c) for path in templates for c in template_comparisons(path.read_text())]
    assert [c for c in found if c[2] not in TEMPLATE_NAMES] == [], "use a property of the row"
    assert {c[2] for c in found} == set(TEMPLATE_NAMES), "names that no template compares any more"


def defined_attributes() -> set[str]:
    """Names of the methods, properties and fields of classes."""
    found = set()
    for path in product_files():
        if path.parts[0] in (*PACKAGES, "weir_common"):
            for node in ast.walk(ast.parse((ROOT / path).read_text())):
                if isinstance(node, ast.ClassDef):
                    found |= {f.name for f in node.body if isinstance(f, ast.FunctionDef)}
                    found |= {
                        f.target.id
                        for f in node.body
                        if isinstance(f, ast.AnnAssign) and isinstance(f.target, ast.Name)
                    }
    return found


def test_flags_of_templates_exist() -> None:
    """A missing attribute is false in a template, and nothing reports it."""
    tags = [
        (path.name, token.contents)
        for path in sorted((ROOT / "templates").rglob("*.html"))
        for token in Lexer(path.read_text()).tokenize()
        if token.token_type is TokenType.BLOCK and token.contents.startswith(("if ", "elif "))
    ]
    used = {(name, flag) for name, text in tags for flag in FLAG.findall(text)}
    assert len(used) > 50
    defined = defined_attributes()
    assert sorted((name, flag) for name, flag in used if flag not in defined) == []


def test_the_comparisons_of_templates_that_are_found() -> None:
    source = """
{% if row.state == "failed" and row.kind != other %}{% elif 'paused' == m.state %}{% endif %}
<c-note tone="{% if d.severity == 'at_risk' %}red{% endif %}">
{% if "retention" not in waits %}{% endif %}{% if of == "a b" or n > 2 or word == "" or broker == id|stringformat:"d" %}{% endif %}
{% include "x.html" with state="failed" %}{# if state == "failed" #}
"""
    assert template_comparisons(source) == [
        (2, "row.state", 'row.state == "failed"'),
        (2, "m.state", "'paused' == m.state"),
        (3, "d.severity", "d.severity == 'at_risk'"),
        (4, "waits", '"retention" not in waits'),
        (4, "of", 'of == "a b"'),
    ]


def test_the_comparisons_that_are_found() -> None:
    source = """
row.state == "failed"
verb in ("cancel", "pause")
"done" != part.state
match kind:
    case "topic":
        pass
row.state == MoveState.FAILED
row.state in ("", other)
"null" in kind
request.method == "POST"
match json_type:
    case "array":
        pass
"""
    assert sorted(compared_literals(source)) == [
        "2 row.state == 'failed'",
        "3 verb in ('cancel', 'pause')",
        "4 'done' != part.state",
        "6 case 'topic'",
    ]
