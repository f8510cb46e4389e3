"""Which registered brokers have no process behind their door any more: known at once, where a session takes seconds to run out.

Laws: an incarnation counts as dead only after a connection to it once stood, that one ended, and two more in a row were refused; a host
that is silent, slow or unknown says nothing; a verdict is final for its incarnation (a broker that lives takes a new one); brokers that die at one
moment are told at one moment. Nothing is sent, and no loop waits. Called by `runner` while it acts. Must not come in: what a death means (core).
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
REFUSED_AGAIN_MS = 50
"""Between two attempts at a door that was shut: less than a listener's restart, more than a queue that was full for a moment."""
UNREACHED_AGAIN_MS = 2_000
TOGETHER_MS_MAX = 2 * REFUSED_AGAIN_MS
"""How long a verdict waits for those on other brokers whose connection has ended, too. Nobody in doubt: not at all."""

Address = tuple[socket.AddressFamily, tuple[object, ...]]


@dataclass(slots=True)
class Probe:
    """One idle connection to one incarnation of a broker."""

    seat: Registration
    sock: socket.socket | None = None
    connecting: bool = False
    stood: bool = False
    """A connection was established at some time in this incarnation."""
    refusals: int = 0
    due_mono_ms: int = 0
    address: Future[Address | None] | None = None

    @property
    def in_doubt(self) -> bool:
        return self.stood and (self.sock is None or self.connecting)

    def close(self) -> None:
        if self.sock is not None:
            self.sock.close()
            self.sock = None
        self.connecting = False


class Probes:
    """Of all brokers given to `watch`. `fileno` is readable when `turn` has something to look at."""

    def __init__(self) -> None:
        self.dead: frozenset[tuple[int, int]] = frozenset()
        """(broker id, incarnation)"""
        self._untold: frozenset[tuple[int, int]] = frozenset()
        """Dead as well, and told with those who are in doubt."""
        self._untold_since_ms = 0
        self._epoll = select.epoll()
        self._probes: dict[int, Probe] = {}
        self._resolver = ThreadPoolExecutor(1, thread_name_prefix="resolver")

    def fileno(self) -> int:
        return self._epoll.fileno()

    def watch(self, registrations: Mapping[int, Registration]) -> None:
        """These and no others, from now on."""
        for broker_id, probe in list(self._probes.items()):
            seat = registrations.get(broker_id)
            if seat is None or seat.incarnation != probe.seat.incarnation:
                self._probes.pop(broker_id).close()
        seats = {(i, r.incarnation) for i, r in registrations.items()}
        self.dead &= seats
        self._untold &= seats
        for broker_id, seat in registrations.items():
            if broker_id not in self._probes and (broker_id, seat.incarnation) not in self.dead | self._untold:
                self._probes[broker_id] = Probe(seat)

    def turn(self, now: Now) -> bool:
        """Look at what has happened and try what is due. True when `dead` has grown."""
        by_socket = {p.sock.fileno(): p for p in self._probes.values() if p.sock is not None}
        for fd, _ in self._epoll.poll(0):
            if (probe := by_socket.get(fd)) is not None:
                self._happened(probe, now)
        for probe in list(self._probes.values()):
            if probe.sock is None and now.mono_ms >= probe.due_mono_ms:
                self._connect(probe, now)
        if not self._untold:
            return False
        overdue = now.mono_ms - self._untold_since_ms >= TOGETHER_MS_MAX
        if not overdue and any(p.in_doubt for p in self._probes.values()):
            return False
        self.dead |= self._untold
        self._untold = frozenset()
        return True

    def close(self) -> None:
        self.watch({})
        self._resolver.shutdown(wait=False, cancel_futures=True)
        self._epoll.close()

    def _connect(self, probe: Probe, now: Now) -> None:
        if probe.address is None:
            # A look-up may take seconds, and the loop waits for nobody.
            probe.address = self._resolver.submit(_look_up, probe.seat.host, probe.seat.port)
        if not probe.address.done():
            return
        found = probe.address.result()
        if found is None:
            probe.address, probe.due_mono_ms = None, now.mono_ms + UNREACHED_AGAIN_MS
            return
        family, address = found
        probe.sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        probe.connecting = True
        error = probe.sock.connect_ex(address)
        self._epoll.register(probe.sock.fileno(), select.EPOLLOUT | select.EPOLLIN | select.EPOLLRDHUP)
        if error == ECONNREFUSED:
            self._refused(probe, now)

    def _happened(self, probe: Probe, now: Now) -> None:
        assert probe.sock is not None
        if not probe.connecting:
            try:
                if probe.sock.recv(1024):
                    return  # nothing was asked; nothing that comes matters
            except BlockingIOError:
                return
            except OSError:
                pass  # reset: ended as well
            probe.close()
            probe.due_mono_ms = now.mono_ms
            return
        error = probe.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error == 0:
            probe.connecting, probe.stood, probe.refusals = False, True, 0
            self._epoll.modify(probe.sock.fileno(), select.EPOLLIN | select.EPOLLRDHUP)
        elif error == ECONNREFUSED:
            self._refused(probe, now)
        else:
            probe.close()
            probe.due_mono_ms = now.mono_ms + UNREACHED_AGAIN_MS

    def _refused(self, probe: Probe, now: Now) -> None:
        probe.close()
        probe.refusals += 1
        probe.due_mono_ms = now.mono_ms + (REFUSED_AGAIN_MS if probe.stood else UNREACHED_AGAIN_MS)
        seat = probe.seat
        if probe.stood and probe.refusals >= REFUSALS:
            log.warning("broker %d, incarnation %d, is dead: %s:%d refuses connections", seat.broker_id,
                        seat.incarnation, seat.host, seat.port)  # fmt: skip
            if not self._untold:
                self._untold_since_ms = now.mono_ms
            self._untold |= {(seat.broker_id, seat.incarnation)}
            del self._probes[seat.broker_id]


def _look_up(host: str, port: int) -> Address | None:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError:
        return None
    return family, address
