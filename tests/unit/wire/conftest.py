"""The record walk, compiled once per test run."""

from __future__ import annotations

import importlib.util
import shutil
import sysconfig
from collections.abc import Iterator
from types import ModuleType

import pytest

from brokerd.wire import record_walk_build, record_walks


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """The compiled module that brokers of this directory use, else a build for this test."""
    found = record_walks.compiled()
    if found is None:
        compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
        if shutil.which(compiler) is None:
            pytest.skip(f"no C compiler ({compiler}): there is no compiled record walk to compare")
        path = record_walk_build.build(tmp_path_factory.mktemp("compiled"))
        spec = importlib.util.spec_from_file_location(record_walks.COMPILED_NAME, path)
        assert spec is not None and spec.loader is not None
        found = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found)
    assert found.__file__ is not None and found.__file__.endswith(".so")
    assert record_walks.source_digest() == found.SOURCE_DIGEST
    return found
