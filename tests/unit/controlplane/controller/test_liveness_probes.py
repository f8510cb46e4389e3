"""Liveness probes against real sockets on loopback. The test sets the clock."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator

import pytest

from brokerd.cluster.model import Now
from brokerd.cluster.znodes import Registration
from controlplane.controller.liveness import REFUSED_RETRY_MS, TOGETHER_MS_MAX, UNREACHABLE_RETRY_MS
from controlplane.controller.liveness_probes import Probes
from tests.cluster.local import wait_for


class ListenSocket:
    """A broker's listener that can be closed and opened again on its port."""

    def __init__(self) -> None:
        self.port = 0
        self.inside: list[socket.socket] = []
        self.open()

    def open(self) -> None:
        self.listening = socket.socket()
        self.listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listening.bind(("127.0.0.1", self.port))
        self.listening.listen()
        self.port = self.listening.getsockname()[1]

    def accept(self) -> None:
        while select.select([self.listening], [], [], 0)[0]:
            self.inside.append(self.listening.accept()[0])

    def hang_up(self) -> None:
        while self.inside:
            self.inside.pop().close()

    def crash(self) -> None:
        self.listening.close()
        self.hang_up()


class ProbeWatch:
    def __init__(self, listener: ListenSocket) -> None:
        self.listener, self.probes, self.ms = listener, Probes(), 0
        self.probes.begin_term(Now(0, 0))

    def see(self, broker_epoch: int = 7, host: str = "127.0.0.1") -> None:
        self.probes.watch(
            {1: Registration(1, "uuid", host, self.listener.port, None, None, True, broker_epoch=broker_epoch)}
        )

    def run_iteration(self, ms: int = 0) -> bool:
        self.ms += ms
        return self.probes.run_iteration(Now(self.ms, self.ms))

    def until_connected(self, times: int = 1) -> None:
        def is_connected() -> bool:
            self.run_iteration(10)
            self.listener.accept()
            return len(self.listener.inside) == times

        wait_for(is_connected, "the probe to connect")
        wait_for(lambda: self.run_iteration() or not select.select([self.probes], [], [], 0)[0], "the probe to know it")


@pytest.fixture
def watch() -> Iterator[ProbeWatch]:
    watch = ProbeWatch(ListenSocket())
    yield watch
    watch.probes.close()
    watch.listener.crash()


def test_a_process_is_dead_after_two_refused_connections(watch: ProbeWatch) -> None:
    watch.see()
    watch.until_connected()
    watch.listener.crash()
    wait_for(lambda: select.select([watch.probes], [], [], 0)[0], "the end of the connection")
    assert not watch.run_iteration(), "dead by the end of a connection alone"
    assert not watch.run_iteration(REFUSED_RETRY_MS - 1)
    wait_for(lambda: watch.run_iteration(REFUSED_RETRY_MS), "the verdict")
    assert watch.probes.dead == {(1, 7)}
    assert not watch.run_iteration(10 * UNREACHABLE_RETRY_MS), "reported two times"


def test_a_broker_that_closes_connections_and_accepts_new_ones_is_alive(watch: ProbeWatch) -> None:
    """The broker closes connections that are idle or not authenticated."""
    watch.see()
    for _ in range(3):
        watch.until_connected()
        watch.listener.hang_up()
    watch.until_connected()
    assert not watch.probes.dead


def test_a_port_that_never_accepted_a_connection_proves_nothing(watch: ProbeWatch) -> None:
    """The broker registers before its listener is open, or this host cannot reach the listener."""
    watch.listener.crash()
    watch.see()
    for _ in range(10):
        assert not watch.run_iteration(UNREACHABLE_RETRY_MS)
        select.select([watch.probes], [], [], 0.02)
    watch.listener.open()
    watch.run_iteration(UNREACHABLE_RETRY_MS)
    watch.until_connected()
    assert not watch.probes.dead


def test_a_host_name_that_cannot_be_resolved_proves_nothing(watch: ProbeWatch) -> None:
    watch.see(host="no-such-host.invalid")
    for _ in range(5):
        assert not watch.run_iteration(UNREACHABLE_RETRY_MS)
        select.select([watch.probes], [], [], 0.02)
    assert not watch.probes.dead


def test_a_probe_result_belongs_to_one_broker_epoch(watch: ProbeWatch) -> None:
    watch.see()
    watch.until_connected()
    watch.listener.crash()
    wait_for(lambda: watch.run_iteration(REFUSED_RETRY_MS), "the verdict")
    watch.see()
    assert watch.probes.dead == {(1, 7)}, "the registration outlives its process, and the verdict stands"
    watch.listener.open()
    watch.see(broker_epoch=9)
    assert not watch.probes.dead
    watch.until_connected()
    assert not watch.run_iteration(UNREACHABLE_RETRY_MS)
    watch.probes.watch({})
    wait_for(lambda: watch.listener.inside[0].recv(1) == b"", "the connection to be given up")


