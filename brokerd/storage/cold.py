"""Non-blocking reads: data outside the page cache raises `NotInPageCache`, which can load it.

The mode is per thread. Without it, reads block. `waiting` allows blocking reads inside a change that must not be interrupted. A caller that
catches `NotInPageCache` runs `load` on another thread and retries.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class NotInPageCache(Exception):
    """The bytes are not in the page cache. `load` loads them, on any thread. The retry raises any error again."""

    def __init__(self, what: str, load: Callable[[], object]) -> None:
        super().__init__(what)
        self.load = load


class _Mode(threading.local):
    refuses = False


_mode = _Mode()


def refused() -> bool:
    """Whether reads of this thread must not block."""
    return _mode.refuses


@contextmanager
def not_waiting() -> Iterator[None]:
    """In this block, reads that would block raise NotInPageCache."""
    before, _mode.refuses = _mode.refuses, True
    try:
        yield
    finally:
        _mode.refuses = before


@contextmanager
def waiting() -> Iterator[None]:
    """In this block, reads may block, even inside `not_waiting`: the change in the block must not be interrupted."""
    before, _mode.refuses = _mode.refuses, False
    try:
        yield
    finally:
        _mode.refuses = before
