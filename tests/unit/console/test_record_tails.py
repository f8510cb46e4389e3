"""The live tail of a WebSocket: start, rows, pause, the reasons of its end, one thread at a time. The service is replaced."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied

from console import record_tails
from console.record_tails import PageTail, status_html
from console.views.messages import TAIL_HIDDEN_SECONDS
from controlplane.domain.record_tail import TailCounts, TailEnd
from controlplane.selectors.messages import MessageRow
from controlplane.services import Rejected
from controlplane.services.record_tails import TailUpdate

QUERY = "topic=orders&value_contains=x&tail=on"
Scene = Callable[["Browser"], Awaitable[None]]


class FakeTail:
    """Each update has one row of `value`; the value is markup."""

    topic = "orders"
    value = "<script>alert(1)</script>"
    opened: list[FakeTail] = []
    error: Exception | None = None

    def __init__(self, user: Any, query: Any, formats: Any) -> None:
        if isinstance(self.error, Rejected):
            raise self.error
        self.query, self.ends = query, list[TailEnd]()
        self.counts = TailCounts()
        self.busy, self.closed = threading.Lock(), threading.Event()
        self.threads: set[str] = set()
        self.opened.append(self)

    def update(self, *, paused: bool) -> TailUpdate:
        assert self.busy.acquire(blocking=False), "two threads use one tail"
        try:
            self.threads.add(threading.current_thread().name)
            if self.error is not None:
                raise self.error
            self.counts.scanned += 1
            if paused:
                self.counts.passed_over += 1
                return TailUpdate([], self.counts, [])
            self.counts.shown += 1
            row = MessageRow(0, self.counts.scanned, 1_000, "k", self.value, 1, 1, [], [])
            return TailUpdate([row], self.counts, [])
        finally:
            self.busy.release()

    def drop(self, count: int) -> None:
        self.counts.dropped += count

    def close(self, end: TailEnd) -> None:
        self.ends.append(end)
        self.closed.set()


class Browser:
    def __init__(self) -> None:
        self.updates: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.fails = False
        self.tail = PageTail(AnonymousUser(), self._send)

    async def _send(self, message: dict[str, Any]) -> None:
        if self.fails:
            raise RuntimeError("websocket closed")
        self.updates.put_nowait(json.loads(json.dumps(message))["tail"])  # as the socket sends it

    def send(self, do: str, number: int = 1, **more: Any) -> None:
        self.tail.receive({"id": number, "do": do, **more})

    async def receive_until(self, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        async with asyncio.timeout(30):
            while not condition(update := await self.updates.get()):
                pass
        return update

    async def state(self, state: str, number: int = 1) -> dict[str, Any]:
        return await self.receive_until(lambda update: (update["state"], update["id"]) == (state, number))


def run(scene: Scene) -> None:
    async def main() -> None:
        browser = Browser()
        try:
            await scene(browser)
        finally:
            browser.tail.end(TailEnd.CLOSED)
            await asyncio.gather(*record_tails._running)

    asyncio.run(main())


@pytest.fixture(autouse=True)
def fake_tails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_tails, "UPDATE_SECONDS", 0.01)
    monkeypatch.setattr(record_tails, "LiveTail", FakeTail)
    monkeypatch.setattr(FakeTail, "opened", [])


def test_rows_are_escaped_and_read_in_a_thread_of_the_tails() -> None:
    async def use_browser(browser: Browser) -> None:
        browser.send("start", query=QUERY)
        update = await browser.state("live")
        (row,) = update["rows"]
        assert row.startswith("<tr>") and "<script>" not in row and "&lt;script&gt;" in row
        assert "1 shown, 1 scanned" in update["status"]
        (tail,) = FakeTail.opened
        assert (tail.query.topic, tail.query.filters.value_contains) == ("orders", "x")
        assert all(name.startswith("record-tail") for name in tail.threads)

    run(use_browser)


def test_the_texts_of_a_tail_have_the_language_of_its_page() -> None:
    async def use_browser(browser: Browser) -> None:
        browser.send("start", query=QUERY, language="zh-hans")
        assert "shown" not in (await browser.state("live"))["status"]
        browser.send("stop")
        note = (await browser.state("ended"))["note"]
        assert note and note != "Stopped."

    run(use_browser)


def test_a_pause_counts_and_a_resume_shows_records_again() -> None:
    async def use_browser(browser: Browser) -> None:
        browser.send("start", query=QUERY)
        await browser.state("live")
        browser.send("pause")
        update = await browser.receive_until(lambda u: u["state"] == "paused" and "skipped" in u["status"])
        assert update["rows"] == [] and "since the pause" in update["status"]
        browser.send("resume")
        update = await browser.state("live")
        assert update["rows"] and "during the pause" in update["status"]

    run(use_browser)


def test_a_stop_ends_the_tail_and_sends_its_state() -> None:
    async def use_browser(browser: Browser) -> None:
        browser.send("start", query=QUERY)
        await browser.state("live")
        browser.send("stop")
        assert (await browser.state("ended"))["note"] == "Stopped."
        assert FakeTail.opened[0].ends == [TailEnd.STOPPED]

    run(use_browser)


def test_a_second_start_ends_the_first_tail() -> None:
    async def use_browser(browser: Browser) -> None:
        browser.send("start", query=QUERY)
        await browser.state("live")
        browser.send("start", 2, query=QUERY)
        browser.send("stop", 1)  # a late message of the first one
        await browser.state("live", 2)
        first, second = FakeTail.opened
        assert await asyncio.to_thread(first.closed.wait, 30)
        assert first.ends == [TailEnd.STOPPED] and second.ends == []

    run(use_browser)


def test_a_tail_ends_without_a_visible_page() -> None:
    async def use_browser(browser: Browser) -> None:
        browser.send("start", query=QUERY)
        await browser.state("live")
        started = browser.tail._run
        assert started is not None
        started._visible_at -= 2 * TAIL_HIDDEN_SECONDS
        browser.send("visible")
        for _ in range(3):
            await browser.state("live")
        assert FakeTail.opened[0].ends == [], "the page is visible"
        started._visible_at -= 2 * TAIL_HIDDEN_SECONDS
        assert "not visible" in (await browser.state("ended"))["note"]
        assert FakeTail.opened[0].ends == [TailEnd.HIDDEN]

    run(use_browser)


def test_a_closed_connection_ends_the_tail() -> None:
    async def use_browser(browser: Browser) -> None:
        browser.send("start", query=QUERY)
        await browser.state("live")
        browser.fails = True
        async with asyncio.timeout(30):
            await asyncio.gather(*record_tails._running)
        assert FakeTail.opened[0].ends == [TailEnd.CLOSED]

    run(use_browser)


@pytest.mark.parametrize(
    ("error", "end", "note"),
    [
        (PermissionDenied("The permission was taken away."), TailEnd.DENIED, "The permission was taken away."),
        (ValueError("a bug"), TailEnd.FAILED, "Ended by an error of the console."),
    ],
)
def test_an_error_during_the_tail_ends_it(
    monkeypatch: pytest.MonkeyPatch, error: Exception, end: TailEnd, note: str
) -> None:
    async def use_browser(browser: Browser) -> None:
        browser.send("start", query=QUERY)
        await browser.state("live")
        monkeypatch.setattr(FakeTail, "error", error)
        assert (await browser.state("ended"))["note"] == note
        assert FakeTail.opened[0].ends == [end]

    run(use_browser)


@pytest.mark.parametrize("query", ["", "topic=orders&partitions=x", "topic=orders&limit=0", "x" * 50_000])
def test_an_invalid_query_opens_nothing(query: str) -> None:
    async def use_browser(browser: Browser) -> None:
        browser.send("start", query=query)
        assert (await browser.state("ended"))["note"]
        assert not FakeTail.opened

    run(use_browser)


def test_a_rejected_tail_shows_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeTail, "error", Rejected("You have 3 live tails already."))

    async def use_browser(browser: Browser) -> None:
        browser.send("start", query=QUERY)
        assert (await browser.state("ended"))["note"] == "You have 3 live tails already."

    run(use_browser)


@pytest.mark.parametrize(
    "message", [None, [], {}, {"id": "1", "do": "start"}, {"id": 1, "do": "pause"}, {"id": 1, "do": []}]
)
def test_other_messages_are_ignored(message: Any) -> None:
    async def use_browser(browser: Browser) -> None:
        browser.tail.receive(message)
        assert not record_tails._running

    run(use_browser)


def test_an_update_is_limited_in_bytes_and_counts_omitted_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [MessageRow(0, o, 1_000, "k", "v" * 2_000, 1, 1, [], []) for o in range(10)]
    tail = FakeTail(None, None, None)
    monkeypatch.setattr(tail, "update", lambda *, paused: TailUpdate(rows, tail.counts, []))
    monkeypatch.setattr(record_tails, "TAIL_UPDATE_BYTES_MAX", 12_000)
    shown, status = record_tails._update(tail, False)  # type: ignore[arg-type]
    assert 1 <= len(shown) < 10 and tail.counts.dropped == 10 - len(shown)
    assert f"{tail.counts.dropped} records not shown: more than 50/s or too large." in " ".join(status.split())
    monkeypatch.setattr(record_tails, "TAIL_UPDATE_BYTES_MAX", 1)
    assert len(record_tails._update(tail, False)[0]) == 1  # type: ignore[arg-type]


def test_problems_of_many_partitions_are_counted() -> None:
    problems = [f"Partition {p}: no leader" for p in range(5)]
    text = status_html(TailUpdate([], TailCounts(unread=1_200), problems), False)
    assert "1,200 records not read" in text and "Partition 2" in text and "Partition 3" not in text
    assert "5 partitions have a problem." in text
