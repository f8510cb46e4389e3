"""The live feed: numbered updates, kept for a while, handed to the channel layer. Law: numbers grow by one; only the observer publishes;
nothing here waits for a browser. Called by the observer (publish) and `selectors.live` (since)."""

from __future__ import annotations

import asyncio
import logging
import threading
import uuid
from collections import deque
from collections.abc import Callable
from typing import Any

from controlplane.events import LIVE_GROUP, LIVE_TYPE, LiveUpdate

log = logging.getLogger(__name__)

KEPT = 2_000
"""Updates remembered for browsers that come back: about a minute of a busy cluster, twice the cut a page must survive."""


class Hub:
    """`run` names this life of the observer: numbers of another run mean nothing here."""

    def __init__(self) -> None:
        self.run = uuid.uuid4().hex[:12]
        self._lock = threading.Lock()
        self._seq = 0
        self._kept: deque[LiveUpdate] = deque(maxlen=KEPT)
        self._send: Callable[[LiveUpdate], None] = lambda update: None
        self._listeners: list[Callable[[LiveUpdate], None]] = []

    def deliver_through(self, send: Callable[[LiveUpdate], None]) -> None:
        self._send = send

    def listen(self, hear: Callable[[LiveUpdate], None]) -> None:
        """Have `hear` called with each update, in the publisher's thread: it must be quick and must not raise."""
        self._listeners.append(hear)

    def publish(self, kind: str, data: dict[str, Any]) -> LiveUpdate:
        """Number, keep and send one update. From any thread; in order per thread."""
        with self._lock:
            self._seq += 1
            update = LiveUpdate(type=LIVE_TYPE, run=self.run, seq=self._seq, kind=kind, data=data)
            self._kept.append(update)
            self._send(update)
            for hear in self._listeners:
                hear(update)
        return update

    def latest(self) -> tuple[str, int]:
        with self._lock:
            return self.run, self._seq

    def since(self, run: str, seq: int) -> list[LiveUpdate] | None:
        """What came after `seq`; None when that is no longer known and the page must be read anew."""
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
    """Hand updates to the channel layer in the web server's own loop: the in-memory layer lives there and nowhere else."""
    from channels.layers import get_channel_layer

    layer = get_channel_layer()

    async def group_send(update: LiveUpdate) -> None:
        try:
            await layer.group_send(LIVE_GROUP, update)
        except Exception as e:
            # A full or lost layer costs one update, which the numbers reveal; it must not end the feed.
            log.warning("live update %s was not sent: %s", update["seq"], e)

    def send(update: LiveUpdate) -> None:
        if not loop.is_closed():
            asyncio.run_coroutine_threadsafe(group_send(update), loop)

    return send
