"""The floors and the door signs. import-linter holds the imports (also in `make check`); this holds what it cannot see."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.local import ROOT

PACKAGES = ("brokerd", "controlplane", "console", "pipeline")
MODULES = sorted(
    p
    for package in PACKAGES
    for p in (ROOT / package).rglob("*.py")
    if "migrations" not in p.parts and p.stat().st_size
)
CORES = (
    "brokerd/partition.py",
    "brokerd/replication.py",
    "brokerd/coordinator/group.py",
    "brokerd/coordinator/consumer_group.py",
    "controlplane/controller/core.py",
)
"""Sans-IO: events in, effects out, an own check of every invariant, and a plain description."""


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_the_floors_hold() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "0 broken" in done.stdout


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_every_module_has_a_door_sign(path: Path) -> None:
    sign = ast.get_docstring(ast.parse(path.read_text()))
    assert sign is not None
    assert len(sign) >= 25


@pytest.mark.parametrize("path", [p for p in MODULES if p.name == "__init__.py"], ids=name)
def test_the_sign_of_a_package_states_its_law(path: Path) -> None:
    sign = ast.get_docstring(ast.parse(path.read_text())) or ""
    assert re.search(r"\bLaws?\b|Must not come in|ARCHITECTURE", sign)


@pytest.mark.parametrize("core", CORES)
def test_a_core_shows_the_one_face(core: str) -> None:
    tree = ast.parse((ROOT / core).read_text())
    faces = [
        {f.name for f in node.body if isinstance(f, ast.FunctionDef)}
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    ]
    assert any({"handle", "validate", "describe"} <= face for face in faces)


def test_only_one_file_imports_kazoo() -> None:
    found = [name(p) for p in MODULES if re.search(r"^\s*(import|from) kazoo", p.read_text(), flags=re.M)]
    assert found == ["brokerd/cluster/zookeeper.py"]


def test_a_broad_except_stands_only_where_a_reason_stands_beside_it() -> None:
    bare = []
    for path in MODULES:
        lines = path.read_text().splitlines()
        for i, line in enumerate(lines):
            if re.search(r"except (Base)?Exception\b|except:", line):
                around = "\n".join(lines[max(0, i - 2) : i + 3])
                if not re.search(r"#|log\.|raise|_log", around):
                    bare.append(f"{name(path)}:{i + 1}")
    assert bare == []