def test_a_standby_controller_makes_no_verdict_and_tries_disconnected_brokers_after_its_election(
    watch: ProbeWatch,
) -> None:
    watch.probes.stand_by(Now(0, 0))
    watch.see()
    watch.until_connected()
    watch.listener.crash()
    wait_for(lambda: select.select([watch.probes], [], [], 0)[0], "the end of the connection")
    for _ in range(5):
        assert not watch.run_iteration(UNREACHABLE_RETRY_MS)
    watch.probes.begin_term(Now(watch.ms, watch.ms))
    began_ms = watch.ms
    wait_for(lambda: watch.run_iteration(REFUSED_RETRY_MS), "the verdict")
    assert watch.probes.dead == {(1, 7)} and watch.ms - began_ms < UNREACHABLE_RETRY_MS


class TwoConnectedBrokers:
    """Brokers 1 and 2, both connected. The clock advances only when a test advances it."""

    def __init__(self) -> None:
        self.listeners, self.probes, self.ms = {1: ListenSocket(), 2: ListenSocket()}, Probes(), 0
        self.probes.begin_term(Now(0, 0))
        self.probes.watch(
            {
                b: Registration(b, "uuid", "127.0.0.1", d.port, None, None, True, broker_epoch=7)
                for b, d in self.listeners.items()
            }
        )
        wait_for(self.are_connected, "the probes to connect")

    def are_connected(self) -> bool:
        self.run_iteration(10)
        for listener in self.listeners.values():
            listener.accept()
        return all(listener.inside for listener in self.listeners.values()) and not self.doubtful_brokers(1, 2)

    def doubtful_brokers(self, *brokers: int) -> list[int]:
        evidence = self.probes.liveness.evidence
        return [b for b in brokers if not evidence[b].was_connected or evidence[b].in_doubt]

    def run_iteration(self, ms: int = 0) -> bool:
        """Advance the clock by `ms` and run all timers. Connection errors may be delayed a moment."""
        self.ms += ms
        reported = self.probes.run_iteration(Now(self.ms, self.ms))
        while select.select([self.probes], [], [], 0.05)[0]:
            reported |= self.probes.run_iteration(Now(self.ms, self.ms))
        return reported

    def end_connection(self, broker_id: int) -> None:
        """The controller detects the end of this connection; the clock does not advance."""
        wait_for(
            lambda: not self.run_iteration() and self.doubtful_brokers(broker_id),
            f"the end of the connection to {broker_id}",
        )


@pytest.fixture
def two_connected_brokers() -> Iterator[TwoConnectedBrokers]:
    two = TwoConnectedBrokers()
    yield two
    two.probes.close()
    for listener in two.listeners.values():
        listener.crash()


def test_brokers_that_die_together_are_reported_together(two_connected_brokers: TwoConnectedBrokers) -> None:
    two_connected_brokers.listeners[1].crash()
    two_connected_brokers.end_connection(1)
    assert not two_connected_brokers.run_iteration(REFUSED_RETRY_MS - 1)
    two_connected_brokers.listeners[2].crash()
    two_connected_brokers.end_connection(2)
    assert not two_connected_brokers.run_iteration(1), "1 was refused twice, 2 once: a verdict on both is near"
    assert not two_connected_brokers.run_iteration(REFUSED_RETRY_MS - 2)
    assert two_connected_brokers.run_iteration(1)
    assert two_connected_brokers.probes.dead == {(1, 7), (2, 7)}


def test_a_probe_result_does_not_wait_for_connected_brokers(two_connected_brokers: TwoConnectedBrokers) -> None:
    two_connected_brokers.listeners[1].crash()
    two_connected_brokers.end_connection(1)
    assert two_connected_brokers.run_iteration(REFUSED_RETRY_MS)
    assert two_connected_brokers.probes.dead == {(1, 7)}


def test_a_probe_result_stops_waiting_when_the_other_broker_responds(
    two_connected_brokers: TwoConnectedBrokers,
) -> None:
    two_connected_brokers.listeners[1].crash()
    two_connected_brokers.end_connection(1)
    two_connected_brokers.listeners[2].hang_up()
    wait_for(
        lambda: (
            not two_connected_brokers.run_iteration()
            and (two_connected_brokers.listeners[2].accept() or two_connected_brokers.listeners[2].inside)
        ),
        "2 to be asked again",
    )
    wait_for(
        lambda: not two_connected_brokers.run_iteration() and not two_connected_brokers.doubtful_brokers(2),
        "2 to have answered",
    )
    assert two_connected_brokers.run_iteration(REFUSED_RETRY_MS)
    assert two_connected_brokers.probes.dead == {(1, 7)}


def test_a_probe_result_waits_only_briefly_for_a_silent_broker(two_connected_brokers: TwoConnectedBrokers) -> None:
    two_connected_brokers.listeners[2].listening.listen(0)
    crowd = [socket.socket() for _ in range(3)]
    for one in crowd:  # the listen backlog is full: a new connection gets no response
        one.setblocking(False)
        one.connect_ex(("127.0.0.1", two_connected_brokers.listeners[2].port))
    two_connected_brokers.listeners[2].hang_up()
    two_connected_brokers.end_connection(2)
    two_connected_brokers.listeners[1].crash()
    two_connected_brokers.end_connection(1)
    assert not two_connected_brokers.run_iteration(REFUSED_RETRY_MS)
    assert not two_connected_brokers.run_iteration(TOGETHER_MS_MAX - 1)
    assert two_connected_brokers.run_iteration(1)
    assert two_connected_brokers.probes.dead == {(1, 7)}
    for one in crowd:
        one.close()
