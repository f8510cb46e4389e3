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
def cold_file_server() -> Iterator[ColdFileServer]:
    served = ColdFileServer()
    yield served
    served.close()
    served.file.file.close()


def test_data_in_the_page_cache_is_sent_immediately(cold_file_server: ColdFileServer) -> None:
    cold_file_server.file.upto = len(CONTENT)
    cold_file_server.respond(b"<", cold_file_server.region(), b">")
    assert cold_file_server.receive_bytes() == b"<" + CONTENT[:SIZE] + b">" and not cold_file_server.device.queue


@pytest.mark.parametrize("length", [100, SIZE], ids=["small", "large"])
def test_data_outside_the_page_cache_is_sent_after_it_is_loaded(cold_file_server: ColdFileServer, length: int) -> None:
    cold_file_server.respond(b"<", cold_file_server.region(7, length), b">")
    cold_file_server.respond(b"next")
    cold_file_server.run_iteration(5)
    assert cold_file_server.receive_bytes() in (b"", b"<") and not cold_file_server.file.loads, (
        "nothing was read, and the loop turned"
    )
    cold_file_server.device.read()
    cold_file_server.run_iteration(3)
    assert cold_file_server.receive_bytes().lstrip(b"<") == CONTENT[7 : 7 + length] + b">next"


def test_requests_are_handled_while_a_response_waits(cold_file_server: ColdFileServer) -> None:
    cold_file_server.respond(cold_file_server.region())
    cold_file_server.send(b"\0\0\0\3abc")
    assert cold_file_server.frames == [b"abc"]


def test_the_event_loop_does_not_spin_while_a_response_waits(cold_file_server: ColdFileServer) -> None:
    cold_file_server.respond(cold_file_server.region())
    assert not cold_file_server.connection._events & 4, "nobody waits for the socket: it has room"


def test_the_cached_part_of_a_response_is_sent_first(cold_file_server: ColdFileServer) -> None:
    cold_file_server.file.upto = 20_000
    cold_file_server.respond(cold_file_server.region())
    cold_file_server.run_iteration(2)
    assert cold_file_server.receive_bytes() == CONTENT[:20_000]
    cold_file_server.device.read()
    cold_file_server.run_iteration(2)
    assert cold_file_server.receive_bytes() == CONTENT[20_000:SIZE]


def test_a_closed_connection_gets_no_late_response(cold_file_server: ColdFileServer) -> None:
    cold_file_server.respond(cold_file_server.region())
    cold_file_server.connection.close()
    cold_file_server.device.read()
    cold_file_server.run_iteration(2)
    assert cold_file_server.forgotten == 1


def test_a_disconnect_during_a_waiting_response_is_detected(cold_file_server: ColdFileServer) -> None:
    cold_file_server.respond(cold_file_server.region())
    cold_file_server.client.close()
    cold_file_server.run_iteration(2)
    assert cold_file_server.connection.closed


def test_pages_that_are_evicted_repeatedly_are_read_with_blocking(cold_file_server: ColdFileServer) -> None:
    cold_file_server.file.helps = False
    cold_file_server.respond(cold_file_server.region())
    for _ in range(LOADS_MAX):
        assert not cold_file_server.receive_bytes()
        cold_file_server.device.read()
        cold_file_server.run_iteration(2)
    assert cold_file_server.receive_bytes() == CONTENT[:SIZE] and not cold_file_server.device.queue


def test_without_a_background_reader_residency_is_not_queried(cold_file_server: ColdFileServer) -> None:
    cold_file_server.connection.reader = None
    cold_file_server.respond(cold_file_server.region())
    assert cold_file_server.receive_bytes() == CONTENT[:SIZE]
    assert Connection.reader is None
