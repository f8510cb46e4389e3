"""Probes against real sockets on loopback; time is given by hand."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator

import pytest

from brokerd.cluster.model import Now
from brokerd.cluster.znodes import Registration
from controlplane.controller.probes import REFUSED_AGAIN_MS, TOGETHER_MS_MAX, UNREACHED_AGAIN_MS, Probes
from tests.cluster.local import wait_for


class Door:
    """A broker's listener that may be shut and opened again on its port."""

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

    def die(self) -> None:
        self.listening.close()
        self.hang_up()


class Watch:
    def __init__(self, door: Door) -> None:
        self.door, self.probes, self.ms = door, Probes(), 0

    def see(self, incarnation: int = 7, host: str = "127.0.0.1") -> None:
        self.probes.watch({1: Registration(1, "uuid", host, self.door.port, None, None, True, incarnation=incarnation)})

    def turn(self, ms: int = 0) -> bool:
        self.ms += ms
        return self.probes.turn(Now(self.ms, self.ms))

    def until_connected(self, times: int = 1) -> None:
        def connected() -> bool:
            self.turn(10)
            self.door.accept()
            return len(self.door.inside) == times

        wait_for(connected, "the probe to connect")
        wait_for(lambda: self.turn() or not select.select([self.probes], [], [], 0)[0], "the probe to know it")


@pytest.fixture
def watch() -> Iterator[Watch]:
    watch = Watch(Door())
    yield watch
    watch.probes.close()
    watch.door.die()


def test_a_process_that_is_gone_is_dead_once_two_connections_were_refused(watch: Watch) -> None:
    watch.see()
    watch.until_connected()
    watch.door.die()
    wait_for(lambda: select.select([watch.probes], [], [], 0)[0], "the end of the connection")
    assert not watch.turn(), "dead by the end of a connection alone"
    assert not watch.turn(REFUSED_AGAIN_MS - 1)
    wait_for(lambda: watch.turn(REFUSED_AGAIN_MS), "the verdict")
    assert watch.probes.dead == {(1, 7)}
    assert not watch.turn(10 * UNREACHED_AGAIN_MS), "told twice"


def test_a_broker_that_hangs_up_but_still_answers_lives(watch: Watch) -> None:
    """It ends idle connections, or those that do not say who they are."""
    watch.see()
    for _ in range(3):
        watch.until_connected()
        watch.door.hang_up()
    watch.until_connected()
    assert not watch.probes.dead


def test_a_door_that_was_never_open_says_nothing(watch: Watch) -> None:
    """It registers before it listens, or is reached from elsewhere only."""
    watch.door.die()
    watch.see()
    for _ in range(10):
        assert not watch.turn(UNREACHED_AGAIN_MS)
        select.select([watch.probes], [], [], 0.02)
    watch.door.open()
    watch.until_connected()
    assert not watch.probes.dead


def test_a_name_that_cannot_be_looked_up_says_nothing(watch: Watch) -> None:
    watch.see(host="no-such-host.invalid")
    for _ in range(5):
        assert not watch.turn(UNREACHED_AGAIN_MS)
        select.select([watch.probes], [], [], 0.02)
    assert not watch.probes.dead


def test_the_verdict_is_of_one_incarnation(watch: Watch) -> None:
    watch.see()
    watch.until_connected()
    watch.door.die()
    wait_for(lambda: watch.turn(REFUSED_AGAIN_MS), "the verdict")
    watch.see()
    assert watch.probes.dead == {(1, 7)}, "the registration outlives its process, and the verdict stands"
    watch.door.open()
    watch.see(incarnation=9)
    assert not watch.probes.dead
    watch.until_connected()
    assert not watch.turn(UNREACHED_AGAIN_MS)
    watch.probes.watch({})
    wait_for(lambda: watch.door.inside[0].recv(1) == b"", "the connection to be given up")


class Two:
    """Brokers 1 and 2, both connected; time is at rest until a test moves it."""

    def __init__(self) -> None:
        self.doors, self.probes, self.ms = {1: Door(), 2: Door()}, Probes(), 0
        self.probes.watch(
            {
                b: Registration(b, "uuid", "127.0.0.1", d.port, None, None, True, incarnation=7)
                for b, d in self.doors.items()
            }
        )
        wait_for(self.connected, "the probes to connect")

    def connected(self) -> bool:
        self.turn(10)
        for door in self.doors.values():
            door.accept()
        return all(door.inside for door in self.doors.values()) and not self.doubtful(1, 2)

    def doubtful(self, *brokers: int) -> list[int]:
        return [b for b in brokers if not self.probes._probes[b].stood or self.probes._probes[b].in_doubt]

    def turn(self, ms: int = 0) -> bool:
        """`ms` later, with all that happens then; refusals may be a moment on their way."""
        self.ms += ms
        told = self.probes.turn(Now(self.ms, self.ms))
        while select.select([self.probes], [], [], 0.05)[0]:
            told |= self.probes.turn(Now(self.ms, self.ms))
        return told

    def ends(self, broker_id: int) -> None:
        """The controller sees the end of this connection, without time going by."""
        wait_for(lambda: not self.turn() and self.doubtful(broker_id), f"the end of the connection to {broker_id}")


@pytest.fixture
def two() -> Iterator[Two]:
    two = Two()
    yield two
    two.probes.close()
    for door in two.doors.values():
        door.die()


def test_those_who_die_at_one_moment_are_told_at_one_moment(two: Two) -> None:
    two.doors[1].die()
    two.ends(1)
    assert not two.turn(REFUSED_AGAIN_MS - 1)
    two.doors[2].die()
    two.ends(2)
    assert not two.turn(1), "1 was refused twice, 2 once: a verdict on both is near"
    assert not two.turn(REFUSED_AGAIN_MS - 2)
    assert two.turn(1)
    assert two.probes.dead == {(1, 7), (2, 7)}


def test_a_verdict_waits_for_nobody_whose_connection_stands(two: Two) -> None:
    two.doors[1].die()
    two.ends(1)
    assert two.turn(REFUSED_AGAIN_MS)
    assert two.probes.dead == {(1, 7)}


def test_a_verdict_waits_no_longer_once_the_other_has_answered(two: Two) -> None:
    two.doors[1].die()
    two.ends(1)
    two.doors[2].hang_up()
    wait_for(lambda: not two.turn() and (two.doors[2].accept() or two.doors[2].inside), "2 to be asked again")
    wait_for(lambda: not two.turn() and not two.doubtful(2), "2 to have answered")
    assert two.turn(REFUSED_AGAIN_MS)
    assert two.probes.dead == {(1, 7)}


def test_a_verdict_waits_a_moment_only_for_somebody_who_is_silent(two: Two) -> None:
    two.doors[2].listening.listen(0)
    crowd = [socket.socket() for _ in range(3)]
    for one in crowd:  # the queue before its door is full: who comes now hears nothing
        one.setblocking(False)
        one.connect_ex(("127.0.0.1", two.doors[2].port))
    two.doors[2].hang_up()
    two.ends(2)
    two.doors[1].die()
    two.ends(1)
    assert not two.turn(REFUSED_AGAIN_MS)
    assert not two.turn(TOGETHER_MS_MAX - 1)
    assert two.turn(1)
    assert two.probes.dead == {(1, 7)}
    for one in crowd:
        one.close()
