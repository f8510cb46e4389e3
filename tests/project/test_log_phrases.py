"""The product logs every phrase of tests/log_phrases.py. Other test files do not repeat a phrase."""

from __future__ import annotations

import ast

import pytest

from tests import log_phrases
from tests.cluster.local import ROOT
from tests.project.test_structure import product_files

PHRASES = {name: text for name, text in vars(log_phrases).items() if name.isupper()}
RUNNING = ("cluster", "faults", "upgrade")
"""Directories of tests that read the logs of processes."""


def strings(source: str) -> list[str]:
    """String constants outside docstrings, the constant parts of f-strings included."""
    tree = ast.parse(source)
    alone = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)}
    return [
        n.value
        for n in ast.walk(tree)
        if isinstance(n, ast.Constant) and isinstance(n.value, str) and id(n) not in alone
    ]


@pytest.fixture(scope="module")
def logged_strings() -> str:
    return "\n".join(s for path in product_files() for s in strings((ROOT / path).read_text()))


@pytest.mark.parametrize("name", PHRASES)
def test_the_product_logs_the_phrase(name: str, logged_strings: str) -> None:
    assert PHRASES[name] in logged_strings


@pytest.mark.parametrize("name", PHRASES)
def test_no_test_of_processes_repeats_the_phrase(name: str) -> None:
    files = [path for folder in RUNNING for path in (ROOT / "tests" / folder).rglob("*.py")]
    assert len(files) > 30
    repeated = [str(path) for path in files if any(PHRASES[name] in s for s in strings(path.read_text()))]
    assert repeated == []
