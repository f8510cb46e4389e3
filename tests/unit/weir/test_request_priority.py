"""Requests for panels run one at a time and wait for pages, for a bounded time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from weir import request_priority
from weir.request_priority import PagesFirst


class Requests:
    """Requests to an application that responds when the test says so. `running`: paths of the requests that run."""

    def __init__(self) -> None:
        self.running: list[str] = []
        self._release: dict[str, asyncio.Event] = {}
        self._application = PagesFirst(self._respond)
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def _respond(self, scope: Any, receive: Any, send: Any) -> None:
        path = scope["path"]
        self.running.append(path)
        try:
            await self._release[path].wait()
            if path.startswith("/fail"):
                raise ValueError(path)
            await send({"type": "http.response.start", "status": 200, "headers": []})
            if path.startswith("/stream"):
                await asyncio.sleep(3600)
        finally:
            self.running.remove(path)

    async def begin(self, path: str, *, panels: bool = False) -> None:
        async def send(message: Any) -> None:
            pass

        headers = [(b"host", b"a"), *([(b"weir-panels", b"topics")] if panels else [])]
        self._release[path] = asyncio.Event()
        scope = {"type": "http", "path": path, "headers": headers}
        self._tasks[path] = asyncio.create_task(self._application(scope, send, send))
        await let_tasks_run()

    async def end(self, path: str) -> None:
        self._release[path].set()
        await let_tasks_run()

    async def cancel(self, path: str) -> None:
        self._tasks[path].cancel()
        await let_tasks_run()

    async def cancel_all(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)


async def let_tasks_run() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def run(scenario: Callable[[Requests], Awaitable[None]]) -> None:
    async def main() -> None:
        requests = Requests()
        try:
            await scenario(requests)
        finally:
            await requests.cancel_all()

    asyncio.run(main())


def test_panels_wait_for_every_page_and_pages_for_nothing() -> None:
    async def scenario(requests: Requests) -> None:
        await requests.begin("/one")
        await requests.begin("/panels", panels=True)
        await requests.begin("/two")
        assert requests.running == ["/one", "/two"]
        await requests.end("/one")
        assert requests.running == ["/two"]
        await requests.end("/two")
        assert requests.running == ["/panels"]
        await requests.begin("/three")
        assert requests.running == ["/panels", "/three"]

    run(scenario)


def test_panels_run_one_at_a_time_in_their_order() -> None:
    async def scenario(requests: Requests) -> None:
        for path in ("/first", "/second", "/third"):
            await requests.begin(path, panels=True)
        assert requests.running == ["/first"]
        await requests.end("/first")
        assert requests.running == ["/second"]
        await requests.end("/second")
        assert requests.running == ["/third"]

    run(scenario)


@pytest.mark.parametrize("page", ["/failed", "/stream"])
def test_a_page_counts_until_its_response_begins_or_it_fails(page: str) -> None:
    async def scenario(requests: Requests) -> None:
        await requests.begin(page)
        await requests.begin("/panels", panels=True)
        assert requests.running == [page]
        await requests.end(page)
        assert "/panels" in requests.running

    run(scenario)


def test_a_page_that_waits_for_brokers_delays_panels_for_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_priority, "RENDERING_SECONDS", 0.01)

    async def scenario(requests: Requests) -> None:
        await requests.begin("/search")
        await requests.begin("/panels", panels=True)
        await asyncio.sleep(0.1)
        assert requests.running == ["/search", "/panels"]
        await requests.end("/search")
        await requests.begin("/page")
        await requests.begin("/later", panels=True)
        assert requests.running == ["/panels", "/page"], "the page has ended once"

    run(scenario)


def test_panels_run_after_their_maximum_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_priority, "WAIT_SECONDS", 0.01)

    async def scenario(requests: Requests) -> None:
        await requests.begin("/page")
        await requests.begin("/first", panels=True)
        await requests.begin("/second", panels=True)
        await asyncio.sleep(0.1)
        assert requests.running == ["/page", "/first", "/second"]

    run(scenario)


def test_a_browser_that_leaves_while_its_panels_wait_takes_no_place() -> None:
    async def scenario(requests: Requests) -> None:
        await requests.begin("/page")
        await requests.begin("/left", panels=True)
        await requests.begin("/also-left", panels=True)
        await requests.begin("/panels", panels=True)
        await requests.cancel("/left")
        await requests.cancel("/also-left")
        await requests.end("/page")
        assert requests.running == ["/panels"]

    run(scenario)
