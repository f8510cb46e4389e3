"""The state of each ZooKeeper server of the ensemble (command `srvr`). The requests to all servers run at the same time, with one deadline."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass

from brokerd.cluster.protection import Protection
from controlplane.clients.zookeeper_status import StatusUnreadable, parse_status
from controlplane.domain.zookeeper_server import ServerProblem, ServerStatus

WAIT_S = 2.0
"""Time limit for the connection and the response of one server."""
RESPONSE_BYTES_MAX = 64 * 1024
"""Maximum number of bytes of one response that are read. The response to srvr has about 300."""
SERVERS_MAX = 32
"""Maximum number of servers to which a request is sent, one thread each. Ensembles have up to nine."""


@dataclass(frozen=True, slots=True)
class ServerResponse:
    """`status` None: unknown because of `problem`. `detail`: the error of the operating system, for unreachable servers."""

    host: str
    port: int
    status: ServerStatus | None
    problem: ServerProblem | None = None
    detail: str = ""


def server_states(servers: Sequence[tuple[str, int]], protection: Protection) -> list[ServerResponse]:
    """The responses of these servers, in their order. A request is sent to at most SERVERS_MAX of them."""
    chosen = servers[:SERVERS_MAX]
    if not chosen:
        return []
    with ThreadPoolExecutor(len(chosen)) as pool:
        return list(pool.map(lambda server: _state(server[0], server[1], protection), chosen))


def _state(host: str, port: int, protection: Protection) -> ServerResponse:
    try:
        return ServerResponse(host, port, parse_status(_read_response(host, port, protection)))
    except StatusUnreadable as e:
        return ServerResponse(host, port, None, e.problem)
    except OSError as e:  # SSLError and time-outs too
        return ServerResponse(host, port, None, ServerProblem.UNREACHABLE, e.strerror or str(e) or type(e).__name__)


def _read_response(host: str, port: int, protection: Protection) -> str:
    """The server closes the connection after its response. Raises OSError."""
    until = time.monotonic() + WAIT_S
    sock = socket.create_connection((host, port), timeout=WAIT_S)
    if protection.context is not None:
        sock = protection.context().wrap_socket(sock, server_hostname=host)
    with closing(sock):
        sock.sendall(b"srvr")
        out = bytearray()
        while len(out) < RESPONSE_BYTES_MAX:
            sock.settimeout(max(0.001, until - time.monotonic()))
            data = sock.recv(8192)
            if not data:
                break
            out += data
    return out.decode("utf-8", "replace")
