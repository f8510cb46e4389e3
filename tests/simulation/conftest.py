"""The objects of a world refer to each other, and have file descriptors: they are freed after each file of tests."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def _free_worlds() -> Iterator[None]:
    yield
    gc.collect()
