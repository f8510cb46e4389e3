"""Detects registered brokers whose process has ended, by refused connections, before the ZooKeeper session expires.

Invariants: an incarnation counts as dead only after a connection was established, that connection ended, and the next two attempts
were refused. A host that is silent, slow or unknown proves nothing. The result is final for the incarnation (a live broker registers
with a new one). Brokers that die together are reported together. A probe sends nothing and never blocks the loop.
Does not contain: the effects of a death (`brokers`).
"""

from __future__ import annotations

import logging
import select
import socket
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from errno import ECONNREFUSED

from brokerd.cluster.model import Now
from brokerd.cluster.znodes import Registration

log = logging.getLogger(__name__)

REFUSALS = 2
REFUSED_RETRY_MS = 50
"""Between two attempts after a refused connection: shorter than a listener's restart, longer than a full accept queue."""
UNREACHABLE_RETRY_MS = 2_000
TOGETHER_MS_MAX = 2 * REFUSED_RETRY_MS
"""The longest time that a detected death waits for brokers whose connection has also ended. Without such brokers it does not wait."""

Address = tuple[socket.AddressFamily, tuple[object, ...]]


@dataclass(slots=True)
class Probe:
    """One idle connection to one incarnation of a broker."""

    registration: Registration
    sock: socket.socket | None = None
    connecting: bool = False
    was_connected: bool = False
    """A connection to this incarnation has been established."""
    refusals: int = 0
    due_mono_ms: int = 0
    address: Future[Address | None] | None = None

    @property
    def in_doubt(self) -> bool:
        return self.was_connected and (self.sock is None or self.connecting)

    def close(self) -> None:
        if self.sock is not None:
            self.sock.close()
            self.sock = None
        self.connecting = False


class Probes:
    """The probes of all brokers given to `watch`. `fileno` is readable when `turn` has an event to handle."""

    def __init__(self) -> None:
        self.dead: frozenset[tuple[int, int]] = frozenset()
        """(broker id, broker epoch)"""
        self._unreported: frozenset[tuple[int, int]] = frozenset()
        """Also dead; reported as soon as the other probes are decided."""
        self._unreported_since_ms = 0
        self._epoll = select.epoll()
        self._probes: dict[int, Probe] = {}
        self._resolver = ThreadPoolExecutor(1, thread_name_prefix="resolver")

    def fileno(self) -> int:
        return self._epoll.fileno()

    def watch(self, registrations: Mapping[int, Registration]) -> None:
        """Probe exactly these brokers from now on."""
        for broker_id, probe in list(self._probes.items()):
            registration = registrations.get(broker_id)
            if registration is None or registration.broker_epoch != probe.registration.broker_epoch:
                self._probes.pop(broker_id).close()
        broker_epochs = {(i, r.broker_epoch) for i, r in registrations.items()}
        self.dead &= broker_epochs
        self._unreported &= broker_epochs
        for broker_id, registration in registrations.items():
            if (
                broker_id not in self._probes
                and (broker_id, registration.broker_epoch) not in self.dead | self._unreported
            ):
                self._probes[broker_id] = Probe(registration)

    def turn(self, now: Now) -> bool:
        """Handle socket events and start due connection attempts. True when `dead` has grown."""
        by_socket = {p.sock.fileno(): p for p in self._probes.values() if p.sock is not None}
        for fd, _ in self._epoll.poll(0):
            if (probe := by_socket.get(fd)) is not None:
                self._on_socket_event(probe, now)
        for probe in list(self._probes.values()):
            if probe.sock is None and now.mono_ms >= probe.due_mono_ms:
                self._connect(probe, now)
        if not self._unreported:
            return False
        overdue = now.mono_ms - self._unreported_since_ms >= TOGETHER_MS_MAX
        if not overdue and any(p.in_doubt for p in self._probes.values()):
            return False
        self.dead |= self._unreported
        self._unreported = frozenset()
        return True

    def close(self) -> None:
        self.watch({})
        self._resolver.shutdown(wait=False, cancel_futures=True)
        self._epoll.close()

    def _connect(self, probe: Probe, now: Now) -> None:
        if probe.address is None:
            # A DNS look-up may take seconds, and the loop must not block.
            probe.address = self._resolver.submit(_resolve, probe.registration.host, probe.registration.port)
        if not probe.address.done():
            return
        found = probe.address.result()
        if found is None:
            probe.address, probe.due_mono_ms = None, now.mono_ms + UNREACHABLE_RETRY_MS
            return
        family, address = found
        probe.sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        probe.connecting = True
        error = probe.sock.connect_ex(address)
        self._epoll.register(probe.sock.fileno(), select.EPOLLOUT | select.EPOLLIN | select.EPOLLRDHUP)
        if error == ECONNREFUSED:
            self._refused(probe, now)

    def _on_socket_event(self, probe: Probe, now: Now) -> None:
        assert probe.sock is not None
        if not probe.connecting:
            try:
                if probe.sock.recv(1024):
                    return  # the probe has sent nothing, so received bytes do not matter
            except BlockingIOError:
                return
            except OSError:
                pass  # a reset also ends the connection
            probe.close()
            probe.due_mono_ms = now.mono_ms
            return
        connect_errno = probe.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if not connect_errno:
            probe.connecting, probe.was_connected, probe.refusals = False, True, 0
            self._epoll.modify(probe.sock.fileno(), select.EPOLLIN | select.EPOLLRDHUP)
        elif connect_errno == ECONNREFUSED:
            self._refused(probe, now)
        else:
            probe.close()
            probe.due_mono_ms = now.mono_ms + UNREACHABLE_RETRY_MS

    def _refused(self, probe: Probe, now: Now) -> None:
        probe.close()
        probe.refusals += 1
        probe.due_mono_ms = now.mono_ms + (REFUSED_RETRY_MS if probe.was_connected else UNREACHABLE_RETRY_MS)
        registration = probe.registration
        if probe.was_connected and probe.refusals >= REFUSALS:
            log.warning(
                "broker process is dead: broker=%d broker_epoch=%d address=%s:%d",
                registration.broker_id,
                registration.broker_epoch,
                registration.host,
                registration.port,
            )
            if not self._unreported:
                self._unreported_since_ms = now.mono_ms
            self._unreported |= {(registration.broker_id, registration.broker_epoch)}
            del self._probes[registration.broker_id]


def _resolve(host: str, port: int) -> Address | None:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError:
        return None
    return family, address
