"""Kafka's error codes are declared in `brokerd.wire.errors.ErrorCode` only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from brokerd.wire.errors import ErrorCode
from tests.cluster.local import ROOT


def _constants(path: Path) -> Iterator[tuple[str, int]]:
    """The integers that a module assigns to names at its top level, also by unpacking a tuple."""
    for node in ast.parse(path.read_text()).body:
        if not isinstance(node, ast.Assign) or isinstance(node.targets[0], ast.Attribute | ast.Subscript):
            continue
        target, value = node.targets[0], node.value
        names = target.elts if isinstance(target, ast.Tuple) else [target]
        values = value.elts if isinstance(value, ast.Tuple) else [value]
        for name, number in zip(names, values, strict=False):
            if isinstance(name, ast.Name) and isinstance(number, ast.Constant) and isinstance(number.value, int):
                yield name.id.removeprefix("ERROR_"), number.value


@pytest.mark.parametrize("package", ["brokerd", "controlplane", "console", "pipeline", "weir"])
def test_no_module_declares_an_error_code_again(package: str) -> None:
    codes = {code.name: code.value for code in ErrorCode if code is not ErrorCode.NONE}
    again = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in (ROOT / package).rglob("*.py")
        for name, value in _constants(path)
        if codes.get(name) == value
    ]
    assert again == []
