"""The list of compiled modules: only existing modules, and none that the simulation or a generated class needs as Python source."""

from __future__ import annotations

import ast
from pathlib import Path

from brokerd.compiled.importer import ROOT
from brokerd.compiled.modules import MODULES


def source(name: str) -> Path:
    return ROOT / f"{name.replace('.', '/')}.py"


def test_each_module_exists_and_is_listed_once() -> None:
    assert [name for name in MODULES if not source(name).exists()] == []
    assert sorted(set(MODULES)) == list(MODULES)


def test_modules_that_the_simulation_replaces_are_not_listed() -> None:
    assert not {
        "brokerd.net.loop",
        "brokerd.net.connection",
        "brokerd.net.peers",
        "brokerd.storage.disk",
        "brokerd.storage.os_disk",
    } & {*MODULES}


def test_a_function_uses_a_name_for_exceptions_of_one_type_only() -> None:
    """mypyc gives a variable the type of its first assignment, also after `except ... as`: a second type raises TypeError."""
    reused = []
    for module in MODULES:
        for function in ast.walk(ast.parse(source(module).read_text())):
            if not isinstance(function, ast.FunctionDef):
                continue
            types: dict[str, set[str]] = {}
            for handler in ast.walk(function):
                if isinstance(handler, ast.ExceptHandler) and handler.name and handler.type:
                    types.setdefault(handler.name, set()).add(ast.unparse(handler.type))
            reused += [f"{module}.{function.name}: {name}" for name, found in types.items() if len(found) > 1]
    assert not reused


def test_worlds_replace_nothing_in_the_compiled_delivery() -> None:
    """Compiled callers would not see the replacement: times and limits are arguments (decision 110). Mutations in `test_*.py` run on the sources."""
    replaced = []
    delivery = {name for name in MODULES if name.startswith("brokerd.delivery.")}
    for path in sorted((ROOT / "tests/simulation").glob("*.py")):
        tree = ast.parse(path.read_text())
        imported = {
            alias.asname or alias.name: (f"{node.module}.{alias.name}", node.module)
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        for node in ast.walk(tree):
            targets: list[ast.expr] = []
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("patch.object", "setattr"):
                targets = node.args[:1]
            elif isinstance(node, ast.Assign):
                targets = [t.value for t in node.targets if isinstance(t, ast.Attribute)]
            names = [t.id for t in targets if isinstance(t, ast.Name)]
            replaced += [f"{path.name}: {name}" for name in names if {*imported.get(name, ())} & delivery]
    assert delivery and not replaced
