"""A file on a real disk, for tests of the page cache."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

BUILD = Path(__file__).resolve().parents[3] / "build"


@pytest.fixture
def big_file() -> Iterator[Path]:
    """On the disk of this repository: /tmp may be a file system that keeps its pages in memory."""
    BUILD.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        path = Path(folder) / "big"
        path.write_bytes(bytes(range(256)) * 4096 * 4)
        yield path
