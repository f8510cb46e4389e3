"""`python -m bench.console_browsers URL SOCKET_URL COOKIE COUNT FIRST MOVE`: open pages of the console, as the JavaScript of the pages keeps them up to date.

Each page has a WebSocket with its subjects. It reloads the panels that an update names: at most every 1.5 s, less often when the server is slow, and at most
every 5 s for panels that follow progress. A page without panels reloads itself, at most every 3 s (static/weir/panels.js). Browsers run on other machines than
the console, so the program has a lower priority in the operating system. It opens FIRST of the pages
and prints "open". After a line of input it opens the others and prints "open" again. After the end of its input it prints their values as JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import html
import json
import os
import random
import re
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from bench.console_rows import group_name, topic_name

PAGE_SECONDS_MIN, PANEL_SECONDS_MIN = 3.0, 1.5
PANEL_SECONDS_MAX, PANEL_SHARE, PANEL_SPREAD_S = 10.0, 10, 0.1
RETRY_SECONDS = 1.0
ORDER_SEED = 1
OPENING_MAX = 10
"""Pages that are opened at the same time."""
SLOW_S = 5.0
NICENESS = 10
PANEL = re.compile(r'<[^>]*\bdata-refresh="([^"]*)"[^>]*>')
SLOWLY = re.compile(r'\bdata-refresh-slowly="([^"]*)"')
SUBJECT = re.compile(r'\bdata-subject="([^"]*)"')
POSITION = re.compile(r'data-run="([^"]*)" data-seq="(-?\d+)"')


@dataclass
class Measurements:
    """Sums over all pages. `frame_bytes`: number of messages by size. `panel_ms`: server time of requests for panels."""

    frame_bytes: Counter[int] = field(default_factory=Counter)
    panel_ms: list[float] = field(default_factory=list)
    panel_requests: int = 0
    reloads: int = 0
    reconnects: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    cells: int = 0
    age_s_max: float = 0.0
    silent_s_max: float = 0.0
    """Longest time without a message. A heartbeat comes every 3 s."""


def paths(count: int, move: int) -> list[str]:
    """The pages of `count` browsers, in a fixed mix."""
    mix = [
        *["/"] * 20,
        *[f"/topics/?page={n % 4 + 1}" for n in range(20)],
        *[f"/topics/{topic_name(n)}/" for n in range(15)],
        *[f"/groups/{group_name(n)}/" for n in range(15)],
        *[f"/moves/{move}/"] * 10,
        *[f"/brokers/{n % 5 + 1}/" for n in range(10)],
        *["/alerts/"] * 10,
    ]
    return [mix[n * len(mix) // count] for n in range(count)]


class Browser:
    def __init__(self, client: httpx.AsyncClient, path: str, language: str, measurements: Measurements) -> None:
        self.client, self.path, self.language, self.measurements = client, path, language, measurements
        self.run, self.seq = "", -1
        self.page: frozenset[str] = frozenset()
        self.panels: dict[str, frozenset[str]] = {}
        """Names by panel."""
        self.slow_panels: dict[str, frozenset[str]] = {}
        """Names by panel, of the updates that reload it slowly."""
        self.reloaded_at: dict[str, float] = {}
        self.later: set[str] = set()
        """Panels that become due when SLOW_S has passed since their last reload."""
        self.parts: dict[str, frozenset[str]] = {}
        """Subjects by panel, of reloaded panels."""
        self.due: set[str] = set()
        self.page_due = False
        self.panel_spread_s = PANEL_SPREAD_S
        """The requests of all pages for panels are spread over this time. The server sends it."""
        self.wake = asyncio.Event()
        self.opened = asyncio.Event()
        self.socket: ClientConnection | None = None

    async def get(self, headers: dict[str, str] | None = None) -> httpx.Response | None:
        try:
            response = await self.client.get(self.path, headers=headers)
        except httpx.HTTPError as e:
            self.measurements.errors[type(e).__name__] += 1
            return None
        if response.status_code != 200:
            self.measurements.errors[str(response.status_code)] += 1
            return None
        return response

    async def load(self) -> None:
        response = await self.get()
        if response is None or (position := POSITION.search(response.text)) is None:
            return
        self.run, self.seq = position[1], int(position[2])
        self.page = frozenset(html.unescape(s) for s in SUBJECT.findall(response.text))
        self.panels, self.slow_panels, self.parts = {}, {}, {}
        for match in PANEL.finditer(response.text):
            found = re.search(r'\bid="([^"]*)"', match[0])
            if found and "data-refresh-as" not in match[0]:
                self.panels[found[1]] = frozenset(html.unescape(match[1]).split())
                if slowly := SLOWLY.search(match[0]):
                    self.slow_panels[found[1]] = frozenset(html.unescape(slowly[1]).split())
        await self.subscribe()

    async def subscribe(self) -> None:
        if self.socket is not None:
            subjects = self.page.union(*self.panels.values(), *self.slow_panels.values(), *self.parts.values())
            message = {"run": self.run, "seq": self.seq, "language": self.language, "subjects": sorted(subjects)}
            try:
                await self.socket.send(json.dumps(message))
            except WebSocketException:
                pass  # `keep_connected` connects again

    async def reload_panels(self) -> None:
        ids = sorted(self.due)
        self.due.clear()
        self.reloaded_at |= dict.fromkeys(ids, time.monotonic())
        response = await self.get({"Weir-Panels": " ".join(ids), "Weir-Position": f"{self.run} {self.seq}"})
        if response is None:
            return
        self.measurements.panel_requests += 1
        self.measurements.panel_ms.append(float(response.headers["bench-ms"]))
        places = sorted((response.text.find(f'id="{i}"'), i) for i in ids)
        for n, (place, i) in enumerate(places):
            end = places[n + 1][0] if n + 1 < len(places) else None
            self.parts[i] = frozenset(html.unescape(s) for s in SUBJECT.findall(response.text[max(0, place) : end]))
        await self.subscribe()

    async def keep_current(self) -> None:
        page_at = panels_at = time.monotonic()
        panel_s = PANEL_SECONDS_MIN
        while True:
            await self.wake.wait()
            self.wake.clear()
            if self.page_due:
                await asyncio.sleep(max(0.0, page_at + PAGE_SECONDS_MIN - time.monotonic()))
                self.page_due, page_at = False, time.monotonic()
                self.measurements.reloads += 1
                await self.load()
            elif self.due:
                spread_s = self.panel_spread_s * random.random()
                await asyncio.sleep(max(0.0, panels_at + panel_s - time.monotonic()) + spread_s)
                panels_at = time.monotonic()
                await self.reload_panels()
                taken_s = time.monotonic() - panels_at
                panel_s = min(PANEL_SECONDS_MAX, max(PANEL_SECONDS_MIN, PANEL_SHARE * taken_s))
            if self.page_due or self.due:
                self.wake.set()

    def on_message(self, text: str) -> None:
        self.measurements.frame_bytes[len(text.encode())] += 1
        message: dict[str, Any] = json.loads(text)
        if message.get("reload"):
            self.page_due = True
        else:
            self.run, self.seq = message["run"], message["seq"]
            self.measurements.cells += len(message["cells"])
            self.measurements.age_s_max = max(self.measurements.age_s_max, message["age_s"] or 0.0)
            self.panel_spread_s = message["panel_spread_ms"] / 1000
            names = set(message["refresh"])
            self.due |= {i for i, wanted in self.panels.items() if wanted & names}
            for i, wanted in self.slow_panels.items():
                if wanted & names and i not in self.later:
                    self.later.add(i)
                    wait_s = max(0.0, self.reloaded_at.get(i, 0.0) + SLOW_S - time.monotonic())
                    asyncio.get_running_loop().call_later(wait_s, self._due_now, i)
        if self.page_due or self.due:
            self.wake.set()

    def _due_now(self, panel: str) -> None:
        self.later.discard(panel)
        self.due.add(panel)
        self.wake.set()

    async def keep_connected(self, url: str, headers: dict[str, str], opening: asyncio.Semaphore) -> None:
        async with opening:
            await self.load()
        while True:
            try:
                async with connect(url, additional_headers=headers, proxy=None, max_size=None) as self.socket:
                    await self.subscribe()
                    received_at = time.monotonic()
                    async for text in self.socket:
                        self.measurements.silent_s_max = max(
                            self.measurements.silent_s_max, time.monotonic() - received_at
                        )
                        received_at = time.monotonic()
                        self.opened.set()
                        self.on_message(str(text))
            except (OSError, WebSocketException) as e:
                self.measurements.errors[type(e).__name__] += 1
            self.socket = None
            self.measurements.reconnects += 1
            await asyncio.sleep(RETRY_SECONDS)


async def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("url")
    options.add_argument("socket_url", help="address of the WebSocket")
    options.add_argument("cookie", help="value of the header Cookie of a login")
    options.add_argument("count", type=int)
    options.add_argument("first", type=int, help="pages that are opened first")
    options.add_argument("move", type=int, help="id of a running move")
    arguments = options.parse_args()
    os.nice(NICENESS)
    headers = {"Cookie": arguments.cookie, "Origin": arguments.url}
    measurements = Measurements()
    limits = httpx.Limits(max_connections=arguments.count, keepalive_expiry=2.0)  # uvicorn closes after 5 s
    async with httpx.AsyncClient(
        base_url=arguments.url, headers=headers, limits=limits, timeout=60, trust_env=False
    ) as client:
        browsers = [
            Browser(client, path, "zh-hans" if n % 10 == 9 else "en", measurements)
            for n, path in enumerate(paths(arguments.count, arguments.move))
        ]
        opening = asyncio.Semaphore(OPENING_MAX)
        random.Random(ORDER_SEED).shuffle(browsers)  # the first pages are of all kinds
        tasks: list[asyncio.Task[None]] = []
        for part in (browsers[: arguments.first], browsers[arguments.first :]):
            tasks += [asyncio.create_task(b.keep_connected(arguments.socket_url, headers, opening)) for b in part]
            tasks += [asyncio.create_task(b.keep_current()) for b in part]
            for browser in part:
                await browser.opened.wait()
            print("open", flush=True)
            await asyncio.to_thread(sys.stdin.readline)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    print(json.dumps(vars(measurements)), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
