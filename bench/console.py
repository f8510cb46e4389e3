"""`python -m bench.console`: milliseconds and queries per page of the console over HTTP, on a large seeded cluster with one broker down, first alone, then
beside open browsers.

Alone: one page at a time, without live updates. Beside browsers: the pages again while 100 browsers show pages with live updates of a busy cluster
(`bench.console_browsers`, `bench.console_updates`; 20 pages are opened first, then the others), and the sizes of the WebSocket's messages, memory and CPU of the web process before, with and after
the browsers. Ends with 1 if a limit is exceeded. WebSockets and updates have their own processes, with Redis between them, as in production (`redis-server` of
Debian). With `--monitor shared` the web process does everything, as in a local cluster. Not measured: the sampling and the writes of the cluster monitor.
"""

from __future__ import annotations

import argparse
import gzip
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.console_processes import ROOT, Web, console, environment_of, redis, update_source
from bench.console_rows import (
    BROKERS,
    DEAD,
    MOVES_OVER,
    MS_HEADER,
    QUERIES_HEADER,
    START,
    seed,
    seed_moves,
)

MS_MAX = 100.0
"""Budget: milliseconds of server time of any page, 95th percentile. From the request to the first byte, with the wait for other requests."""
GZIP_KB_MAX = 150.0
FRAME_BYTES_MAX = 10_000
BROWSER_MB_MAX = 1.0
"""Memory of the processes of pages and WebSockets per open page, after the first FIRST_PAGES pages. These cost more: the process buffers updates, and renders
pages at the same time."""
FIRST_PAGES = 20
GROWTH_MB_MAX = 25.0
"""Growth of the web process from the end of the first round of browsers to the end of the second."""
SILENT_S_MAX = 10.0
"""Longest time without a message to an open page. A heartbeat comes every 3 s, and the page warns after 15 s."""
SETTLE_SECONDS = 8.0
"""Time between the start or end of the browsers and a reading of memory."""
CPU_SECONDS = 15.0

PAGES = (
    "/",
    "/brokers/",
    "/brokers/1/",
    "/brokers/1/?sort=-size_bytes",
    "/brokers/1/?q=0077",
    f"/brokers/{DEAD}/",
    "/topics/",
    "/topics/?q=00077",
    "/topics/?sort=-size_bytes",
    "/topics/?page=100",
    "/topics/?state=problems",
    "/topics/app-000777.events/",
    "/topics/app-000777.events/?tab=groups",
    "/topics/app-000777.events/0/",
    "/topics/app-000777.events/delete/",
    "/groups/",
    "/groups/?sort=-lag_records",
    "/groups/?q=00123",
    "/groups/reader-00123/",
    "/moves/",
    "/moves/?state=unfinished",
    "/moves/?q=000777",
    "/moves/1/",
    f"/moves/{MOVES_OVER + 1}/",
    f"/moves/{MOVES_OVER + 1}/?state=waiting&sort=-bytes_total",
    "/alerts/",
    "/moves/new/?kind=partitions&topic=app-000777.events",
    "/audit/",
    "/audit/?q=create",
    "/search/?q=077",
    "/acls/",
    "/pipeline/",
    "/messages/",
)


@dataclass(frozen=True, slots=True)
class Result:
    """`ms_*`: server time. `cpu_ms`: mean CPU time of the web process per request, without browsers. `queries`: of the database, of the last request."""

    page: str
    ms_p50: float
    ms_p95: float
    ms_max: float
    cpu_ms: float
    queries: int
    kb_gzip: float
    status: int

    @property
    def over(self) -> bool:
        return self.ms_p95 > MS_MAX or self.kb_gzip > GZIP_KB_MAX or self.status != 200


@dataclass(frozen=True, slots=True)
class Browsers:
    """`mb_*`: resident memory of the processes of pages and WebSockets, `mb_first` with the first pages, `mb_after_2` after a second round of browsers. `cpu`: CPU seconds per second with all pages open, while
    no other page was read, `cpu_idle` with the live updates and no open page."""

    count: int
    first: int
    frames: int
    frame_bytes_p99: int
    frame_bytes_max: int
    cells: int
    panel_requests: int
    panel_ms_p95: float
    reloads: int
    reconnects: int
    silent_s_max: float
    errors: dict[str, int]
    mb_before: float
    mb_first: float
    mb_with: float
    mb_after: float
    mb_after_2: float
    cpu_idle: float
    cpu: float

    @property
    def mb_per_page(self) -> float:
        """Memory of each page after the first ones. 0.0 without such pages."""
        return (self.mb_with - self.mb_first) / max(1, self.count - self.first)

    def faults(self) -> list[str]:
        found = {
            f"a frame of {self.frame_bytes_max:,} bytes": self.frame_bytes_max > FRAME_BYTES_MAX,
            f"{self.mb_per_page:.2f} MB per open page": self.mb_per_page > BROWSER_MB_MAX,
            f"{self.mb_after_2 - self.mb_after:.0f} MB more after a second round": self.mb_after_2 - self.mb_after
            > GROWTH_MB_MAX,
            f"no message for {self.silent_s_max:.1f} s": self.silent_s_max > SILENT_S_MAX,
            f"errors: {self.errors}": bool(self.errors),
            f"{self.reconnects} lost connections": self.reconnects > 0,
            "no live update reached a page": self.cells == 0,
        }
        return [text for text, over in found.items() if over]


