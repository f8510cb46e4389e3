"""Live updates: numbered, buffered, and sent to the channel layer.

Invariants: each number is one above the last. Only the cluster monitor publishes. Publishing never waits for a browser.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import uuid
from collections import deque
from collections.abc import Callable
from typing import Any

from controlplane.monitoring.live_events import LIVE_GROUP, LIVE_TYPE, LiveUpdate

log = logging.getLogger(__name__)

KEPT = 2_000
"""Buffered updates for browsers that reconnect: about a minute of a busy cluster, twice the outage that a page must tolerate."""


class Hub:
    """`run` identifies this process of the cluster monitor. Numbers of another run are not comparable."""

    def __init__(self) -> None:
        self.run = uuid.uuid4().hex[:12]
        self._lock = threading.Lock()
        self._seq = 0
        self._kept: deque[LiveUpdate] = deque(maxlen=KEPT)
        self._send: Callable[[LiveUpdate], None] = lambda update: None
        self._listeners: list[Callable[[LiveUpdate], None]] = []

    def deliver_through(self, send: Callable[[LiveUpdate], None]) -> None:
        self._send = send

    def listen(self, listener: Callable[[LiveUpdate], None]) -> None:
        """Call `listener` with each update, in the publisher's thread. The listener must be quick and must not raise."""
        self._listeners.append(listener)

    def publish(self, kind: str, data: dict[str, Any]) -> LiveUpdate:
        """Number, keep and send one update. From any thread; in order per thread."""
        with self._lock:
            self._seq += 1
            update = LiveUpdate(type=LIVE_TYPE, run=self.run, seq=self._seq, kind=kind, data=data)
            self._kept.append(update)
            self._send(update)
            for listener in self._listeners:
                listener(update)
        return update

    def latest(self) -> tuple[str, int]:
        with self._lock:
            return self.run, self._seq

    def since(self, run: str, seq: int) -> list[LiveUpdate] | None:
        """Updates after `seq`; None if they are no longer buffered and the page must be reloaded."""
        with self._lock:
            if run != self.run or seq > self._seq:
                return None
            if seq == self._seq:
                return []
            if not self._kept or self._kept[0]["seq"] > seq + 1:
                return None
            return [u for u in self._kept if u["seq"] > seq]


hub = Hub()


def through_loop(loop: asyncio.AbstractEventLoop) -> Callable[[LiveUpdate], None]:
    """Send updates to the channel layer in the web server's event loop: the in-memory layer works only there."""
    from channels.layers import get_channel_layer

    layer = get_channel_layer()

    async def group_send(update: LiveUpdate) -> None:
        try:
            await layer.group_send(LIVE_GROUP, update)
        except Exception as e:
            # A failure of the layer loses one update. Sockets see the gap in the numbers. Live updates must continue.
            log.warning("live update not sent: seq=%s error=%s", update["seq"], e)

    def send(update: LiveUpdate) -> None:
        if not loop.is_closed():
            asyncio.run_coroutine_threadsafe(group_send(update), loop)

    return send
