"""Sentences for people are texts with placeholders, so that the console can show them in another language (`weir_common.phrases`)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.cluster.local import ROOT

FOLDERS = ("console", "controlplane/selectors", "controlplane/services")
CALLS = {"AlreadyExists", "MissingPartition", "PermissionDenied", "Rejected", "LeaderProblem", "reject"}
"""Calls whose first text argument a page shows."""


def formatted_calls(source: str) -> Iterator[int]:
    """Lines of calls that get an f-string with several words."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name in CALLS and any(isinstance(a, ast.JoinedStr) and _is_text(a) for a in node.args):
            yield node.lineno


def _is_text(value: ast.JoinedStr) -> bool:
    words = " ".join(str(v.value) for v in value.values if isinstance(v, ast.Constant)).split()
    return len(words) > 1


def test_no_reason_that_a_page_shows_is_an_f_string() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for folder in FOLDERS
        for path in sorted(Path(ROOT, folder).rglob("*.py"))
        for line in formatted_calls(path.read_text())
    ]
    assert found == []


def test_an_f_string_is_found() -> None:
    assert list(formatted_calls('raise Rejected(f"Move {pk} does not exist.", "move")')) == [1]
    assert list(formatted_calls('LeaderProblem(f"Its leader rejected it: {e}.")')) == [1]
    assert (
        list(formatted_calls('raise Rejected(sentence("Move {pk} does not exist.", pk=pk), f"configs.{name}")')) == []
    )
