"""Contact sheets of every page of the console, to be looked at: `python -m tests.browser.screenshots [--only NAME ...]`.

Each page in English and Chinese, in the light and the dark theme, at three widths, on the rows of tests/browser/seeded_server.py. Two sheets
for each page are written to build/screenshots/sheets: NAME.png has the widest pictures, NAME-narrow.png the others. --languages, --themes and
--widths take only some pictures, and no sheets. A list of what is wider than its window is printed. Whether a page is good is not decided here: somebody looks."""

from __future__ import annotations

import argparse
import html
import itertools
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, Error, Page, sync_playwright

from tests.browser.conftest import ARGS, CHROMIUM, PRICES, SHOTS, BrowserSession, WebServer, connect_worker
from tests.browser.pages import CUT, NIGHT_PAGES, PAGES, SILENT_MONITOR, WITHOUT_LOGIN
from tests.browser.responses import ADMINISTRATOR
from tests.browser.seeded_server import PASSWORD

LANGUAGES, THEMES, WIDTHS = ("en", "zh-hans"), ("light", "dark"), (390, 768, 1440)
ADDRESSES = {**PAGES, **NIGHT_PAGES, **WITHOUT_LOGIN}
HEIGHT_MAX = 1400
"""Pixels of a page that a picture has: more is a list that goes on."""
SCALES = {390: 1.0, 768: 0.62, 1440: 0.7}
"""Size of a picture on its sheet."""
LIVE_MS = 3_000
RESIZE_MS = 400
"""Charts follow the width of the window after a moment."""
OLD_DATA_S = 95
CHINESE_FONT = "fonts-wqy-microhei"


@dataclass(frozen=True, slots=True)
class Screenshot:
    page: str
    language: str
    theme: str
    width: int

    @property
    def path(self) -> Path:
        return SHOTS / "pages" / self.page / f"{self.width}-{self.language}-{self.theme}.png"


@dataclass(frozen=True, slots=True)
class Choice:
    """The pictures to take of each page."""

    languages: tuple[str, ...] = LANGUAGES
    themes: tuple[str, ...] = THEMES
    widths: tuple[int, ...] = WIDTHS


EVERY = Choice()


def pictures(pages: Iterable[str], choice: Choice = EVERY) -> Iterator[Screenshot]:
    """Every chosen picture of these pages."""
    for page, language, theme, width in itertools.product(pages, choice.languages, choice.themes, choice.widths):
        yield Screenshot(page, language, theme, width)


def take(browser: Browser, server: WebServer, pages: Sequence[str], choice: Choice = EVERY) -> list[str]:
    """Write the pictures. Returns what does not fit into its window."""
    misfits: list[str] = []
    base = server.base
    anonymous = browser.new_context(base_url=base)
    for language, theme in itertools.product(choice.languages, choice.themes):
        session = BrowserSession(browser, base, ADMINISTRATOR, PASSWORD)
        cookies = [
            {"name": n, "value": v, "url": base} for n, v in (("weir_language", language), ("weir_theme", theme))
        ]
        for context in (session.context, anonymous):
            context.add_cookies(cookies)  # type: ignore[arg-type]
        login_page = anonymous.new_page()
        for name in pages:
            own = name in WITHOUT_LOGIN
            page = login_page if own else session.page
            page.set_viewport_size({"width": choice.widths[-1], "height": 900})
            if name == SILENT_MONITOR:
                server.publish("age", OLD_DATA_S)
                page.wait_for_timeout(2 * LIVE_MS)
            page.goto(ADDRESSES[name])
            if not own:
                _wait_for_updates(page)
            for picture in pictures([name], Choice((language,), (theme,), choice.widths)):
                misfits += [f"{picture.path.relative_to(SHOTS)}: {cut}" for cut in _shoot(page, picture)]
            if name == SILENT_MONITOR:
                server.publish("age", 0)
                page.wait_for_timeout(2 * LIVE_MS)
        session.context.close()
    return misfits


def _wait_for_updates(page: Page) -> None:
    try:
        page.wait_for_selector("#live.on", timeout=LIVE_MS)
    except Error:
        pass  # the picture shows it


