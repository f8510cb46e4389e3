"""A node in which a broker tells something of itself, made anew with each change: one of an earlier session would go with that.

Called by `membership`. Must not come in: what is told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from brokerd.cluster.store import Result, Store

T = TypeVar("T")


class Told(Generic[T]):
    """`wanted` is what is to stand there; nothing stands there by itself while it is what `nothing` is."""

    def __init__(self, store: Store, path: str, encode: Callable[[int, T], bytes], nothing: T) -> None:
        self._store, self._path, self._encode, self._nothing = store, path, encode, nothing
        self.wanted = self._written = nothing
        self.busy = False

    def forget(self) -> None:
        """Of this session nothing is there."""
        self._written = self._nothing

    def send(self, incarnation: int) -> None:
        if self.busy or self.wanted == self._written:
            return
        self.busy = True
        told = self.wanted
        data = self._encode(incarnation, told)

        def removed(result: Result) -> None:
            self._store.create(self._path, data, created, ephemeral=True)

        def created(result: Result) -> None:
            self.busy = False
            if result.ok:
                self._written = told  # what changed meanwhile is sent by the next tick

        self._store.delete(self._path, -1, removed)
