"""Delivers live updates to the sockets of this process.

The sockets are one receiver of the channel layer, not one each: a layer copies each message for each receiver. An index of subjects leads an update to
the sockets that show one of its rows. So the cost of an update depends on the pages that show its rows, not on the number of open pages. Invariant: a
registered socket has received each update up to `run`, `seq` that concerns its subjects, in the order of the numbers.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Set
from typing import Protocol
from weakref import WeakKeyDictionary

from channels.layers import InMemoryChannelLayer, get_channel_layer

from controlplane.domain.live_subject import LiveSubject
from controlplane.monitoring import live_events, live_selectors
from controlplane.monitoring.hub import KEPT_ROWS
from controlplane.monitoring.live_events import LIVE_GROUP, LiveUpdate
from controlplane.monitoring.live_packing import object_name, unpack

log = logging.getLogger(__name__)

JOIN_SECONDS = 30.0
"""Time between two registrations at the channel layer. A layer removes a receiver after a day. The in-memory layer also removes a receiver that did not
receive a message for a minute."""

IDLE_ROWS = KEPT_ROWS // 3
"""Rows of buffered updates in a process without sockets."""

RETRY_SECONDS = 1.0
"""Time from a failure of the channel layer to the next attempt."""

PANEL_SPREAD_MS_PER_PAGE = 40
"""Milliseconds per open page over which the pages spread their requests for panels. A request needs about 20 ms of CPU of one web process, so a burst uses
about half of that process."""

PANEL_SPREAD_MS_MIN, PANEL_SPREAD_MS_MAX = 100, 10_000

STATUSES = "statuses"
"""The panels that depend on the status of every group."""


class LiveReceiver(Protocol):
    def deliver(self, update: LiveUpdate) -> None: ...

    def lose_position(self, run: str, seq: int) -> None:
        """Updates were lost. The next one is after number `seq` of `run`."""

    def end(self) -> None:
        """The channel layer failed: the browser must connect again."""


def _key(subject: str) -> str:
    """The rows of a group and of a topic are one key: each of their updates has rows of one group or topic."""
    kind = subject.partition(":")[0]
    if kind == LiveSubject.LAG:
        return subject.rsplit(":", 2)[0]
    return subject.rsplit(":", 1)[0] if kind == LiveSubject.PARTITION else subject


def _topic_keys(row: dict[str, object]) -> tuple[str, str]:
    return f"topic:{row['name']}", f"partitions:{row['name']}"


def _group_keys(row: dict[str, object]) -> tuple[str, str]:
    return f"group:{row['group_id']}", f"members:{row['group_id']}"


_LISTS: dict[str, tuple[str, Callable[[dict[str, object]], tuple[str, str]], str]] = {
    live_events.TOPICS: ("topics", _topic_keys, LiveSubject.TOPIC),
    live_events.GROUPS: ("groups", _group_keys, LiveSubject.GROUP),
}
"""Updates with a row per topic or group of the whole cluster: (name of the list, keys of a row, kind of a subject that is gone)."""
_OF_ONE_OBJECT = {live_events.LAG: LiveSubject.LAG, live_events.PARTITIONS: LiveSubject.PARTITION}
"""Updates with the rows of one group or topic, and the kind of their keys."""


def _select_rows(update: LiveUpdate, keys: Set[str]) -> LiveUpdate | None:
    """The rows of `update` that concern `keys`. None: no row does."""
    kind, data = update["kind"], update["data"]
    if kind in _OF_ONE_OBJECT:
        return update if f"{_OF_ONE_OBJECT[kind]}:{object_name(update)}" in keys else None
    if kind not in _LISTS:
        return update
    name, keys_of, noun = _LISTS[kind]
    rows = [row for row in data[name] if not keys.isdisjoint(keys_of(row))]
    gone = [deleted for deleted in data.get("gone", ()) if f"{noun}:{deleted}" in keys]
    if rows or gone or (data.get("statuses_changed") and STATUSES in keys):
        return _replace_rows(update, rows, gone)
    return None


def _replace_rows(update: LiveUpdate, rows: list[dict[str, object]], gone: list[str]) -> LiveUpdate:
    name = _LISTS[update["kind"]][0]
    return {**update, "data": {**update["data"], name: rows, "gone": gone}}


class LiveFanout:
    def __init__(self) -> None:
        self.run, self.seq = "", -1
        """Position of the last delivered update."""
        self._keys: dict[LiveReceiver, frozenset[str]] = {}
        self._by_key: dict[str, set[LiveReceiver]] = {}
        self._task: asyncio.Task[None] | None = None
        self._joined: asyncio.Event | None = None
        self._receiving = False

    async def start(self) -> bool:
        """Returns when updates are received. The first socket of the process starts the receiver. False: the channel layer failed."""
        if self._task is None or self._task.done():
            self.run, self.seq = "", -1
            self._receiving = False
            self._joined = asyncio.Event()
            self._task = asyncio.create_task(self._receive(self._joined))
        assert self._joined is not None
        await self._joined.wait()
        return self._receiving

    def subscribe(self, socket: LiveReceiver, subjects: Iterable[str]) -> None:
        """Replaces the earlier subjects of the socket."""
        keys = frozenset(map(_key, subjects))
        before = self._keys.get(socket, frozenset())
        self._keys[socket] = keys
        for key in keys - before:
            self._by_key.setdefault(key, set()).add(socket)
        self._discard(socket, before - keys)

    def unsubscribe(self, socket: LiveReceiver) -> None:
        """Remove the socket. After the last one, stop receiving from the channel layer."""
        self._discard(socket, self._keys.pop(socket, frozenset()))
        if not self._keys and self._task is not None:
            self._task.cancel()
            self._task = None
            live_selectors.received.clear()

    def panel_spread_ms(self) -> int:
        """Milliseconds over which the open pages of this process spread their requests for panels. One update reaches all of them at the same time."""
        return max(PANEL_SPREAD_MS_MIN, min(PANEL_SPREAD_MS_MAX, PANEL_SPREAD_MS_PER_PAGE * len(self._keys)))

    def parts(self, socket: LiveReceiver, updates: Iterable[LiveUpdate]) -> list[LiveUpdate]:
        """The updates that concern the socket, each with its rows."""
        keys = self._keys.get(socket, frozenset())
        return [part for update in updates if (part := _select_rows(update, keys)) is not None]

    def _discard(self, socket: LiveReceiver, keys: Iterable[str]) -> None:
        for key in keys:
            sockets = self._by_key[key]
            sockets.discard(socket)
            if not sockets:
                del self._by_key[key]

    async def _receive(self, joined: asyncio.Event) -> None:
        layer = get_channel_layer()
        channel = ""
        try:
            # The name has the same prefix as the sockets' channels, because channels_redis receives channels of one prefix only.
            channel = await layer.new_channel()
            while True:
                await layer.group_add(LIVE_GROUP, channel)
                self._receiving = True
                joined.set()
                try:
                    async with asyncio.timeout(JOIN_SECONDS):
                        while True:
                            message = await layer.receive(channel)
                            self.deliver([unpack(packed) for packed in message["updates"]])
                except TimeoutError:
                    continue
        except Exception as e:  # noqa: BLE001 - a layer raises the errors of its server
            log.warning("live updates not received, browsers connect again: error=%s", e)
            self._receiving = False
            self.end_sockets()
        finally:
            joined.set()
            if channel:
                with contextlib.suppress(Exception):  # the layer may have failed
                    await layer.group_discard(LIVE_GROUP, channel)

    def end_sockets(self) -> None:
        """Updates were lost and cannot be read again: the browsers must connect again."""
        live_selectors.received.clear()
        for socket in list(self._keys):
            socket.end()

    def deliver(self, updates: list[LiveUpdate]) -> None:
        for update in updates:
            run, seq = update["run"], update["seq"]
            if run == self.run and seq <= self.seq:
                continue
            lost = self.seq >= 0 and (run, seq) != (self.run, self.seq + 1)
            if not live_selectors.is_local(run):
                self._buffer(update)
            if lost:
                # The position is still that before the gap: a socket catches up from there.
                for socket in self._keys:
                    socket.lose_position(run, seq - 1)
            self.run, self.seq = run, seq
            for socket, part in self._list_deliveries(update):
                socket.deliver(part)

    def _buffer(self, update: LiveUpdate) -> None:
        """For pages that connect, or connect again. Without a socket only a page that was just loaded can connect."""
        live_selectors.received.append(update, KEPT_ROWS if self._by_key else IDLE_ROWS)

    def _list_deliveries(self, update: LiveUpdate) -> Iterator[tuple[LiveReceiver, LiveUpdate]]:
        """The sockets that an update concerns, each with its rows."""
        kind = update["kind"]
        if kind in _LISTS:
            yield from self._list_parts(update)
            return
        sockets: Iterable[LiveReceiver] = self._keys
        if kind in _OF_ONE_OBJECT:
            sockets = self._by_key.get(f"{_OF_ONE_OBJECT[kind]}:{object_name(update)}", ())
        for socket in sockets:
            yield socket, update

    def _list_parts(self, update: LiveUpdate) -> Iterator[tuple[LiveReceiver, LiveUpdate]]:
        name, keys_of, noun = _LISTS[update["kind"]]
        data = update["data"]
        statuses = self._by_key.get(STATUSES, set()) if data.get("statuses_changed") else set()
        rows: dict[LiveReceiver, list[dict[str, object]]] = {}
        gone: dict[LiveReceiver, list[str]] = {}
        for row in data[name]:
            keys = keys_of(row)
            first = self._by_key.get(keys[0], ())
            for socket in first:
                rows.setdefault(socket, []).append(row)
            for socket in self._by_key.get(keys[1], ()):
                if socket not in first:
                    rows.setdefault(socket, []).append(row)
        for deleted in data.get("gone", ()):
            for socket in self._by_key.get(f"{noun}:{deleted}", ()):
                gone.setdefault(socket, []).append(deleted)
        for socket in rows.keys() | gone.keys() | statuses:
            yield socket, _replace_rows(update, rows.get(socket, []), gone.get(socket, []))


_fanouts: WeakKeyDictionary[asyncio.AbstractEventLoop, LiveFanout] = WeakKeyDictionary()


def fanout() -> LiveFanout:
    """The fanout of the running event loop."""
    return _fanouts.setdefault(asyncio.get_running_loop(), LiveFanout())


class _PageReceiver:
    """Keeps the fanout receiving. It has no subjects."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()

    def deliver(self, update: LiveUpdate) -> None:
        pass

    def lose_position(self, run: str, seq: int) -> None:
        pass

    def end(self) -> None:
        self.ended.set()


async def receive_for_pages() -> None:
    """Receive updates of a monitor in another process, also while this process has no socket. A page contains the position of the newest update, and its
    socket may be in another web process. Without a position that socket would reload the page repeatedly. Runs until it is cancelled."""
    if isinstance(get_channel_layer(), InMemoryChannelLayer):
        return
    live, receiver = fanout(), _PageReceiver()
    try:
        while True:
            receiver.ended.clear()
            if await live.start():
                live.subscribe(receiver, ())
                await receiver.ended.wait()
            await asyncio.sleep(RETRY_SECONDS)
    finally:
        live.unsubscribe(receiver)


def deliver_locally(updates: list[LiveUpdate]) -> None:
    """Updates of the cluster monitor of this process, which need no channel layer. An error must not end the delivery of later updates."""
    live = fanout()
    try:
        live.deliver(updates)
    except Exception:
        log.exception("live updates not delivered, browsers connect again")
        live.end_sockets()
