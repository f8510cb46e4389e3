"""Responses whose bytes are not in the page cache: they wait outside the loop, and everything else continues."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from brokerd.net.cached_regions import LOADS_MAX
from brokerd.net.connection import Connection
from brokerd.storage.read_ahead import ReadAhead
from brokerd.wire.framing import FileRegion
from tests.unit.net.test_listener import ServedConnection

SIZE = 60_000
CONTENT = bytes(range(251)) * 1000


class PartlyCachedFile:
    """A file for which the test decides which bytes are in memory."""

    def __init__(self) -> None:
        self.file = tempfile.TemporaryFile()  # noqa: SIM115
        self.file.write(CONTENT)
        self.file.flush()
        self.upto = 0
        self.loads = 0
        self.helps = True
        """Whether what is loaded is in memory afterwards."""

    def fileno(self) -> int:
        return self.file.fileno()

    def size(self) -> int:
        return len(CONTENT)

    def resident(self, position: int, length: int) -> int:
        return max(0, min(self.upto - position, length))

    def cached_bytes(self, position: int, length: int) -> int:
        return self.resident(position, length)

    def load(self, position: int, length: int, beyond: int = 0) -> None:
        self.loads += 1
        if self.helps:
            self.upto = max(self.upto, position + length)

    def evict(self, position: int, length: int) -> None:
        """Do nothing, because the test decides which bytes are in memory."""


class Device:
    def __init__(self) -> None:
        self.queue: list[tuple[Callable[[], object], Any]] = []

    def submit(self, run: Callable[[], object], done: Any, *, urgent: bool = False) -> None:
        self.queue.append((run, done))

    def read(self) -> None:
        run, done = self.queue.pop(0)
        run()
        done(None)


class ColdFileServer(ServedConnection):
    def __init__(self) -> None:
        super().__init__()
        self.device, self.file = Device(), PartlyCachedFile()
        self.connection.reader = ReadAhead(self.device).reader()

    def region(self, position: int = 0, length: int = SIZE) -> FileRegion:
        return FileRegion(self.file, position, length)

    def respond(self, *parts: Any) -> None:
        self.connection.respond(self.connection.open_slot(), list(parts))


@pytest.fixture
def cold() -> Iterator[ColdFileServer]:
    served = ColdFileServer()
    yield served
    served.close()
    served.file.file.close()


def test_data_in_the_page_cache_is_sent_immediately(cold: ColdFileServer) -> None:
    cold.file.upto = len(CONTENT)
    cold.respond(b"<", cold.region(), b">")
    assert cold.received() == b"<" + CONTENT[:SIZE] + b">" and not cold.device.queue


@pytest.mark.parametrize("length", [100, SIZE], ids=["small", "large"])
def test_data_outside_the_page_cache_is_sent_after_it_is_loaded(cold: ColdFileServer, length: int) -> None:
    cold.respond(b"<", cold.region(7, length), b">")
    cold.respond(b"next")
    cold.run_iteration(5)
    assert cold.received() in (b"", b"<") and not cold.file.loads, "nothing was read, and the loop turned"
    cold.device.read()
    cold.run_iteration(3)
    assert cold.received().lstrip(b"<") == CONTENT[7 : 7 + length] + b">next"


def test_requests_are_handled_while_a_response_waits(cold: ColdFileServer) -> None:
    cold.respond(cold.region())
    cold.send(b"\0\0\0\3abc")
    assert cold.frames == [b"abc"]


def test_the_event_loop_does_not_spin_while_a_response_waits(cold: ColdFileServer) -> None:
    cold.respond(cold.region())
    assert not cold.connection._events & 4, "nobody waits for the socket: it has room"


def test_the_cached_part_of_a_response_is_sent_first(cold: ColdFileServer) -> None:
    cold.file.upto = 20_000
    cold.respond(cold.region())
    cold.run_iteration(2)
    assert cold.received() == CONTENT[:20_000]
    cold.device.read()
    cold.run_iteration(2)
    assert cold.received() == CONTENT[20_000:SIZE]


def test_a_closed_connection_gets_no_late_response(cold: ColdFileServer) -> None:
    cold.respond(cold.region())
    cold.connection.close()
    cold.device.read()
    cold.run_iteration(2)
    assert cold.forgotten == 1


def test_a_disconnect_during_a_waiting_response_is_detected(cold: ColdFileServer) -> None:
    cold.respond(cold.region())
    cold.client.close()
    cold.run_iteration(2)
    assert cold.connection.closed


def test_pages_that_are_evicted_repeatedly_are_read_with_blocking(cold: ColdFileServer) -> None:
    cold.file.helps = False
    cold.respond(cold.region())
    for _ in range(LOADS_MAX):
        assert not cold.received()
        cold.device.read()
        cold.run_iteration(2)
    assert cold.received() == CONTENT[:SIZE] and not cold.device.queue


def test_without_a_background_reader_residency_is_not_queried(cold: ColdFileServer) -> None:
    cold.connection.reader = None
    cold.respond(cold.region())
    assert cold.received() == CONTENT[:SIZE]
    assert Connection.reader is None
