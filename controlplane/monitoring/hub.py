"""Live updates: numbered, buffered, and sent to the channel layer.

Invariants: each number is one above the last. Only the cluster monitor publishes. Publishing never waits for a browser.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
import uuid
from collections import deque
from collections.abc import Callable

from controlplane.monitoring.live_events import LIVE_GROUP, LIVE_TYPE, LiveUpdate
from controlplane.monitoring.live_packing import pack, row_count

log = logging.getLogger(__name__)

KEPT_ROWS = 100_000
"""Rows of buffered updates for browsers that reconnect: some rounds of samples of a large cluster, minutes of a small one. A row takes about a
kilobyte."""

WAITING_MAX = 20_000
"""Maximum number of updates that wait for the channel layer. If it stalls for longer, sockets see a gap and their pages reload."""

BATCH_ROWS = 500
"""Rows of one message on the channel layer: the event loop serves requests between two messages."""


class UpdateBuffer:
    """The newest updates of one run, without gaps. Not safe for several threads."""

    def __init__(self, run: str = "") -> None:
        self.run = run
        self.seq = 0
        self._kept: deque[LiveUpdate] = deque()
        self._rows = 0

    def clear(self) -> None:
        """Remove the buffered updates when updates are no longer received. Otherwise a page could conclude that it has missed none."""
        self.run, self.seq, self._rows = "", 0, 0
        self._kept.clear()

    def append(self, update: LiveUpdate, rows_max: int = KEPT_ROWS) -> None:
        """An update of another run, or an update after a gap, replaces the buffered updates."""
        if (update["run"], update["seq"]) != (self.run, self.seq + 1):
            self.clear()
        self.run, self.seq = update["run"], update["seq"]
        self._kept.append(update)
        self._rows += row_count(update)
        while self._rows > rows_max and len(self._kept) > 1:
            self._rows -= row_count(self._kept.popleft())

    def since(self, run: str, seq: int) -> list[LiveUpdate] | None:
        """Updates after `seq`; None if they are no longer buffered and the page must be reloaded. A page of another web process may be ahead of this one."""
        if run != self.run:
            return None
        if seq >= self.seq:
            return []
        if not self._kept or self._kept[0]["seq"] > seq + 1:
            return None
        return [*itertools.takewhile(lambda u: u["seq"] > seq, reversed(self._kept))][::-1]

    def newest(self, kind: str, run: str, seq: int) -> LiveUpdate | None:
        """The newest update of the kind up to `seq`; None if it is not buffered."""
        if run != self.run:
            return None
        return next((u for u in reversed(self._kept) if u["seq"] <= seq and u["kind"] == kind), None)


class Hub:
    """`run` identifies this process of the cluster monitor. Numbers of another run are not comparable."""

    def __init__(self) -> None:
        self.run = uuid.uuid4().hex[:12]
        self._lock = threading.Lock()
        self._buffer = UpdateBuffer(self.run)
        self._send: Callable[[LiveUpdate], None] = lambda update: None
        self._listeners: list[Callable[[LiveUpdate], None]] = []

    def deliver_through(self, send: Callable[[LiveUpdate], None]) -> None:
        self._send = send

    def listen(self, listener: Callable[[LiveUpdate], None]) -> None:
        """Call `listener` with each update, in the publisher's thread. The listener must be quick and must not raise."""
        self._listeners.append(listener)

    def publish(self, kind: str, data: dict[str, object]) -> LiveUpdate:
        """Number, buffer and send one update. May be called on any thread; the updates of one thread keep their order."""
        with self._lock:
            update = LiveUpdate(run=self.run, seq=self._buffer.seq + 1, kind=kind, data=data)
            self._buffer.append(update)
            self._send(update)
            for listener in self._listeners:
                listener(update)
        return update

    def latest(self) -> tuple[str, int]:
        with self._lock:
            return self.run, self._buffer.seq

    def since(self, run: str, seq: int) -> list[LiveUpdate] | None:
        """Updates after `seq`; None if they are no longer buffered and the page must be reloaded."""
        with self._lock:
            return self._buffer.since(run, seq)

    def newest(self, kind: str, run: str, seq: int) -> LiveUpdate | None:
        """The newest update of the kind up to `seq`; None if it is not buffered."""
        with self._lock:
            return self._buffer.newest(kind, run, seq)


hub = Hub()


class _LayerSender:
    """Sends updates to the sockets of this process and to the channel layer in batches, one after the other: a burst does not overflow the channel of a
    receiver."""

    def __init__(self, loop: asyncio.AbstractEventLoop, deliver: Callable[[list[LiveUpdate]], None] | None) -> None:
        self._loop = loop
        self._deliver = deliver
        self._lock = threading.Lock()
        self._waiting: deque[LiveUpdate] = deque(maxlen=WAITING_MAX)
        self._draining = False

    def send(self, update: LiveUpdate) -> None:
        with self._lock:
            self._waiting.append(update)
            if self._draining or self._loop.is_closed():
                return
            self._draining = True
        asyncio.run_coroutine_threadsafe(self._drain(), self._loop)

    async def _drain(self) -> None:
        from channels.layers import InMemoryChannelLayer, get_channel_layer

        layer = get_channel_layer()
        alone = self._deliver is not None and isinstance(layer, InMemoryChannelLayer)
        while batch := self._next_batch():
            if self._deliver is not None:
                self._deliver(batch)
            try:
                if alone:
                    await asyncio.sleep(0)
                else:
                    await layer.group_send(LIVE_GROUP, {"type": LIVE_TYPE, "updates": [pack(u) for u in batch]})
            except Exception as e:
                # A failure of the layer loses one batch. Sockets see the gap in the numbers. Live updates must continue.
                log.warning("live updates not sent: seq=%s count=%s error=%s", batch[0]["seq"], len(batch), e)

    def _next_batch(self) -> list[LiveUpdate]:
        batch: list[LiveUpdate] = []
        rows = 0
        with self._lock:
            while self._waiting and rows < BATCH_ROWS:
                batch.append(self._waiting.popleft())
                rows += row_count(batch[-1])
            self._draining = bool(batch)
        return batch


def through_loop(
    loop: asyncio.AbstractEventLoop, deliver: Callable[[list[LiveUpdate]], None] | None = None
) -> Callable[[LiveUpdate], None]:
    """Send updates to the channel layer in the web server's event loop: the in-memory layer works only there. `deliver` gets them for the sockets of this
    process, in that loop. Then the in-memory layer, which copies each message and has no other receiver, gets none."""
    return _LayerSender(loop, deliver).send
