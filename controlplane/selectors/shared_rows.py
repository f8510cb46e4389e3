"""Rows that are the same for all viewers. Pages that are requested within one second share them, so they are read once instead of once for each page.

Invariants: only rows that the cluster monitor writes, and totals of a move by its version, are shared: a page after a change shows the change. Rows
belong to what their reader may see (`visibility`), and no reader with another visibility gets them. The position of shared rows among the live updates was
taken before the first of them was read. Each page that shows them contains this position, so its WebSocket sends every later update. Off, unless a web process
calls `set_sharing`: commands, the worker, the cluster monitor and the REST API always read the database.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar, cast

from controlplane.selectors.visibility import current_visibility

T = TypeVar("T")
Position = tuple[str, int]
"""(run, number) of a live update (`controlplane.monitoring.live_selectors`)."""

SHARED_SECONDS = 1.0
"""Pages that arrive within this time after the first one share rows. The cluster monitor publishes the overview once per second."""
VERSIONS_MAX = 256
"""Maximum number of objects whose rows are kept by version, for example running moves. The oldest is removed first."""


class SharedRows:
    """Rows read within one second. `position`: of the newest live update before the first row was read. Safe for several threads: a row that two pages need
    at the same time is read once."""

    def __init__(self, position: Position, began: float) -> None:
        self.position = position
        self.began = began
        self._lock = threading.Lock()
        self._rows: dict[Hashable, _SharedRead] = {}

    def get(self, key: Hashable, read: Callable[[], T]) -> T:
        with self._lock:
            once = self._rows.setdefault(key, _SharedRead())
        return cast(T, once.value(read))


class _SharedRead:
    """A value that is read once. If the read fails, the next caller reads it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: list[object] = []

    def value(self, read: Callable[[], object]) -> object:
        with self._lock:
            if not self._found:
                self._found.append(read())
            return self._found[0]


class _Shared:
    def __init__(self) -> None:
        self.on = False
        self.lock = threading.Lock()
        self.rows: SharedRows | None = None
        self.versions: dict[Hashable, tuple[Hashable, object]] = {}


_shared = _Shared()
_current: ContextVar[SharedRows | None] = ContextVar("shared_rows", default=None)
_page: ContextVar[dict[Hashable, object] | None] = ContextVar("page", default=None)
"""Rows that were read for the current page."""


def set_sharing(on: bool) -> None:
    """Turn sharing on when a web process starts, and off when it stops."""
    with _shared.lock:
        _shared.on, _shared.rows, _shared.versions = on, None, {}


@contextmanager
def use_shared_rows(latest: Callable[[], Position], page_position: Position | None = None) -> Iterator[Position]:
    """The selectors of this block may use shared rows. Yields the position of these rows. `page_position`: the newest update that the browser has; shared rows
    that were read before it are older than what the page shows, so they are not used."""
    rows = _rows_of_this_second(latest, page_position) if _shared.on else None
    tokens = _current.set(rows), _page.set({})
    try:
        yield latest() if rows is None else rows.position
    finally:
        _current.reset(tokens[0])
        _page.reset(tokens[1])


def _rows_of_this_second(latest: Callable[[], Position], page_position: Position | None) -> SharedRows:
    now = time.monotonic()
    with _shared.lock:
        rows = _shared.rows
        if rows is None or now - rows.began >= SHARED_SECONDS or _is_behind(rows.position, page_position):
            rows = _shared.rows = SharedRows(latest(), now)
        return rows


def _is_behind(position: Position, page_position: Position | None) -> bool:
    return page_position is not None and (position[0] != page_position[0] or position[1] < page_position[1])


def read_shared(name: str, read: Callable[[], T], *arguments: Hashable) -> T:
    """Read rows, once in a second for all viewers who may see the same. The caller must not change them. `name` and `arguments` identify them."""
    rows = _current.get()
    return read() if rows is None else rows.get((name, arguments, current_visibility()), read)


def once_a_page(name: str, read: Callable[[], T]) -> T:
    """Read rows, once for a page that changes nothing. Everything on the page then has the same value. The caller must not change them."""
    rows = _page.get()
    if rows is None:
        return read()
    if name not in rows:
        rows[name] = read()
    return cast(T, rows[name])


def read_by_version(name: str, object_key: Hashable, version_of: Callable[[], Hashable], read: Callable[[], T]) -> T:
    """Read the rows of an object, once for its version. Each write of its rows increases the version in the same transaction. `read` must not depend on
    what the viewer may see, and the caller must not change the rows."""
    if _current.get() is None:
        return read()
    key, version = (name, object_key), version_of()
    with _shared.lock:
        kept = _shared.versions.get(key)
    if kept is not None and kept[0] == version:
        return cast(T, kept[1])
    value = read()
    with _shared.lock:
        _shared.versions.pop(key, None)
        _shared.versions[key] = (version, value)
        while len(_shared.versions) > VERSIONS_MAX:
            _shared.versions.pop(next(iter(_shared.versions)))
    return value
