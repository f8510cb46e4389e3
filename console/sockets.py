"""The WebSocket /ws/live: live updates of a page.

Updates are numbered. A page sends its position (run, seq); it gets the updates it missed, or a request to reload.

From the browser after every page change: {"run", "seq", "language", "subjects"}. To the browser: {"run", "seq", "age_s", "zookeeper_away",
"samples_current", "cells": [[subject, field, html]], "points": [[subject, figure, value]], "refresh": [subject], "gone": [subject]}, or
{"reload": true}. Updates are collected for FLUSH_SECONDS, so a burst of elections is a few messages. Messages with "tail" belong to the live tail of
the page (`console.record_tails`).
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncJsonWebsocketConsumer
from django.conf import settings
from django.db import DatabaseError
from django.urls import path
from django.utils import translation

from console.cells import PageUpdate, page_update
from console.record_tails import PageTail
from console.texts import known_language
from controlplane.domain.record_tail import TailEnd
from controlplane.domain.visibility import EVERYTHING, subject_visible
from controlplane.monitoring import live_selectors
from controlplane.monitoring.age import DataAge, data_age
from controlplane.monitoring.live_events import LIVE_GROUP, LiveUpdate
from controlplane.selectors.sessions import signed_in
from controlplane.services.authorization import visibility_of_stored

FLUSH_SECONDS = 0.15
"""Seconds that updates are collected before they are sent. The cluster monitor itself publishes about once a second."""

HEARTBEAT_SECONDS = 3.0
"""Seconds between messages with the age of the data, also without changes. The page shows a warning from 15 s on."""

SUBJECTS_MAX = 2_000
"""Subjects that one page may subscribe to: four times the largest page."""

SUBJECT_CHARS_MAX = 600

SIGNED_OUT = 4401
"""Close code for a browser without a login: it must not reconnect automatically."""


class _CachedAge:
    """Age of the data, read from the database at most once a second for all sockets of the process."""

    def __init__(self) -> None:
        self._read_at = -1e9
        self._age = DataAge(None, False, False)
        self._lock = asyncio.Lock()

    async def now(self) -> DataAge:
        async with self._lock:
            if time.monotonic() - self._read_at > 1.0:
                try:
                    self._age = await database_sync_to_async(data_age)()
                    self._read_at = time.monotonic()
                except DatabaseError:
                    pass  # database unavailable: the last known age keeps growing, which is correct
            if self._age.age_s is None:
                return self._age
            return replace(self._age, age_s=self._age.age_s + (time.monotonic() - self._read_at))


_age = _CachedAge()


class LiveSocket(AsyncJsonWebsocketConsumer):  # type: ignore[misc]
    groups = [LIVE_GROUP]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.requested: frozenset[str] = frozenset()
        self.subjects: frozenset[str] = frozenset()
        """Those of the asked subjects that the user may see."""
        self.language = settings.LANGUAGE_CODE
        self.run, self.seq = "", -1
        self.sent: tuple[str, int] = ("", -1)
        """Position up to which the page has received all updates. `seq` also counts updates that are collected but not sent."""
        self.pending = PageUpdate()
        self.marks: dict[tuple[str, str], object] = {}
        self.flusher: asyncio.Task[None] | None = None
        self.tail: PageTail | None = None
        self.heartbeat: asyncio.Task[None] | None = None
        """None: the browser has no login, and gets no updates."""

    async def connect(self) -> None:
        user = self.scope.get("user")
        await self.accept()
        if user is None or not user.is_authenticated:
            await self.close(SIGNED_OUT)
            return
        self.heartbeat = asyncio.create_task(self._send_heartbeats())

    async def disconnect(self, code: int) -> None:
        if self.tail is not None:
            self.tail.end(TailEnd.CLOSED)
        for task in (self.heartbeat, self.flusher):
            if task is not None:
                task.cancel()

    async def receive_json(self, content: Any, **kwargs: Any) -> None:
        """A page was opened, or reconnected."""
        if not isinstance(content, dict) or self.heartbeat is None:
            return
        if "tail" in content:
            if self.tail is None:
                self.tail = PageTail(self.scope["user"], self.send_json)
            self.tail.receive(content["tail"])
            return
        subjects = content.get("subjects")
        subjects = subjects if isinstance(subjects, list) else []
        self.language = known_language(content.get("language"))
        self.requested = frozenset(str(s)[:SUBJECT_CHARS_MAX] for s in subjects[:SUBJECTS_MAX])
        await self._limit_subjects()
        self.marks = {}
        run, seq = str(content.get("run", "")), content.get("seq")
        if not isinstance(seq, int):
            await self.send_json({"reload": True})
            return
        self.pending = PageUpdate()
        await self._catch_up(run, seq)

    async def live_update(self, update: LiveUpdate) -> None:
        if self.seq < 0 or self.heartbeat is None:
            return  # the page has not sent its subjects yet; it will send its position with them
        if update["run"] == self.run and update["seq"] <= self.seq:
            return
        if update["run"] == self.run and update["seq"] == self.seq + 1:
            self._collect(update)
        elif live_selectors.latest()[1] == 0:
            # The cluster monitor runs in another process with its own history: start at its first update.
            first = self.run == update["run"] or self.seq == 0
            self.run, self.seq = update["run"], update["seq"] - 1
            if first and update["seq"] == self.seq + 1:
                self._collect(update)
            else:
                await self.send_json({"reload": True})
        else:
            await self._catch_up(self.run, self.seq)

    async def _catch_up(self, run: str, seq: int) -> None:
        missed = live_selectors.since(run, seq)
        if missed is None:
            self.run, self.seq = live_selectors.latest()
            await self.send_json({"reload": True})
            return
        self.run, self.seq = run, seq
        for update in missed:
            self._collect(update)
        if not missed:
            await self._send(PageUpdate(), (run, seq))

    def _collect(self, update: LiveUpdate) -> None:
        self.seq = update["seq"]
        with translation.override(self.language):
            self.pending.join(page_update(update, self.subjects))
        if self.pending and self.flusher is None:
            self.flusher = asyncio.create_task(self._flush())

    async def _flush(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            collected, self.pending = self.pending, PageUpdate()
            upto = (self.run, self.seq)
            for key, value in collected.marks.items():
                # The first mark is the baseline, because the page was just loaded.
                if self.marks.setdefault(key, value) != value:
                    self.marks[key] = value
                    collected.refresh.add(key[0])
            collected.marks = {}
            if collected:
                await self._send(collected, upto)
            self.sent = upto
            if not self.pending:
                self.flusher = None
                return

    async def _send_heartbeats(self) -> None:
        """A heartbeat carries the position of sent updates only: the page does not get an update at or below its position again."""
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            if not await self._signed_in():
                await self.close(SIGNED_OUT)
                return
            await self._limit_subjects()
            if self.flusher is None:
                self.sent = (self.run, self.seq)
            if self.sent[1] >= 0:
                await self._send(PageUpdate(), self.sent)

    async def _signed_in(self) -> bool:
        """Checked at each heartbeat: a log-out, a new password or a deactivation ends the live updates within seconds."""
        session = self.scope.get("session")
        try:
            return bool(await database_sync_to_async(signed_in)(getattr(session, "session_key", None)))
        except DatabaseError:
            return True  # database unavailable: checked again at the next heartbeat

    async def _limit_subjects(self) -> None:
        """Read again at each heartbeat: a binding that was withdrawn ends the updates of its resources within seconds."""
        seen = EVERYTHING
        if settings.WEIR.view_by_role:
            seen = await database_sync_to_async(visibility_of_stored)(self.scope["user"].pk)
        self.subjects = frozenset(s for s in self.requested if subject_visible(seen, s))

    async def _send(self, out: PageUpdate, upto: tuple[str, int]) -> None:
        age = await _age.now()
        await self.send_json(
            {
                "run": upto[0],
                "seq": upto[1],
                "age_s": age.age_s,
                "zookeeper_away": age.zookeeper_away,
                "samples_current": age.samples_current,
                "cells": [[s, name, html] for (s, name), html in out.cells.items()],
                "points": [[s, name, value] for (s, name), value in out.points.items()],
                "refresh": sorted(out.refresh),
                "gone": sorted(out.gone),
            }
        )


urlpatterns = [path("ws/live", LiveSocket.as_asgi())]
