"""Headless Chromium, and the console on seeded rows. `make browser` writes screenshots to build/screenshots."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests import migrated_database
from tests.browser.seeded_server import PASSWORD, PUBLISHED, USER
from tests.cluster.local import ROOT, free_port, wait_for
from tests.unit.connect_server import WorkerState, running_worker

expect.set_options(timeout=120_000)  # a busy machine is slow

SHOTS = ROOT / "build" / "screenshots"
SCREENSHOTS = "BROWSER_SCREENSHOTS"
CHROMIUM = shutil.which("chromium-headless-shell") or "/usr/bin/chromium"
"""The same engine without the window of a desktop: the tests of all pages need two thirds of the CPU."""
ARGS = [
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--no-first-run",
    "--no-proxy-server",
    "--disable-features=OptimizationHints,MediaRouter,Translate",
]


@pytest.fixture(scope="module")  # not session: Playwright keeps an event loop running in the main thread
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        yield browser
        browser.close()


PRICES = {"WEIR_PRICE_DISK_GB_MONTH": "0.08", "WEIR_PRICE_REMOTE_GB_MONTH": "0.023"}
"""Prices per GB and month: pages estimate the cost of topics."""

_COOKIES: dict[tuple[str, str], dict[str, str]] = {}
"""The cookies of the last login, by address and user."""


def csrf_token(cookies: Mapping[str, str]) -> str:
    """The token of the login form. Each console has a cookie name of its own."""
    return next(value for name, value in cookies.items() if name.startswith("weir_csrf_"))


def login(base: str, user: str, password: str) -> dict[str, str]:
    """The cookies of a session. The form of the login page has a test of its own: here a browser would need seconds for each test."""
    cookies = _COOKIES.get((base, user))
    if (
        cookies is None
        or httpx.get(f"{base}/palette/", cookies=cookies, timeout=120, trust_env=False).status_code != 200
    ):
        with httpx.Client(base_url=base, timeout=120, trust_env=False) as client:
            client.get("/login/")
            form = {"username": user, "password": password, "csrfmiddlewaretoken": csrf_token(client.cookies)}
            response = client.post("/login/", data=form, headers={"Referer": f"{base}/login/"})
            assert response.status_code == 302, response.text
            cookies = _COOKIES[base, user] = dict(client.cookies)
    return cookies


class BrowserSession:
    """A logged-in browser page that records every error and warning of the browser. `at`: the page that it opens."""

    def __init__(self, browser: Browser, base: str, user: str, password: str, *, at: str = "", **options: Any) -> None:
        options.setdefault("viewport", {"width": 1440, "height": 900})
        self.context = browser.new_context(base_url=base, **options)
        self.context.add_cookies([{"name": n, "value": v, "url": base} for n, v in login(base, user, password).items()])
        self.context.set_default_timeout(120_000)  # for every click and wait: a busy machine is slow
        self.page: Page = self.context.new_page()
        self.errors: list[str] = []
        self.page.on("pageerror", lambda e: self.errors.append(str(e)))
        self.page.on("console", lambda m: self.errors.append(m.text) if m.type == "error" else None)
        if at:
            self.page.goto(at)

    def shot(self, name: str, *, full: bool = False) -> None:
        """Write a screenshot if `SCREENSHOTS` is set, as `make browser` does. Without it, each picture would cost a tenth of a test of a page."""
        if SCREENSHOTS not in os.environ:
            return
        SHOTS.mkdir(parents=True, exist_ok=True)
        # caret="hide" leaves style attributes on the fields; htmx copies them and the content security policy rejects them.
        self.page.screenshot(path=SHOTS / f"{name}.png", full_page=full, caret="initial")

    def live(self) -> None:
        self.page.wait_for_selector("#live.on", timeout=120_000)


class WebServer:
    def __init__(self, folder: Path, *arguments: str, **variables: str) -> None:
        """`arguments`: options of `tests.browser.seeded_server`. `variables`: further environment variables."""
        self.port = free_port()
        self.base = f"http://127.0.0.1:{self.port}"
        environment = {
            **os.environ,
            "WEIR_DATA_DIR": str(folder),
            "WEIR_MONITOR": "off",
            "WEIR_SECRET_KEY": "only-for-browser-tests",
            **variables,
        }
        if not (folder / migrated_database.NAME).exists():
            migrated_database.put_into(folder)
        self.log = open(folder / "web.log", "wb")  # noqa: SIM115  closed with the process
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.browser.seeded_server", str(self.port), *arguments],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
        )
        wait_for(self._responds, f"the console; see {folder}/web.log", 150)

    def _responds(self) -> bool:
        assert self.process.poll() is None, "the console ended"
        try:
            return httpx.get(f"{self.base}/login/", timeout=2, trust_env=False).status_code == 200
        except httpx.HTTPError:
            return False

    def publish(self, kind: str, data: Any) -> None:
        """Publish one live update, as the cluster monitor would. A page that is opened after it has the update: it cannot reach a later test."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps({"kind": kind, "data": data}) + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline().strip() == PUBLISHED, "the console ended"

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.log.close()


@pytest.fixture(scope="session")
def web_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    with connect_worker() as worker:
        running = WebServer(tmp_path_factory.mktemp("served"), WEIR_CONNECT_URLS=f"etl={worker.url}", **PRICES)
        yield running
        running.end()


@pytest.fixture(scope="session")
def night(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    """A console whose rows have every kind of problem."""
    with connect_worker() as worker:
        running = WebServer(
            tmp_path_factory.mktemp("night"), "--night", WEIR_CONNECT_URLS=f"etl={worker.url}", **PRICES
        )
        yield running
        running.end()


@contextmanager
def connect_worker() -> Iterator[WorkerState]:
    """A small Connect cluster with a connector whose task failed, a paused one and a source."""
    with running_worker() as worker:
        url = "jdbc:postgresql://shop:s3cr3t-password@db:5432/shop"
        worker.add("orders-to-db", tasks=2, topics="orders", connection_url=url, connection_auth="s3cr3t-password")
        worker.add("flights-to-db", topics="flights", connection_url=url)
        worker.add("files", "shop.FileSource", connection_url="file:///data/in")
        worker.fail_task("orders-to-db", 1)
        worker.states["flights-to-db"] = "PAUSED"
        worker.topics["orders-to-db"] = ["orders"]
        partition = {"kafka_topic": "orders", "kafka_partition": 0}
        worker.offsets["orders-to-db"] = [{"partition": partition, "offset": {"kafka_offset": 1234}}]
        yield worker


@pytest.fixture
def session(chromium: Browser, web_server: WebServer) -> Iterator[BrowserSession]:
    session = BrowserSession(chromium, web_server.base, USER, PASSWORD)
    yield session
    session.context.close()
    assert not session.errors, session.errors
