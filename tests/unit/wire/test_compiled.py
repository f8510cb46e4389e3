"""The choice of a compiled module: only one that was compiled from the current source."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

from brokerd.wire import compiled, key_walk, record_decode, record_walk


@pytest.mark.parametrize("source", [record_walk, record_decode, key_walk])
def test_a_module_compiled_from_another_source_is_not_used(source: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"{compiled.__package__}.{compiled.compiled_name(source)}"
    mine = SimpleNamespace(SOURCE_DIGEST=compiled.source_digest(source))
    for found, used in ((mine, mine), (SimpleNamespace(SOURCE_DIGEST="0" * 64), None), (None, None)):
        monkeypatch.setitem(sys.modules, name, found)  # type: ignore[arg-type]
        assert compiled.find_compiled(source) is used


def test_without_a_compiled_module_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, error in (("missing", ImportError()), ("no digest", AttributeError())):

        def raise_error(module: str, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr(compiled.importlib, "import_module", raise_error)
        assert compiled.find_compiled(record_walk) is None, name