def _shoot(page: Page, picture: Screenshot) -> list[str]:
    page.set_viewport_size({"width": picture.width, "height": 900})
    if page.locator(".chart").count():
        page.wait_for_timeout(RESIZE_MS)
    height = min(HEIGHT_MAX, int(page.evaluate("document.documentElement.scrollHeight")))
    picture.path.parent.mkdir(parents=True, exist_ok=True)
    clip = {"x": 0, "y": 0, "width": picture.width, "height": height}
    page.screenshot(path=picture.path, full_page=True, clip=clip, caret="initial")  # type: ignore[arg-type]
    found = [str(cut) for cut in page.evaluate(CUT)]
    wide = int(page.evaluate("document.documentElement.scrollWidth"))
    return [f"the page has {wide} pixels", *found] if wide > picture.width else found


def sheet(page: Page, name: str) -> None:
    """Write the two contact sheets of a page."""
    of_page = list(pictures([name]))
    wide = [p for p in of_page if p.width == WIDTHS[-1]]
    narrow = sorted((p for p in of_page if p.width != WIDTHS[-1]), key=lambda p: -p.width)
    for suffix, chosen, columns in (("", wide, 2), ("-narrow", narrow, 4)):
        rows = [chosen[i : i + columns] for i in range(0, len(chosen), columns)]
        body = "".join(f"<div>{''.join(map(_figure, row))}</div>" for row in rows)
        style = "body{margin:8px;background:#888;font:14px sans-serif;width:max-content}div{display:flex;gap:8px}"
        file = SHOTS / "sheets" / f"{name}{suffix}.html"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(
            f"<!doctype html><meta charset=utf-8><style>{style}figure{{margin:0 0 8px}}</style><h3>{name}</h3>{body}"
        )
        page.goto(file.as_uri())
        box = page.locator("body").bounding_box()
        assert box is not None
        page.set_viewport_size({"width": int(box["width"]) + 16, "height": int(box["height"]) + 16})
        page.screenshot(path=file.with_suffix(".png"))
        file.unlink()


def _figure(picture: Screenshot) -> str:
    width = round(picture.width * SCALES[picture.width])
    caption = html.escape(f"{picture.width} {picture.language} {picture.theme}")
    return f'<figure><img src="{picture.path.as_uri()}" width="{width}"><figcaption>{caption}</figcaption></figure>'


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    names = list(ADDRESSES)
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="NAME", help="names of pages")
    parser.add_argument("--languages", nargs="+", choices=LANGUAGES, default=LANGUAGES, help="default: all")
    parser.add_argument("--themes", nargs="+", choices=THEMES, default=THEMES, help="default: all")
    parser.add_argument("--widths", nargs="+", type=int, choices=WIDTHS, default=WIDTHS, help="default: all")
    chosen = parser.parse_args(arguments)
    choice = Choice(tuple(chosen.languages), tuple(chosen.themes), tuple(chosen.widths))
    if not subprocess.run(["fc-list", ":lang=zh"], capture_output=True, text=True, check=False).stdout:
        sys.exit(f"Chinese texts need a font of the system (Debian: apt install {CHINESE_FONT}).")
    began, misfits = time.monotonic(), list[str]()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        for options in ((), ("--night",)):
            pages = [name for name in chosen.only if (name in NIGHT_PAGES) == bool(options)]
            if pages:
                misfits += _take_from_server(browser, options, pages, choice)
        if choice == EVERY:
            page = browser.new_page()
            for name in chosen.only:
                sheet(page, name)
        browser.close()
    print(*misfits, sep="\n")
    taken = len(list(pictures(chosen.only, choice)))
    print(f"{taken} pictures of {len(chosen.only)} pages in {time.monotonic() - began:.0f} s; {SHOTS}")


def _take_from_server(browser: Browser, options: Sequence[str], pages: Sequence[str], choice: Choice) -> list[str]:
    with tempfile.TemporaryDirectory() as folder, connect_worker() as worker:
        server = WebServer(Path(folder), *options, WEIR_CONNECT_URLS=f"etl={worker.url}", **PRICES)
        try:
            return take(browser, server, pages, choice)
        finally:
            server.end()


if __name__ == "__main__":
    main()
