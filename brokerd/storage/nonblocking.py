"""Non-blocking reads: data outside the page cache raises `NotInPageCache`, which can load it.

The mode is per thread. Without it, reads block. `blocking_reads` allows blocking reads inside a change that must not be interrupted. A caller that
catches `NotInPageCache` runs `load` on another thread and retries.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager


class NotInPageCache(Exception):
    """The bytes are not in the page cache. `load` loads them, on any thread. The retry raises any error again."""

    def __init__(self, what: str, load: Callable[[], object]) -> None:
        super().__init__(what)
        self.load = load


class _Mode(threading.local):
    nonblocking = False


_mode = _Mode()


def are_reads_nonblocking() -> bool:
    """Return whether reads of this thread must not block."""
    return _mode.nonblocking


class _Block:
    """Context manager that sets whether reads of this thread may block. It is a class because a generator costs several times as much, and each fetch uses
    it."""

    __slots__ = ("_before", "_nonblocking")

    def __init__(self, nonblocking: bool) -> None:
        self._nonblocking = self._before = nonblocking

    def __enter__(self) -> None:
        self._before, _mode.nonblocking = _mode.nonblocking, self._nonblocking

    def __exit__(self, *_: object) -> None:
        _mode.nonblocking = self._before


def nonblocking_reads() -> AbstractContextManager[None]:
    """Context manager: reads in this block that would wait for the disk raise NotInPageCache."""
    return _Block(True)


def blocking_reads() -> AbstractContextManager[None]:
    """Context manager: reads in this block may wait for the disk, even inside `nonblocking_reads`, because the change in the block must not be interrupted."""
    return _Block(False)
