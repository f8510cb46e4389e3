"""The modules that Cython compiles, compiled once per test run."""

from __future__ import annotations

import importlib.util
import shutil
import sysconfig
from pathlib import Path
from types import ModuleType

import pytest

from brokerd.wire import compile as compilation
from brokerd.wire import key_walk, record_decode, record_walk
from brokerd.wire.compiled import compiled_name, source_digest
from brokerd.wire.compiled import find_compiled as compiled_module


@pytest.fixture(scope="session")
def build_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a build for this test."""
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        pytest.skip(f"no C compiler ({compiler}): there is no compiled module to compare")
    folder = tmp_path_factory.mktemp("compiled")
    compilation.build(folder)
    return folder


def load_module(source: ModuleType, request: pytest.FixtureRequest) -> ModuleType:
    """The compiled module that brokers of this directory use, else a build for this test."""
    found = compiled_module(source)
    if found is None:
        name = compiled_name(source)
        (path,) = request.getfixturevalue("build_directory").glob(f"{name}.*.so")
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        found = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found)
    assert found.__file__ is not None and found.__file__.endswith(".so")
    assert source_digest(source) == found.SOURCE_DIGEST
    return found


@pytest.fixture(scope="session")
def compiled_module_under_test(request: pytest.FixtureRequest) -> ModuleType:
    return load_module(record_walk, request)


@pytest.fixture(scope="session")
def compiled_keys(request: pytest.FixtureRequest) -> ModuleType:
    return load_module(key_walk, request)


@pytest.fixture(scope="session")
def compiled_decoder(request: pytest.FixtureRequest) -> ModuleType:
    return load_module(record_decode, request)
