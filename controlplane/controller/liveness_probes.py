"""Idle connections of a controller to the registered brokers. A closed connection and refused attempts show that a broker process has ended, before its
ZooKeeper session expires.

Invariant: a probe sends nothing and never blocks the loop.
Does not contain: the rules for a verdict (`liveness`), the effects of a death (`brokers`).
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
from controlplane.controller.liveness import Liveness

log = logging.getLogger(__name__)

Address = tuple[socket.AddressFamily, tuple[object, ...]]


@dataclass(slots=True)
class Probe:
    """The connection to one incarnation of a broker."""

    registration: Registration
    sock: socket.socket | None = None
    address: Future[Address | None] | None = None

    def close(self) -> None:
        if self.sock is not None:
            self.sock.close()
            self.sock = None


class Probes:
    """The probes of all brokers given to `watch`. `fileno` is readable when `turn` has an event to handle."""

    while_standing_by = True

    def __init__(self) -> None:
        self.liveness = Liveness()
        self._epoll = select.epoll()
        self._probes: dict[int, Probe] = {}
        self._resolver = ThreadPoolExecutor(1, thread_name_prefix="resolver")

    @property
    def dead(self) -> frozenset[tuple[int, int]]:
        """(broker id, broker epoch)"""
        return self.liveness.reported

    def fileno(self) -> int:
        return self._epoll.fileno()

    def watch(self, registrations: Mapping[int, Registration]) -> None:
        """Probe exactly these brokers from now on."""
        for broker_id in self.liveness.watch(registrations):
            self._probes.pop(broker_id).close()
        for broker_id, registration in registrations.items():
            if broker_id not in self._probes:
                self._probes[broker_id] = Probe(registration)

    def begin_term(self, now: Now) -> None:
        connected, ended, never = self.liveness.counts()
        log.info("probes at the election: connected=%d ended=%d never_connected=%d", connected, ended, never)
        self.liveness.begin_term(now)

    def stand_by(self, now: Now) -> None:
        self.liveness.stand_by(now)

    def run_iteration(self, now: Now) -> bool:
        """Handle socket events and start due connection attempts. True when `dead` has grown."""
        by_socket = {p.sock.fileno(): p for p in self._probes.values() if p.sock is not None}
        for fd, _ in self._epoll.poll(0):
            if (probe := by_socket.get(fd)) is not None:
                self._on_socket_event(probe, now)
        for broker_id in self.liveness.due(now):
            self._connect(self._probes[broker_id], now)
        return self.liveness.report(now)

    def close(self) -> None:
        self.watch({})
        self._resolver.shutdown(wait=False, cancel_futures=True)
        self._epoll.close()

    def _connect(self, probe: Probe, now: Now) -> None:
        broker_id = probe.registration.broker_id
        if probe.address is None:
            # A DNS look-up may take seconds, and the loop must not block.
            probe.address = self._resolver.submit(_resolve, probe.registration.host, probe.registration.port)
        if not probe.address.done():
            return
        found = probe.address.result()
        if found is None:
            probe.address = None
            self.liveness.unreachable(broker_id, now)
            return
        family, address = found
        probe.sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        self.liveness.on_attempt(broker_id)
        error = probe.sock.connect_ex(address)
        self._epoll.register(probe.sock.fileno(), select.EPOLLOUT | select.EPOLLIN | select.EPOLLRDHUP)
        if error == ECONNREFUSED:
            self._on_rejected(probe, now)

    def _on_socket_event(self, probe: Probe, now: Now) -> None:
        assert probe.sock is not None
        broker_id = probe.registration.broker_id
        if self.liveness.evidence[broker_id].connected:
            try:
                if probe.sock.recv(1024):
                    return  # the probe has sent nothing, so received bytes do not matter
            except BlockingIOError:
                return
            except OSError:
                pass  # a reset also ends the connection
            probe.close()
            self.liveness.on_connection_ended(broker_id, now)
            return
        connect_errno = probe.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if not connect_errno:
            self.liveness.on_connected(broker_id)
            self._epoll.modify(probe.sock.fileno(), select.EPOLLIN | select.EPOLLRDHUP)
        elif connect_errno == ECONNREFUSED:
            self._on_rejected(probe, now)
        else:
            probe.close()
            self.liveness.unreachable(broker_id, now)

    def _on_rejected(self, probe: Probe, now: Now) -> None:
        probe.close()
        registration = probe.registration
        if self.liveness.refused(registration.broker_id, now):
            log.warning(
                "broker process is dead: broker=%d broker_epoch=%d address=%s:%d",
                registration.broker_id,
                registration.broker_epoch,
                registration.host,
                registration.port,
            )


def _resolve(host: str, port: int) -> Address | None:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError:
        return None
    return family, address