def percentile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


def measure(web: Web, page: str, times: int, seconds_max: float) -> Result:
    """At most `times` readings; fewer if they take longer than `seconds_max`."""
    took: list[float] = []
    response = web.client.get(page)  # the first request fills the caches of the database and the templates
    before, until = web.cpu_ms(), time.monotonic() + seconds_max
    while len(took) < times and (time.monotonic() < until or len(took) < 3):
        response = web.client.get(page)
        took.append(float(response.headers.get(MS_HEADER, "nan")))
    work = (web.cpu_ms() - before) / len(took)
    took.sort()
    return Result(
        page,
        round(percentile(took, 0.5), 1),
        round(percentile(took, 0.95), 1),
        round(took[-1], 1),
        round(work, 1),
        int(response.headers.get(QUERIES_HEADER, -1)),
        round(len(gzip.compress(response.content, 6)) / 1000, 1),
        response.status_code,
    )


def measure_pages(web: Web, pages: tuple[str, ...], times: int, seconds_max: float) -> list[Result]:
    print(f"{'page':58}{'p50 ms':>9}{'p95 ms':>9}{'max ms':>9}{'CPU ms':>9}{'queries':>9}{'gzip kB':>9}")
    results = []
    until = time.monotonic() + seconds_max
    for n, page in enumerate(pages):
        r = measure(web, page, times, (until - time.monotonic()) / (len(pages) - n))
        over = "  OVER" if r.over else ""
        print(
            f"{r.page:58}{r.ms_p50:9.1f}{r.ms_p95:9.1f}{r.ms_max:9.1f}{r.cpu_ms:9.1f}{r.queries:9}{r.kb_gzip:9.1f}{over}",
            flush=True,
        )
        results.append(r)
    return results


@contextmanager
def open_browsers(web: Web, count: int, first: int, found: dict[str, Any]) -> Iterator[Callable[[], None]]:
    """Open the first pages. Yields the function that opens the others. `found` gets the values of the browsers when they have left."""
    cookie = "; ".join(f"{k}={v}" for k, v in web.client.cookies.items())
    url = str(web.client.base_url).rstrip("/")
    command = [
        sys.executable,
        "-m",
        "bench.console_browsers",
        url,
        web.socket_url,
        cookie,
        str(count),
        str(first),
        str(MOVES_OVER + 1),
    ]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None
    source, printed = process.stdin, process.stdout

    def wait() -> None:
        if printed.readline() != "open\n":
            raise SystemExit("the browsers did not open their pages")

    def open_others() -> None:
        source.write("open the others\n")
        source.flush()
        wait()

    try:
        wait()
        yield open_others
        source.close()
        found.update(json.loads(printed.read()))
    finally:
        process.kill()
        process.wait()


def cpu_share(web: Web, seconds: float) -> float:
    before, began = web.cpu_ms(), time.monotonic()
    time.sleep(seconds)
    return round((web.cpu_ms() - before) / 1000 / (time.monotonic() - began), 3)


def beside_browsers(
    web: Web,
    start: Callable[[], object],
    pages: tuple[str, ...],
    count: int,
    times: int,
    seconds_max: float,
) -> tuple[list[Result], Browsers]:
    start()
    time.sleep(SETTLE_SECONDS)
    cpu_idle = cpu_share(web, CPU_SECONDS / 2)
    before = web.memory_mb()
    found: dict[str, Any] = {}
    first = min(FIRST_PAGES, count)
    with open_browsers(web, count, first, found) as open_others:
        time.sleep(SETTLE_SECONDS)
        with_first = web.memory_mb()
        open_others()
        time.sleep(SETTLE_SECONDS)
        cpu = cpu_share(web, CPU_SECONDS)
        with_pages = web.memory_mb()
        results = measure_pages(web, pages, times, seconds_max)
    time.sleep(SETTLE_SECONDS)
    after = web.memory_mb()
    with open_browsers(web, count, first, {}) as open_others:
        open_others()
        time.sleep(SETTLE_SECONDS)
    time.sleep(SETTLE_SECONDS)
    sizes = sorted(int(size) for size, n in found["frame_bytes"].items() for _ in range(n))
    return results, Browsers(
        count=count,
        first=first,
        frames=len(sizes),
        frame_bytes_p99=sizes[int(len(sizes) * 0.99)],
        frame_bytes_max=sizes[-1],
        cells=found["cells"],
        panel_requests=found["panel_requests"],
        panel_ms_p95=round(percentile(sorted(found["panel_ms"]), 0.95), 1),
        reloads=found["reloads"],
        reconnects=found["reconnects"],
        silent_s_max=round(found["silent_s_max"], 1),
        errors=found["errors"],
        mb_before=before,
        mb_first=with_first,
        mb_with=with_pages,
        mb_after=after,
        mb_after_2=web.memory_mb(),
        cpu_idle=cpu_idle,
        cpu=cpu,
    )


