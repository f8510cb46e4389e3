"""Publishes a value in an ephemeral znode. Each change deletes and recreates the znode. Otherwise a znode of an earlier session could be updated, and
ZooKeeper would delete it when that session expires."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from brokerd.cluster.store import Result, Store

T = TypeVar("T")


class EphemeralNodePublisher(Generic[T]):
    """`desired` is the value to publish. There is no znode while the value equals `nothing`."""

    def __init__(self, store: Store, path: str, encode: Callable[[int, T], bytes], nothing: T) -> None:
        self._store, self._path, self._encode, self._nothing = store, path, encode, nothing
        self.desired = self._written = nothing
        self.busy = False

    def forget(self) -> None:
        """A new session has started, for which no znode exists yet."""
        self._written = self._nothing

    def send(self, broker_epoch: int) -> None:
        if self.busy or self.desired == self._written:
            return
        self.busy = True
        value = self.desired
        data = self._encode(broker_epoch, value)

        def on_removed(result: Result) -> None:
            self._store.create(self._path, data, on_created, ephemeral=True)

        def on_created(result: Result) -> None:
            self.busy = False
            if result.ok:
                self._written = value  # a newer value is sent by the next tick

        self._store.delete(self._path, -1, on_removed)
