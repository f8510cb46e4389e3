"""What the simulated network and the lagging followers promise: no more and no less than TCP and ZooKeeper do."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.cluster.store import Result
from tests.simulation.ensemble import Ensemble
from tests.simulation.network import Network, SimListener, SimPeer
from tests.simulation.store import SimStore
from tests.simulation.world import MS, Node, S, World

LAG_MS = 1_000
every_seed = pytest.mark.parametrize("seed", range(1, 9))


class Line:
    """A client, a server that notes what reaches it and answers it, and the network between."""

    def __init__(self, seed: int, timeout_ms: int) -> None:
        self.world = World(seed)
        self.network = Network(self.world)
        self.client, self.server = Node(self.world, "client"), Node(self.world, "server")
        self.heard: list[bytes] = []
        self.told: list[bytes | None] = []

        def on_frame(connection: Any, frame: memoryview) -> None:
            self.heard.append(bytes(frame))
            connection.answer(connection.open_slot(), [b"\0\0\0\0" + bytes(frame)])

        SimListener(self.network, self.server, "server", 1, on_frame).open()
        self.peer = SimPeer(self.network, self.client, "server", 1, timeout_ms)

    def ask(self, *texts: bytes) -> None:
        for text in texts:
            self.client.enter(
                lambda text=text: self.peer.ask(  # type: ignore[misc]
                    b"\0\0\0\0" + text, lambda frame: self.told.append(None if frame is None else bytes(frame))
                )
            )

    def pass_ms(self, ms: int) -> None:
        self.world.run(self.world.now_us + ms * MS)


@every_seed
def test_a_cut_holds_frames_back_and_keeps_their_order(seed: int) -> None:
    line = Line(seed, timeout_ms=10_000)
    line.ask(b"a")
    line.pass_ms(1_000)
    line.network.cut.add(("client", "server"))
    line.ask(b"b", b"c", b"d")
    line.pass_ms(3_000)
    assert line.heard == [b"a"]
    line.network.cut.clear()
    line.pass_ms(1_500)
    assert line.heard == line.told == [b"a", b"b", b"c", b"d"]


def test_what_a_client_gave_up_arrives_late_or_never_and_its_answer_never() -> None:
    late = 0
    for seed in range(1, 21):
        line = Line(seed, timeout_ms=500)
        line.ask(b"first")
        line.pass_ms(450)
        line.network.cut.add(("client", "server"))
        line.ask(b"given up")
        line.pass_ms(1_500)
        assert line.told == [b"first", None]
        line.network.cut.clear()
        line.ask(b"asked again")
        line.pass_ms(2_000)
        assert line.told == [b"first", None, b"asked again"]
        assert set(line.heard) - {b"given up"} == {b"first", b"asked again"}
        late += line.heard.count(b"given up")
    assert 0 < late < 20


class Pair:
    """Two sessions, one of them served by a follower that lags."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.ensemble = Ensemble(self.world, LAG_MS)
        self.writer = SimStore(self.ensemble, Node(self.world, "writer"), 3_000)
        self.reader = SimStore(self.ensemble, Node(self.world, "reader"), 3_000)
        self.writer._lag_us, self.reader._lag_us = 0, LAG_MS * MS
        self.world.run(1 * S)
        self.writer._lag_us, self.reader._lag_us = 0, LAG_MS * MS
        self.do(self.writer.create, "/n", b"old")
        self.world.run(self.world.now_us + 3 * S)

    def do(self, verb: Any, *arguments: Any, **named: Any) -> Result:
        answers: list[Result] = []
        verb(*arguments, answers.append, **named)
        self.world.run(self.world.now_us + 200 * MS, lambda: bool(answers))
        return answers[0]

    def read(self) -> bytes:
        return self.do(self.reader.get, "/n").data


@every_seed
def test_a_lagging_follower_reads_the_past_until_it_has_caught_up(seed: int) -> None:
    pair = Pair(seed)
    pair.do(pair.writer.set, "/n", b"new", -1)
    assert pair.read() == b"old"
    pair.world.run(pair.world.now_us + 2 * S)
    assert pair.read() == b"new"


@every_seed
def test_a_sync_or_a_write_of_its_own_brings_a_session_up_to_now(seed: int) -> None:
    for verb, arguments in (("sync", ("/",)), ("create", ("/own", b""))):
        pair = Pair(seed)
        pair.do(pair.writer.set, "/n", b"new", -1)
        pair.do(getattr(pair.reader, verb), *arguments)
        assert pair.read() == b"new"


@every_seed
def test_a_watch_is_heard_before_what_it_tells_of_can_be_read(seed: int) -> None:
    pair = Pair(seed)
    told: list[str] = []
    pair.do(pair.reader.get, "/n", watch=told.append)
    pair.do(pair.writer.set, "/n", b"new", -1)
    while pair.read() == b"old":
        assert not told
    assert told == ["/n"]


@every_seed
def test_a_session_never_goes_back_in_time_over_a_reconnect(seed: int) -> None:
    pair = Pair(seed)
    pair.do(pair.writer.set, "/n", b"new", -1)
    pair.do(pair.reader.sync, "/")
    assert pair.read() == b"new"
    pair.reader.lose()
    pair.reader.reconnect()
    pair.world.run(pair.world.now_us + 600 * MS)
    assert pair.read() == b"new"


def test_once_a_connection_is_refused_nothing_sent_over_it_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A door that opens a moment later must not answer the second question to whoever asked the first."""
    line = Line(1, timeout_ms=5_000)
    delays_ms = iter((1, 3, 5, 1, 1))  # of both questions, of the refusal's news, of an answer
    monkeypatch.setattr(line.network, "delay_us", lambda: next(delays_ms) * MS)
    door = line.network.doors.pop(("server", 1))
    line.ask(b"refused", b"behind it")
    line.pass_ms(2)
    line.network.doors["server", 1] = door
    line.pass_ms(100)
    assert line.told == [None, None]
