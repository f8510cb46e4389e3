"""States, kinds and verbs are compared with members of enums, not with string literals: a misspelt literal is never equal, and nothing reports it."""

from __future__ import annotations

import ast

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


def test_no_state_is_compared_with_a_literal() -> None:
    files = [path for path in product_files() if path.parts[0] in PACKAGES]
    assert len(files) > 300
    found = [f"{path}:{text}" for path in files for text in compared_literals((ROOT / path).read_text())]
    assert found == [], "compare with the member of an enum"


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
