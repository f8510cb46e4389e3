"""`Any` in product code: the number of lines with it may only fall."""

from __future__ import annotations

import ast

import pytest

from tests.cluster.local import ROOT
from tests.project.test_structure import product_files

LINES_MAX = {
    "brokerd": 117,
    "console": 14,
    "controlplane": 118,
    "pipeline": 28,
    "weir": 27,
    "weir_common": 21,
}
"""Lines with `Any` per package. Lower a number after a change that removes some."""
SLACK = 10

INSTEAD = (
    "Describe the value: a dataclass or TypedDict for a shape of our own, `weir_common.json_values.Json` for JSON, `object` for a value that is only "
    "passed on, the class of the library under TYPE_CHECKING, `Unpack[TypedDict]` for keyword arguments."
)


def lines_with_any(source: str) -> set[int]:
    """The numbers of the lines that use `Any`, without its import, comments and docstrings."""
    names = {n.lineno for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Name) and n.id == "Any"}
    texts = {
        n.lineno
        for n in ast.walk(ast.parse(source))
        if isinstance(n, ast.Constant) and isinstance(n.value, str) and "[Any" in n.value and "\n" not in n.value
    }
    return names | texts


def count(package: str) -> int:
    files = [path for path in product_files() if path.parts[0] == package]
    return sum(len(lines_with_any((ROOT / path).read_text())) for path in files)


def test_lines_are_counted_once_and_without_imports() -> None:
    source = (
        "from typing import Any\n"
        "def read(a: Any, b: Any) -> int: ...\n"
        'rows: "list[Any]" = []\n'
        "x: dict[str, Any]\n"
        "# Any\n"
        '"""Any."""'
    )
    assert lines_with_any(source) == {2, 3, 4}


@pytest.mark.parametrize("package", LINES_MAX)
def test_a_package_has_no_more_lines_with_any(package: str) -> None:
    found, most = count(package), LINES_MAX[package]
    assert found <= most, f"{found} lines of {package} use `Any`; at most {most} may. {INSTEAD}"
    assert most - found <= SLACK, (
        f"{found} lines of {package} use `Any`, fewer than {most}: lower the number here, so that it stays."
    )


def test_every_package_has_a_limit() -> None:
    assert {path.parts[0] for path in product_files()} == set(LINES_MAX)