def show(b: Browsers) -> None:
    print(
        f"{b.count} open pages: {b.frames:,} frames with {b.cells:,} cells, p99 {b.frame_bytes_p99:,} and max {b.frame_bytes_max:,} bytes; "
        f"{b.panel_requests:,} requests for panels, p95 {b.panel_ms_p95} ms; {b.reloads} reloads, {b.reconnects} lost connections, "
        f"longest silence {b.silent_s_max} s\n"
        f"processes of pages and WebSockets: {b.mb_before} MB before, {b.mb_first} with {b.first} open pages, {b.mb_with} with all "
        f"({b.mb_per_page:.2f} MB per page after the first {b.first}), {b.mb_after} after them, {b.mb_after_2} after a second round; "
        f"CPU seconds per second: {b.cpu_idle} with the updates alone, {b.cpu} with the open pages"
    )


def main() -> int:
    logging.getLogger("httpx").setLevel(logging.WARNING)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the processes of the console and of the browsers end, too
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--topics", type=int, default=10_000)
    options.add_argument("--partitions", type=int, default=10, help="of each topic")
    options.add_argument("--groups", type=int, default=5_000)
    options.add_argument("--times", type=int, default=30, help="readings of each page")
    options.add_argument("--browsers", type=int, default=100, help="open pages; 0: none")
    options.add_argument("--monitor", choices=("own", "shared"), default="own", help="process of the live updates")
    options.add_argument("--sockets", choices=("own", "shared"), default="own", help="process of the sockets")
    options.add_argument("--workers", type=int, default=1, help="web processes for pages")
    options.add_argument("--active", type=float, default=0.1, help="share of topics and groups with records")
    options.add_argument("--pages", type=int, default=len(PAGES), help="only the first pages")
    options.add_argument("--minutes", type=float, default=8.0, help="time of the whole run, about")
    options.add_argument("--smoke", action="store_true", help="1,000 topics, 500 groups, 3 readings of 10 pages")
    arguments = options.parse_args()
    if arguments.smoke:
        arguments.topics, arguments.groups, arguments.times, arguments.pages, arguments.minutes = 1_000, 500, 3, 10, 1.5
    if arguments.monitor == "shared":
        arguments.sockets = "shared"  # no other process gets the updates
    shown = PAGES[: arguments.pages]
    size = {k: getattr(arguments, k) for k in ("topics", "partitions", "groups", "active")}
    with tempfile.TemporaryDirectory(prefix="weir-bench-") as folder, ExitStack() as stack:
        os.environ["WEIR_DATA_DIR"] = folder
        began = time.monotonic()
        seed(arguments.topics, arguments.partitions, arguments.groups)
        seed_moves()
        print(
            f"{arguments.topics:,} topics, {arguments.topics * arguments.partitions:,} partitions, {arguments.groups:,} groups, 1 of {BROKERS} brokers dead; "
            f"seeded in {time.monotonic() - began:.0f} s; each page at most {arguments.times} times"
        )
        fixed = 5 * SETTLE_SECONDS + 1.5 * CPU_SECONDS if arguments.browsers else 0.0
        readings_s = max(30.0, arguments.minutes * 60 - fixed - (time.monotonic() - began))
        beside: list[Result] = []
        browsers = None
        own = bool(arguments.browsers) and arguments.monitor == "own"
        redis_url = stack.enter_context(redis(Path(folder))) if own else ""
        environment = environment_of(Path(folder), size, redis_url)
        web = stack.enter_context(console(environment, arguments.sockets, arguments.workers))
        pages = measure_pages(web, shown, arguments.times, readings_s / 3)
        if arguments.browsers:
            print(f"\nbeside {arguments.browsers} open pages, {arguments.active:.0%} of topics and groups active")
            start = stack.enter_context(update_source(environment)) if own else partial(web.client.get, START)
            beside, browsers = beside_browsers(
                web, start, shown, arguments.browsers, arguments.times, readings_s * 2 / 3
            )
            show(browsers)
    faults = [f"{r.page} {'beside browsers' if r in beside else 'alone'}" for r in [*pages, *beside] if r.over]
    faults += browsers.faults() if browsers is not None else []
    build = ROOT / "build"
    build.mkdir(exist_ok=True)
    measurements = {
        **size,
        "monitor": arguments.monitor,
        "times": arguments.times,
        "pages": [asdict(r) for r in pages],
        "pages_beside_browsers": [asdict(r) for r in beside],
        "browsers": None if browsers is None else asdict(browsers) | {"mb_per_page": round(browsers.mb_per_page, 2)},
        "faults": faults,
    }
    (build / "bench-console.json").write_text(json.dumps(measurements, indent=1))
    for fault in faults:
        print(f"OVER: {fault}")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
