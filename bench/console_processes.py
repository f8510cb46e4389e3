"""The processes of `bench.console`: pages, WebSockets, Redis and the source of the live updates."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil

from bench.console_rows import OPTIONS, PASSWORD, USER

ROOT = Path(__file__).resolve().parents[1]


def environment_of(folder: Path, options: dict[str, Any], redis_url: str) -> dict[str, str]:
    return {
        **os.environ,
        "WEIR_DATA_DIR": str(folder),
        "WEIR_MONITOR": "off",
        "WEIR_LOG_LEVEL": "WARNING",
        "WEIR_SECRET_KEY": "of the benchmark alone",
        "CHANNELS_REDIS_URL": redis_url,
        OPTIONS: json.dumps(options),
    }


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as s:
        port: int = s.getsockname()[1]
    return port


@contextmanager
def redis(folder: Path) -> Iterator[str]:
    """The address of a Redis without persistence."""
    program = shutil.which("redis-server")
    if program is None:
        raise SystemExit("redis-server is not installed: apt install redis-server, or measure with --monitor shared")
    port = free_port()
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.terminate()
        process.wait()


@contextmanager
def update_source(environment: dict[str, str]) -> Iterator[Callable[[], None]]:
    """Run `bench.console_updates` as a separate process. Yields the function that starts its live updates."""
    command = [sys.executable, "-m", "bench.console_updates"]
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None and process.stdout is not None
    source = process.stdin

    def start() -> None:
        source.write("start\n")
        source.flush()

    try:
        if process.stdout.readline() != "ready\n":
            raise SystemExit("the source of the live updates did not start")
        yield start
    finally:
        process.kill()
        process.wait()


@dataclass(frozen=True, slots=True)
class Web:
    """A logged-in client of the process of the pages, and where the sockets are. `processes`: of the pages and of the sockets."""

    client: httpx.Client
    socket_url: str
    processes: tuple[psutil.Process, ...]

    def cpu_ms(self) -> float:
        """CPU time of present and ended threads, in steps of 10 ms. Processes that ended are not in it."""
        times = [p.cpu_times() for p in self._all()]
        return float(sum(t.user + t.system for t in times)) * 1000

    def memory_mb(self) -> float:
        """Resident memory."""
        return round(float(sum(p.memory_info().rss for p in self._all())) / 1e6, 1)

    def _all(self) -> Iterator[psutil.Process]:
        for process in self.processes:
            yield process
            yield from process.children(recursive=True)


@contextmanager
def web_process(environment: dict[str, str], workers: int) -> Iterator[tuple[str, psutil.Process]]:
    """Host and port of a web process, and the process."""
    address = f"127.0.0.1:{free_port()}"
    command = [
        sys.executable,
        "-m",
        "uvicorn",
        "bench.console_server:application",
        "--port",
        address.rpartition(":")[2],
    ]
    command += ["--log-level", "warning", "--ws", "websockets-sansio", "--workers", str(workers)]
    process = psutil.Popen(command, cwd=ROOT, env=environment)
    try:
        yield address, process
    finally:
        process.terminate()
        process.wait()


@contextmanager
def console(environment: dict[str, str], sockets: str, workers: int) -> Iterator[Web]:
    with ExitStack() as stack:
        address, process = stack.enter_context(web_process(environment, workers))
        processes: tuple[psutil.Process, ...] = (process,)
        socket_address = address
        if sockets == "own":
            socket_address, socket_process = stack.enter_context(web_process(environment, 1))
            processes += (socket_process,)
        with httpx.Client(base_url=f"http://{address}", trust_env=False, timeout=60) as client:
            for _ in range(300):
                try:
                    form = client.get("/login/").text
                    break
                except httpx.TransportError:
                    time.sleep(0.1)
            else:
                raise SystemExit("the console did not start")
            found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', form)
            token = found.group(1) if found else ""
            response = client.post(
                "/login/", data={"username": USER, "password": PASSWORD, "csrfmiddlewaretoken": token}
            )
            assert response.status_code == 302, response.status_code
            yield Web(client, f"ws://{socket_address}/ws/live", processes)
