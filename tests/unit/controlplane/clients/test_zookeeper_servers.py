"""The command `srvr` over sockets: responses, silence and refused connections."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from brokerd.cluster.protection import OPEN
from controlplane.clients import zookeeper_servers
from controlplane.clients.zookeeper_servers import server_states
from controlplane.domain.zookeeper_server import ServerMode, ServerProblem
from tests.cluster.local import free_port
from tests.unit.controlplane.clients.test_zookeeper_status import LEADER


@contextmanager
def server(response: bytes | None) -> Iterator[tuple[str, int]]:
    """A server that answers every connection with these bytes; None: it never answers."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))

        def serve() -> None:
            try:
                connection = stack.enter_context(listener.accept()[0])
            except OSError:
                return
            if response is not None and connection.recv(4) == b"srvr":
                connection.sendall(response)
                connection.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()


def test_every_server_is_asked_and_a_silent_one_is_unreachable_after_the_time_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(zookeeper_servers, "WAIT_S", 0.5)
    with server(LEADER.encode()) as leader, server(None) as silent, server(b"") as closed:
        gone = ("127.0.0.1", free_port())
        started = time.monotonic()
        responses = server_states([leader, silent, closed, gone], OPEN)
        assert time.monotonic() - started < 30
    assert [(a.host, a.port) for a in responses] == [leader, silent, closed, gone]
    assert responses[0].status is not None and responses[0].status.mode is ServerMode.LEADER
    assert [a.problem for a in responses] == [
        None,
        ServerProblem.UNREACHABLE,
        ServerProblem.UNREADABLE,
        ServerProblem.UNREACHABLE,
    ]
    assert responses[3].detail == "Connection refused"


def test_without_servers_nothing_is_asked() -> None:
    assert server_states([], OPEN) == []
