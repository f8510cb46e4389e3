"""Docstrings of modules and packages, and rules of the code that import-linter and ruff cannot check."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cluster.local import ROOT

PACKAGES = ("brokerd", "controlplane", "console", "pipeline", "weir", "weir_common")
MODULES = sorted(
    p
    for package in PACKAGES
    for p in (ROOT / package).rglob("*.py")
    if "migrations" not in p.parts and p.stat().st_size
)
CORES = (
    "brokerd/replication/partition.py",
    "brokerd/replication/fetch_client.py",
    "brokerd/coordinator/classic/group.py",
    "brokerd/coordinator/consumer/group.py",
    "controlplane/controller/core.py",
)
"""State machines without I/O: events in, effects out, a check of every invariant, and a plain description."""


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_the_layers_are_kept() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "0 broken" in done.stdout


class Module(NamedTuple):
    """The documentation of one file."""

    docstring: str | None
    docstrings: tuple[tuple[int, str], ...]
    """(line, text) of each docstring: of the module, and of classes, functions and attributes."""
    described_names: tuple[tuple[str, str], ...]
    """(name, docstring) of each constant and attribute that has a docstring."""


@cache
def read_module(path: Path) -> Module:
    """Parsed once, because each rule is one test per file."""
    tree = ast.parse(path.read_text())
    docstrings: list[tuple[int, str]] = []
    described: list[tuple[str, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            docstrings.append((node.lineno, node.value.value))
        body = getattr(node, "body", None)
        for statement, after in pairwise(body) if isinstance(body, list) else ():
            target = statement.targets[0] if isinstance(statement, ast.Assign) else getattr(statement, "target", None)
            if isinstance(target, ast.Name) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                described.append((target.id, str(after.value.value)))
    return Module(ast.get_docstring(tree), tuple(docstrings), tuple(described))


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_every_module_has_a_docstring(path: Path) -> None:
    docstring = read_module(path).docstring
    assert docstring is not None
    assert len(docstring) >= 25


@pytest.mark.parametrize(
    "path", [p for p in MODULES if p.name == "__init__.py" and p.parent.name != "commands"], ids=name
)
def test_a_package_says_what_it_contains_in_a_sentence(path: Path) -> None:
    docstring = read_module(path).docstring or ""
    assert len(docstring) >= 40 and docstring.rstrip().endswith(".")


@pytest.mark.parametrize("core", CORES)
def test_a_state_machine_has_the_common_interface(core: str) -> None:
    tree = ast.parse((ROOT / core).read_text())
    interfaces = [
        {f.name for f in node.body if isinstance(f, ast.FunctionDef)}
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    ]
    assert any({"handle", "validate", "describe"} <= interface for interface in interfaces)


def test_only_the_store_and_its_connections_import_kazoo() -> None:
    found = [name(p) for p in MODULES if re.search(r"^\s*(import|from) kazoo", p.read_text(), flags=re.M)]
    assert found == ["brokerd/cluster/zookeeper.py", "brokerd/cluster/zookeeper_connection.py"]


def test_a_broad_except_has_a_reason_beside_it() -> None:
    bare = []
    for path in MODULES:
        lines = path.read_text().splitlines()
        for i, line in enumerate(lines):
            if re.search(r"except (Base)?Exception\b|except:", line):
                around = "\n".join(lines[max(0, i - 2) : i + 3])
                if not re.search(r"#|log\.|raise|_log", around):
                    bare.append(f"{name(path)}:{i + 1}")
    assert bare == []


VAGUE_START = re.compile(r"(?:Of|What|Whether|How|When|Where|Who|Whose|Why|Which|That) ")
"""Words with which a fragment begins whose subject the reader has to guess."""


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_a_docstring_begins_with_a_noun_or_a_verb(path: Path) -> None:
    """`Return whether the log is empty`, not `Whether the log is empty`; `Time limit of each request`, not `Of each request`."""
    assert [
        f"{name(path)}:{line}: {text[:60]}" for line, text in read_module(path).docstrings if VAGUE_START.match(text)
    ] == []


LIMIT = re.compile(
    r"\b(maximum|limit(s|ed)?|at most|largest|longest|greatest|upper bound|bounds?|after which|up to|above|beyond|longer|larger|deeper|more|bits"
    r"|time-out|a year)\b",
    re.IGNORECASE,
)
"""Words that say that a value is a limit."""
LIMITS_WITHOUT_A_WORD = {
    "brokerd/wire/record_walk.py",  # a changed text makes the compiled module of an installation outdated
    "console/live_frames.py",
}


@pytest.mark.parametrize("path", [p for p in MODULES if name(p) not in LIMITS_WITHOUT_A_WORD], ids=name)
def test_the_docstring_of_a_limit_says_that_it_is_one(path: Path) -> None:
    """`Maximum number of bytes of one request`, not `Bytes of one request`."""
    described = read_module(path).described_names
    assert [(n, text) for n, text in described if n.endswith("_MAX") and not LIMIT.search(text)] == []


MODULE_REFERENCE = re.compile(rf"`((?:{'|'.join(PACKAGES)})(?:\.\w+)+)`")


def is_defined(reference: str) -> bool:
    """Whether `package.module.name` exists: the module, and the name in its text."""
    parts = reference.split(".")
    for n in range(len(parts), 0, -1):
        path = ROOT.joinpath(*parts[:n])
        module = path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py"
        if module.exists():
            return n == len(parts) or re.search(rf"\b{parts[n]}\b", module.read_text()) is not None
    return False


def test_modules_and_names_in_docstrings_exist() -> None:
    missing = [
        f"{name(path)}: {reference}"
        for path in MODULES
        for _, text in read_module(path).docstrings
        for reference in MODULE_REFERENCE.findall(text)
        if not reference.startswith("weir.") and not is_defined(reference)  # weir.* are mostly names of configs
    ]
    assert missing == []
