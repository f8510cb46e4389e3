"""The order of requests in a web process: a request for live panels waits while a page is rendered.

An update of the cluster makes every open page request its panels. Threads share the interpreter, so without an order a page that an operator opens at this moment
takes several times its own CPU time. Invariants: a request is never rejected here, and waits for at most `WAIT_SECONDS`. Does not contain: the spread of
requests for panels (`console.live_fanout`), and the rows that they share (`controlplane.selectors.shared_rows`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, cast

from console.panels import PANELS_HEADER

if TYPE_CHECKING:
    Scope = dict[str, object]
    Message = Mapping[str, object]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]
    Application = Callable[[Scope, Receive, Send], Awaitable[None]]

WAIT_SECONDS = 2.0
"""Maximum wait of a request for panels. Afterwards it runs together with the others, so that a busy process still updates its open pages."""
RENDERING_SECONDS = 1.0
"""After this time a request for a page counts no longer: it waits for brokers, for example a search of messages, and needs no CPU."""

_header = PANELS_HEADER.lower().encode()


class PagesFirst:
    """An ASGI application for HTTP that runs one request for panels at a time, while no page is rendered."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._rendering = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._panels = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if any(name == _header for name, _ in cast(list[tuple[bytes, bytes]], scope["headers"])):
            async with self._place():
                await self._application(scope, receive, send)
        else:
            await self._run_page(scope, receive, send)

    async def _run_page(self, scope: Scope, receive: Receive, send: Send) -> None:
        rendered = False

        def end() -> None:
            nonlocal rendered
            if not rendered:
                rendered = True
                self._rendering -= 1
                if not self._rendering:
                    self._idle.set()

        async def send_rendered(message: Message) -> None:
            end()
            await send(message)

        self._rendering += 1
        self._idle.clear()
        timer = asyncio.get_running_loop().call_later(RENDERING_SECONDS, end)
        try:
            await self._application(scope, receive, send_rendered)
        finally:
            timer.cancel()
            end()

    @asynccontextmanager
    async def _place(self) -> AsyncIterator[None]:
        """Wait until no page is rendered and no other panels are, but at most `WAIT_SECONDS`."""
        has_place = False
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(WAIT_SECONDS):
                    has_place = await self._panels.acquire()
                    await self._idle.wait()
            yield
        finally:
            if has_place:
                self._panels.release()
