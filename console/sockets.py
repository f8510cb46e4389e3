"""The WebSocket /ws/live: live updates of a page.

Updates are numbered. A page sends its position (run, seq); it gets the updates it missed, or a request to reload.

From the browser after every page change: {"run", "seq", "language", "subjects"}. To the browser: {"run", "seq", "age_s", "zookeeper_away",
"samples_current", "panel_spread_ms", "cells": [[subject, field, html]], "points": [[subject, metric, value]], "refresh": [subject], "gone": [subject]}, or
{"reload": true}. Updates are collected for FLUSH_SECONDS, so a burst of elections is a few messages, each of at most `live_frames.FRAME_BYTES_MAX`.
Messages with "tail" belong to the live tail of the page (`console.record_tails`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import replace

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncJsonWebsocketConsumer
from django.conf import settings
from django.db import DatabaseError
from django.urls import path
from django.utils import translation

from console.cells import PageUpdate, marks_of, page_update
from console.live_fanout import LiveFanout, fanout
from console.live_frames import frames
from console.record_tails import PageTail
from console.session_checks import session_checks
from console.texts import known_language
from controlplane.domain.live_subject import LiveSubject
from controlplane.domain.record_tail import TailEnd
from controlplane.domain.visibility import EVERYTHING, Visibility, subject_visible
from controlplane.monitoring import live_selectors
from controlplane.monitoring.age import DataAge, data_age
from controlplane.monitoring.live_events import BROKERS, CLUSTER, LiveUpdate
from controlplane.monitoring.visible_updates import visible_update
from controlplane.selectors.moves import visible_moves
from controlplane.selectors.overview import overview, overview_shape
from controlplane.selectors.visibility import seen_by
from controlplane.services.authorization import visibility_of_stored

FLUSH_SECONDS = 0.15
"""Seconds that updates are collected before they are sent. The cluster monitor itself publishes about once a second."""

HEARTBEAT_SECONDS = 3.0
"""Seconds between messages with the age of the data, also without changes. The page shows a warning from 15 s on."""

SUBJECTS_MAX = 2_000
"""Subjects that one page may subscribe to: four times the largest page."""

SUBJECT_CHARS_MAX = 600

SERVER_ERROR = 1011
"""Close code for a browser that must connect again."""

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


def _visible_moves(visibility: Visibility, subjects: Iterable[str]) -> set[str]:
    """Return the subjects `move:N` and `move-state:N` of moves whose topics are all visible to the user."""
    moves: dict[str, int] = {}
    for subject in subjects:
        kind, _, number = subject.partition(":")
        if kind in (LiveSubject.MOVE, LiveSubject.MOVE_STATE) and number.isdecimal():
            moves[subject] = int(number)
    with seen_by(visibility):
        shown = visible_moves(moves.values())
    return {subject for subject, number in moves.items() if number in shown}


def _cluster_cells(visibility: Visibility, language: str) -> dict[tuple[str, str], str]:
    with seen_by(visibility), translation.override(language):
        update: LiveUpdate = {"run": "", "seq": 0, "kind": CLUSTER, "data": overview_shape(overview())}
        return page_update(update, {"cluster"}).cells


class LiveSocket(AsyncJsonWebsocketConsumer):  # type: ignore[misc]
    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self.requested: frozenset[str] = frozenset()
        self.subjects: frozenset[str] = frozenset()
        """The requested subjects that the user may see."""
        self.seen = EVERYTHING
        self.language = settings.LANGUAGE_CODE
        self.run, self.seq = "", -1
        """Position up to which updates were collected. The fanout may be further: it delivers no updates without the subjects of this page."""
        self.sent: tuple[str, int] = ("", -1)
        """Position up to which the page has received all updates. `seq` also counts updates that are collected but not sent."""
        self.pending = PageUpdate()
        self.reload_due = False
        self.shown: dict[tuple[str, str], int] = {}
        """Hashes of the cells as they were last sent: an update has all cells of a row, and few of them have changed."""
        self.marks: dict[tuple[str, str], object] = {}
        self.fanout: LiveFanout | None = None
        self.flusher: asyncio.Task[None] | None = None
        self.ending: asyncio.Task[None] | None = None
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
        if self.fanout is not None:
            self.fanout.unsubscribe(self)
            self.fanout = None
        if self.tail is not None:
            self.tail.end(TailEnd.CLOSED)
        for task in (self.heartbeat, self.flusher):
            if task is not None:
                task.cancel()

    async def receive_json(self, content: object, **kwargs: object) -> None:
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
        live = fanout()
        if not await live.start():
            await self.close(SERVER_ERROR)
            return
        run, seq = str(content.get("run", "")), content.get("seq")
        if not isinstance(seq, int):
            await self.send_json({"reload": True})
            return
        # No await between `start` and the end of _catch_up. Otherwise an update could arrive in between and would not be sent.
        self.marks, self.shown, self.pending = self._marks_at(run, seq), {}, PageUpdate()
        self.fanout = live
        live.subscribe(self, self.subjects)
        self.sent = (run, seq)
        if self._catch_up(run, seq):
            await self._send(PageUpdate(), (run, seq))

    def _marks_at(self, run: str, seq: int) -> dict[tuple[str, str], object]:
        """The marks of the page as it was loaded: what changes before the first update of the socket must reload a panel, too."""
        found: dict[tuple[str, str], object] = {}
        for kind in (CLUSTER, BROKERS):
            if (update := live_selectors.newest(kind, run, seq)) is not None:
                with translation.override(self.language):
                    found |= marks_of(visible_update(update, self.seen), self.subjects)
        return found

    def deliver(self, update: LiveUpdate) -> None:
        """Called by the fanout with an update that concerns a subject of this page."""
        if update["run"] == self.run and update["seq"] <= self.seq:
            return
        if update["run"] != self.run:
            self._skip_to(update["run"], update["seq"] - 1)
        self._collect(update)

    def lose_position(self, run: str, seq: int) -> None:
        """Called by the fanout when updates up to `seq` were lost. Updates that were published in this process are still in its buffer."""
        position = self._position()
        if run != position[0]:
            self._skip_to(run, seq)
        elif position[1] < seq:
            self._catch_up(*position)

    def end(self) -> None:
        """Called by the fanout when it no longer receives updates."""
        self.ending = asyncio.create_task(self.close(SERVER_ERROR))

    def _skip_to(self, run: str, seq: int) -> None:
        """Continue after `seq` of another run. A page that was loaded before the first update has missed nothing that it shows."""
        if self.seq > 0:
            self.reload_due = True
        self.run, self.seq = run, seq
        self._flush_soon()

    def _position(self) -> tuple[str, int]:
        if self.fanout is not None and self.fanout.run == self.run:
            return self.run, max(self.seq, self.fanout.seq)
        return self.run, self.seq

    def _catch_up(self, run: str, seq: int) -> bool:
        """Collect the updates that the page missed. True if there are none."""
        missed = live_selectors.since(run, seq)
        if missed is None:
            self.run, self.seq = live_selectors.latest()
            self.reload_due = True
            self._flush_soon()
            return False
        self.run, self.seq = run, seq
        for update in missed if self.fanout is None else self.fanout.parts(self, missed):
            self._collect(update)
        if missed:
            self.seq = missed[-1]["seq"]
        return not missed

    def _collect(self, update: LiveUpdate) -> None:
        self.seq = update["seq"]
        with translation.override(self.language):
            self.pending.join(page_update(visible_update(update, self.seen), self.subjects))
        self._flush_soon()

    def _flush_soon(self) -> None:
        if (self.pending or self.reload_due) and self.flusher is None:
            self.flusher = asyncio.create_task(self._flush())

    async def _flush(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            if self.reload_due:
                self.reload_due = False
                await self.send_json({"reload": True})
            collected, self.pending = self.pending, PageUpdate()
            upto = self._position()
            for key, value in collected.marks.items():
                # Without a mark of the loaded page the first one is the baseline.
                if self.marks.setdefault(key, value) != value:
                    self.marks[key] = value
                    collected.refresh.add(key[0])
            collected.marks = {}
            collected.cells = {k: html for k, html in collected.cells.items() if self._is_new(k, html)}
            if collected:
                await self._send(collected, upto)
            self.sent = upto
            if not (self.pending or self.reload_due):
                self.flusher = None
                return

    def _is_new(self, cell: tuple[str, str], html: str) -> bool:
        mark = hash(html)
        if self.shown.get(cell) == mark:
            return False
        self.shown[cell] = mark
        return True

    async def _send_heartbeats(self) -> None:
        """A heartbeat carries the position of sent updates only: the page does not get an update at or below its position again."""
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            if not await self._signed_in():
                await self.close(SIGNED_OUT)
                return
            await self._limit_subjects()
            if self.flusher is None:
                self.sent = self._position()
            if self.sent[1] >= 0:
                await self._send(await self._own_cluster(), self.sent)

    async def _own_cluster(self) -> PageUpdate:
        """Health, alerts and totals of a user who sees only some resources: the updates of the cluster count all of them. Read at each heartbeat.
        Otherwise the age of the data in the same bar would belong to newer values."""
        if not self.seen.limited or "cluster" not in self.requested:
            return PageUpdate()
        try:
            return PageUpdate(cells=await database_sync_to_async(_cluster_cells)(self.seen, self.language))
        except DatabaseError:
            return PageUpdate()  # database unavailable: read again at the next heartbeat

    async def _signed_in(self) -> bool:
        """Checked at each heartbeat: a log-out, a new password or a deactivation ends the live updates within seconds."""
        session = self.scope.get("session")
        try:
            return await session_checks().is_signed_in(getattr(session, "session_key", None))
        except DatabaseError:
            return True  # database unavailable: checked again at the next heartbeat

    async def _limit_subjects(self) -> None:
        """Read again at each heartbeat: a binding that was withdrawn ends the updates of its resources within seconds."""
        if settings.WEIR.view_by_role:
            self.seen = await database_sync_to_async(visibility_of_stored)(self.scope["user"].pk)
        subjects = frozenset(s for s in self.requested if subject_visible(self.seen, s))
        if self.seen.limited:
            subjects |= await database_sync_to_async(_visible_moves)(self.seen, self.requested)
        if subjects != self.subjects:
            self.subjects = subjects
            if self.fanout is not None:
                self.fanout.subscribe(self, subjects)

    async def _send(self, out: PageUpdate, upto: tuple[str, int]) -> None:
        before = self.sent
        for text in frames(out, before, upto, await _age.now(), fanout().panel_spread_ms()):
            await self.send(text_data=text)


urlpatterns = [path("ws/live", LiveSocket.as_asgi())]
