"""The one websocket, /ws/live: what a page shows changes in place. Law: numbered updates, none lost in silence: a page says where it stood
(run, seq) and gets what it missed, or is told to read itself anew.

From the browser: {"run", "seq", "subjects"} after every page change. To the browser: {"run", "seq", "age_s", "cells": [[subject, field,
html]], "points": [[subject, figure, value]], "refresh": [subject], "gone": [subject]}, or {"reload": true}. Updates are gathered for
FLUSH_SECONDS, so that a storm of elections is a few messages. Must not come in: decisions, rows.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncJsonWebsocketConsumer
from django.db import DatabaseError
from django.urls import path

from console.cells import Outcome, outcome
from controlplane.events import LIVE_GROUP, LiveUpdate
from controlplane.selectors import live
from controlplane.selectors.console_age import data_age_s

FLUSH_SECONDS = 0.15
"""Seconds that updates are gathered before they are sent: with the observer's own second it stays within the second on screen."""

HEARTBEAT_SECONDS = 3.0
"""Seconds between words about the data's age, also when nothing changes: amber begins at 15."""

SUBJECTS_MAX = 2_000
"""Rows that one page may watch: four times the largest page."""

SUBJECT_CHARS_MAX = 600

SIGNED_OUT = 4401
"""Close code for a browser that is not signed in: it must not try again by itself."""


class _Age:
    """The data's age, asked of the database once a second for all sockets of the process."""

    def __init__(self) -> None:
        self._read_at = -1e9
        self._age: float | None = None
        self._lock = asyncio.Lock()

    async def now(self) -> float | None:
        async with self._lock:
            if time.monotonic() - self._read_at > 1.0:
                try:
                    self._age = await database_sync_to_async(data_age_s)()
                    self._read_at = time.monotonic()
                except DatabaseError:
                    pass  # the database is away: the last known age goes on growing, which is the truth
            return None if self._age is None else self._age + (time.monotonic() - self._read_at)


_age = _Age()


class LiveSocket(AsyncJsonWebsocketConsumer):
    groups = [LIVE_GROUP]

    async def connect(self) -> None:
        user = self.scope.get("user")
        await self.accept()
        if user is None or not user.is_authenticated:
            await self.close(SIGNED_OUT)
            return
        self.subjects: frozenset[str] = frozenset()
        self.run, self.seq = "", -1
        self.waiting = Outcome()
        self.marks: dict[tuple[str, str], object] = {}
        self.flusher: asyncio.Task[None] | None = None
        self.heart = asyncio.create_task(self._beat())

    async def disconnect(self, code: int) -> None:
        for task in (getattr(self, "heart", None), getattr(self, "flusher", None)):
            if task is not None:
                task.cancel()

    async def receive_json(self, content: Any, **kwargs: Any) -> None:
        """A page has opened here, or come back."""
        if not isinstance(content, dict) or not hasattr(self, "heart"):
            return
        named = content.get("subjects")
        named = named if isinstance(named, list) else []
        self.subjects = frozenset(str(s)[:SUBJECT_CHARS_MAX] for s in named[:SUBJECTS_MAX])
        self.marks = {}
        run, seq = str(content.get("run", "")), content.get("seq")
        if not isinstance(seq, int):
            await self.send_json({"reload": True})
            return
        self.waiting = Outcome()
        await self._catch_up(run, seq)

    async def live_update(self, update: LiveUpdate) -> None:
        if self.seq < 0 or not hasattr(self, "heart"):
            return  # the page has not said yet what it shows; it will ask from where it stands
        if update["run"] == self.run and update["seq"] <= self.seq:
            return
        if update["run"] == self.run and update["seq"] == self.seq + 1:
            self._take(update)
        elif live.latest()[1] == 0:
            # The observer lives in another process, which keeps its own past: begin where it speaks first.
            begun = self.run == update["run"] or self.seq == 0
            self.run, self.seq = update["run"], update["seq"] - 1
            if begun and update["seq"] == self.seq + 1:
                self._take(update)
            else:
                await self.send_json({"reload": True})
        else:
            await self._catch_up(self.run, self.seq)

    async def _catch_up(self, run: str, seq: int) -> None:
        missed = live.since(run, seq)
        if missed is None:
            self.run, self.seq = live.latest()
            await self.send_json({"reload": True})
            return
        self.run, self.seq = run, seq
        for update in missed:
            self._take(update)
        if not missed:
            await self._send(Outcome())

    def _take(self, update: LiveUpdate) -> None:
        self.seq = update["seq"]
        self.waiting.join(outcome(update, self.subjects))
        if self.waiting and self.flusher is None:
            self.flusher = asyncio.create_task(self._flush())

    async def _flush(self) -> None:
        await asyncio.sleep(FLUSH_SECONDS)
        self.flusher = None
        gathered, self.waiting = self.waiting, Outcome()
        for key, value in gathered.marks.items():
            # The first mark is only the base line: the page was read a moment ago.
            if self.marks.setdefault(key, value) != value:
                self.marks[key] = value
                gathered.refresh.add(key[0])
        gathered.marks = {}
        if gathered:
            await self._send(gathered)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            if self.seq >= 0:
                await self._send(Outcome())

    async def _send(self, out: Outcome) -> None:
        await self.send_json(
            {
                "run": self.run, "seq": self.seq, "age_s": await _age.now(),
                "cells": [[s, name, html] for (s, name), html in out.cells.items()],
                "points": [[s, name, value] for (s, name), value in out.points.items()],
                "refresh": sorted(out.refresh), "gone": sorted(out.gone),
            }
        )  # fmt: skip


websocket_urlpatterns = [path("ws/live", LiveSocket.as_asgi())]
urlpatterns = websocket_urlpatterns
