"""The live tail of a page: starts, pauses and ends a tail by the messages of its WebSocket, and sends what it finds.

From the browser: {"tail": {"id", "do", "query", "language"}}, `do`: start (with `query`, the form of the Messages page, and the language of the page),
pause, resume, stop, visible. To the browser: {"tail": {"id", "state", "rows": [html], "status": html, "note"}}.

Invariants: a socket has at most one tail, and a tail one thread at a time, of a pool that serves nothing else: it waits for brokers, and the event loop
never does. A tail ends automatically TAIL_HIDDEN_SECONDS after the last message of a visible page. Does not contain: reading, limits, audit
(`services.record_tails`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from functools import cache
from typing import TypeVar

from channels.db import DatabaseSyncToAsync
from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import QueryDict
from django.template.loader import render_to_string
from django.utils import translation

from console.message_forms import MessagesForm
from console.texts import gettext_lazy, known_language
from console.views.messages import TAIL_HIDDEN_SECONDS, TAIL_UPDATE_BYTES_MAX, message_records
from controlplane.domain.record_tail import ROWS_PER_SECOND_MAX, TailEnd
from controlplane.services import Rejected
from controlplane.services.authorization import User
from controlplane.services.record_tails import LiveTail, TailUpdate

log = logging.getLogger(__name__)
T = TypeVar("T")

UPDATE_SECONDS = 0.5
"""Minimum time between the updates of a tail."""

QUERY_CHARS_MAX = 10_000

END_TEXTS = {
    TailEnd.STOPPED: gettext_lazy("Stopped."),
    TailEnd.HIDDEN: gettext_lazy(
        "Ended: the page was not visible for {tail_hidden_seconds:.0f} s.", tail_hidden_seconds=TAIL_HIDDEN_SECONDS
    ),
    TailEnd.CLOSED: gettext_lazy("Ended: the connection was closed."),
    TailEnd.DENIED: gettext_lazy("Ended: you may not read these records."),
    TailEnd.FAILED: gettext_lazy("Ended by an error of the console."),
}


class TailState(StrEnum):
    STARTING = "starting"
    LIVE = "live"
    PAUSED = "paused"
    ENDED = "ended"


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(settings.WEIR.tails_max, thread_name_prefix="record-tail")


async def _in_thread(function: Callable[..., T], *arguments: object) -> T:
    call = DatabaseSyncToAsync(function, thread_sensitive=False, executor=_threads())
    return await call(*arguments)  # type: ignore[no-any-return]


_running: set[asyncio.Task[None]] = set()
"""The event loop has weak references to tasks only."""


class PageTail:
    """`send`: sends a message to the browser; it does nothing once the socket is closed."""

    def __init__(self, user: User, send: Callable[[dict[str, object]], Awaitable[None]]) -> None:
        self._user, self._send = user, send
        self._run: _TailRun | None = None

    def receive(self, message: object) -> None:
        if not isinstance(message, dict):
            return
        number, do = message.get("id"), message.get("do")
        if do == "start" and isinstance(number, int):
            self.end(TailEnd.STOPPED)
            self._run = _TailRun(
                self._user, self._send, known_language(message.get("language")), number, str(message.get("query", ""))
            )
            task = asyncio.create_task(self._run.run())
            _running.add(task)
            task.add_done_callback(_running.discard)
        elif self._run is not None and number == self._run.number:
            self._run.receive(do)

    def end(self, end: TailEnd) -> None:
        if self._run is not None:
            self._run.end(end)
            self._run = None


class _TailRun:
    """One tail from its start to its end."""

    def __init__(
        self, user: User, send: Callable[[dict[str, object]], Awaitable[None]], language: str, number: int, query: str
    ) -> None:
        self.number = number
        self._user, self._send, self._language, self._query = user, send, language, query
        self._paused = False
        self._end: TailEnd | None = None
        self._visible_at = time.monotonic()
        self._wake = asyncio.Event()
        self._sent: dict[str, str] = {}

    def receive(self, do: object) -> None:
        if do == "visible":
            self._visible_at = time.monotonic()
        elif do in ("pause", "resume"):
            self._paused = do == "pause"
            self._wake.set()
        elif do == "stop":
            self.end(TailEnd.STOPPED)

    def end(self, end: TailEnd) -> None:
        self._end = self._end or end
        self._wake.set()

    async def run(self) -> None:
        tail: LiveTail | None = None
        note = ""
        try:
            if self._end is None:
                tail = await _in_thread(self._in_language, _open, self._user, self._query)
            while tail is not None and self._end is None:
                self._wake.clear()
                began = time.monotonic()
                state = TailState.PAUSED if self._paused else TailState.LIVE
                await self._send_update(state, *await _in_thread(self._in_language, _update, tail, self._paused))
                if time.monotonic() - self._visible_at >= TAIL_HIDDEN_SECONDS:
                    self.end(TailEnd.HIDDEN)
                await self._pause_between(max(UPDATE_SECONDS, time.monotonic() - began))
        except (PermissionDenied, Rejected) as error:
            self.end(TailEnd.DENIED if isinstance(error, PermissionDenied) else TailEnd.FAILED)
            note = str(error)
        except Exception:
            log.exception("live tail failed")
            self.end(TailEnd.FAILED)
        end = self._end or TailEnd.FAILED
        if tail is not None:
            await _in_thread(tail.close, end)
        await self._send_update(TailState.ENDED, [], "", note or self._in_language(str, END_TEXTS[end]))

    def _in_language(self, function: Callable[..., T], *arguments: object) -> T:
        with translation.override(self._language):
            return function(*arguments)

    async def _pause_between(self, seconds: float) -> None:
        """Wait between two updates. The wait is at least as long as the update took, so a busy tail uses at most half of a CPU core."""
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            pass

    async def _send_update(self, state: TailState, rows: list[str], status: str, note: str = "") -> None:
        """Send an update, if it has something that the page does not show."""
        shown = {"state": state.value, "status": status, "note": note}
        if self._end is not TailEnd.CLOSED and (rows or shown != self._sent):
            self._sent = shown
            try:
                await self._send({"tail": {"id": self.number, "rows": rows, **shown}})
            except (OSError, RuntimeError):  # the connection was closed since then
                self.end(TailEnd.CLOSED)


def _open(user: User, query: str) -> LiveTail:
    """Start a live tail for the query of a Messages page. Raises PermissionDenied and Rejected."""
    form = MessagesForm.of_address(QueryDict(query[:QUERY_CHARS_MAX]))
    if not form.is_valid():
        raise Rejected(" ".join(str(error) for errors in form.errors.values() for error in errors))
    return LiveTail(user, form.query(), form.formats())


def _update(tail: LiveTail, paused: bool) -> tuple[list[str], str]:
    """(rows as HTML, newest first, the status as HTML)"""
    update = tail.update(paused=paused)
    rows: list[str] = []
    size = 0
    for r in message_records(tail.topic, update.rows):
        row = render_to_string("console/parts/record_row.html", {"r": r}).strip()
        size += len(row.encode())
        if rows and size > TAIL_UPDATE_BYTES_MAX:
            break
        rows.append(row)
    tail.drop(len(update.rows) - len(rows))
    return rows, status_html(update, paused)


def status_html(update: TailUpdate, paused: bool) -> str:
    context = {
        "counts": update.counts,
        "problems": update.problems,
        "evaluation_errors": update.evaluation_errors,
        "paused": paused,
        "rate": ROWS_PER_SECOND_MAX,
        "records_per_s": update.records_per_s,
    }
    return render_to_string("console/parts/tail_status.html", context)
