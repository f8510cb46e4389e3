"""The choice between the Python source of the walk and its compiled module."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from brokerd.wire import record_walk, record_walks, records
from tests.unit.storage.test_batch_validation import Raw, batch


def test_the_compiled_walk_is_used_for_batches_where_it_was_built() -> None:
    assert (record_walks.walk is not record_walk.walk) == record_walks.COMPILED
    assert (record_walks.compiled() is not None) == record_walks.COMPILED
    assert (record_walks.RUNS is None) == record_walks.COMPILED
    ((_, header),) = records.check(batch(Raw()))
    assert header.record_count == 1


def test_a_compiled_walk_of_another_source_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"{record_walks.__package__}.{record_walks.COMPILED_NAME}"
    mine = SimpleNamespace(SOURCE_DIGEST=record_walks.source_digest())
    for found, used in ((mine, mine), (SimpleNamespace(SOURCE_DIGEST="0" * 64), None), (None, None)):
        monkeypatch.setitem(sys.modules, name, found)  # type: ignore[arg-type]
        assert record_walks.compiled() is used


def test_without_a_compiled_module_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, error in (("missing", ImportError()), ("no digest", AttributeError())):

        def fails(module: str, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr(record_walks.importlib, "import_module", fails)
        assert record_walks.compiled() is None, name
