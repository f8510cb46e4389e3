"""The helper's loop: every request gets one response, with an error code of its kind."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from brokerd.remote.frames import FrameReader, HelperError, encode
from brokerd.remote.helper import AHEAD_MAX, Helper


class Broker:
    """The broker's end of the socket."""

    def __init__(self, tmp_path: Path, url: str) -> None:
        self.socket, theirs = socket.socketpair()
        settings = {
            "url": url,
            "cache": str(tmp_path / "cache"),
            "cache_bytes": 1 << 20,
            "copy_rate": 1 << 40,
            "fetch_rate": 1 << 40,
        }
        self.helper = Helper(theirs, settings)
        self.reader = FrameReader()
        self.thread = threading.Thread(target=self.helper.serve, args=(FrameReader(), []), daemon=True)
        self.thread.start()

    def send_request(self, operation: str, **fields: Any) -> tuple[HelperError, Any]:
        self.socket.sendall(encode([7, operation, fields]))
        responses: list[list[Any]] = []
        while not responses:
            responses = self.reader.feed(self.socket.recv(65_536))
        ((request_id, error, value),) = responses
        assert request_id == 7
        return HelperError(error), value


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    (tmp_path / "store").mkdir()
    broker = Broker(tmp_path, f"file://{tmp_path}/store")
    yield broker
    broker.socket.close()
    broker.thread.join(10)
    assert not broker.thread.is_alive(), "the helper ends with its broker"


def test_answers_and_error_codes(broker: Broker, tmp_path: Path) -> None:
    assert broker.send_request("names", prefix="c/") == (HelperError.NONE, [])
    assert broker.send_request("delete", name="c/absent") == (HelperError.NONE, True)
    absent = ["c/absent", 0, 10, 100, 5, 0]
    assert (
        broker.send_request("read", segments=[absent], offset=0, upto=10, bytes_max=1)[0] is HelperError.OBJECT_MISSING
    )
    assert broker.send_request("nonsense")[0] is HelperError.INVALID
    segment = {"name": "c/a", "base": 0, "end": 10, "size": 100, "interval": 1, "previous": None}
    assert broker.send_request("copy", path=str(tmp_path / "absent"), **segment)[0] is HelperError.LOCAL_FILE
    (tmp_path / "damaged").write_bytes(bytes(100))
    assert broker.send_request("copy", path=str(tmp_path / "damaged"), **segment)[0] is HelperError.DAMAGED
    assert broker.send_request("rates", copy=5, fetch=6) == (HelperError.NONE, True)
    (tmp_path / "store").rmdir()
    assert broker.send_request("names", prefix="c/")[0] is HelperError.STORE_UNAVAILABLE


def test_loads_ahead_are_limited_while_the_store_does_not_respond(broker: Broker) -> None:
    responses, begun, ended = threading.Event(), threading.Semaphore(0), threading.Semaphore(0)

    def load() -> None:
        begun.release()
        responses.wait(60)
        ended.release()

    for number in range(AHEAD_MAX + 5):
        broker.helper.load_ahead(number, load)
    responses.set()
    for _ in range(AHEAD_MAX):
        assert ended.acquire(timeout=60)
    assert not ended.acquire(blocking=False), "the others were left out"
    while begun.acquire(blocking=False):
        pass
    deadline = time.monotonic() + 60
    while not begun.acquire(timeout=0.05):
        assert time.monotonic() < deadline
        broker.helper.load_ahead("next", load)


def test_a_load_ahead_that_waits_or_runs_is_not_repeated(broker: Broker) -> None:
    """Each read of 1 MiB names the same chunks. The repeated loads filled the threads, and half as many requests were sent to the store."""
    responses, begun, ended = threading.Event(), threading.Semaphore(0), threading.Semaphore(0)

    def load() -> None:
        begun.release()
        responses.wait(60)
        ended.release()

    for _ in range(AHEAD_MAX):
        broker.helper.load_ahead("the same", load)
    broker.helper.load_ahead("another", load)
    assert begun.acquire(timeout=60) and begun.acquire(timeout=60)
    responses.set()
    assert ended.acquire(timeout=60) and ended.acquire(timeout=60)
    assert not begun.acquire(timeout=0.2), "one load of each"


def test_a_request_that_has_waited_longer_than_its_time_out_is_not_run(broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "store" / "kept.log").write_bytes(b"x")
    assert broker.send_request("delete", name="kept", timeout_ms=-1) == (HelperError.NO_RESPONSE, "time-out")
    assert (tmp_path / "store" / "kept.log").exists()
    assert broker.send_request("delete", name="kept", timeout_ms=60_000) == (HelperError.NONE, True)
    assert not (tmp_path / "store" / "kept.log").exists()
