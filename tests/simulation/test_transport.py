"""The simulated network and the lagging followers guarantee no more and no less than TCP and ZooKeeper."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.cluster.store import Result
from tests.simulation.ensemble import Ensemble
from tests.simulation.network import RTO_MAX_US, Network, SimListener, SimPeer
from tests.simulation.store import SimStore
from tests.simulation.world import MS, Node, S, World

LAG_MS = 1_000
every_seed = pytest.mark.parametrize("seed", range(1, 9))


class TransportScene:
    """A client, a server that records and answers its requests, and the network between them."""

    def __init__(self, seed: int, timeout_ms: int) -> None:
        self.world = World(seed)
        self.network = Network(self.world)
        self.client, self.server = Node(self.world, "client"), Node(self.world, "server")
        self.received: list[bytes] = []
        self.reported: list[bytes | None] = []

        def on_frame(connection: Any, frame: memoryview) -> None:
            self.received.append(bytes(frame))
            connection.respond(connection.open_slot(), [b"\0\0\0\0" + bytes(frame)])

        SimListener(self.network, self.server, "server", 1, on_frame).open()
        self.peer = SimPeer(self.network, self.client, "server", 1, timeout_ms)

    def send_request(self, *texts: bytes) -> None:
        for text in texts:
            self.client.enter(
                lambda text=text: self.peer.send_request(  # type: ignore[misc]
                    b"\0\0\0\0" + text, lambda frame: self.reported.append(None if frame is None else bytes(frame))
                )
            )

    def pass_ms(self, ms: int) -> None:
        self.world.run(self.world.now_us + ms * MS)


@every_seed
def test_a_cut_delays_frames_and_keeps_their_order(seed: int) -> None:
    line = TransportScene(seed, timeout_ms=10_000)
    line.send_request(b"a")
    line.pass_ms(1_000)
    line.network.cut.add(("client", "server"))
    line.send_request(b"b", b"c", b"d")
    line.pass_ms(3_000)
    assert line.received == [b"a"]
    line.network.cut.clear()
    line.pass_ms(4_000)
    assert line.received == line.reported == [b"a", b"b", b"c", b"d"]


@every_seed
def test_a_frame_arrives_after_a_network_cut_within_the_doubled_time_out(seed: int) -> None:
    line = TransportScene(seed, timeout_ms=60_000)
    line.network.cut.add(("client", "server"))
    line.send_request(b"late")
    line.pass_ms(3_500)  # sent again after 0.2, 0.6, 1.4 and 3.0 s; next after 6.2 s
    line.network.cut.clear()
    line.pass_ms(2_500)
    assert line.received == []
    line.pass_ms(300)
    assert line.received == [b"late"]
    line.network.cut.add(("client", "server"))
    line.send_request(b"far later")
    line.pass_ms(50_000)
    line.network.cut.clear()
    line.pass_ms(RTO_MAX_US // MS + 10)
    assert line.received == [b"late", b"far later"]


def test_an_abandoned_request_may_arrive_late_and_its_response_never_arrives() -> None:
    late = 0
    for seed in range(1, 21):
        line = TransportScene(seed, timeout_ms=500)
        line.send_request(b"first")
        line.pass_ms(450)
        line.network.cut.add(("client", "server"))
        line.send_request(b"given up")
        line.pass_ms(1_500)
        assert line.reported == [b"first", None]
        line.network.cut.clear()
        line.send_request(b"asked again")
        line.pass_ms(4_000)
        assert line.reported == [b"first", None, b"asked again"]
        assert set(line.received) - {b"given up"} == {b"first", b"asked again"}
        late += line.received.count(b"given up")
    assert 0 < late < 20


class Pair:
    """Two sessions; a lagging follower serves one of them."""

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
        responses: list[Result] = []
        verb(*arguments, responses.append, **named)
        self.world.run(self.world.now_us + 200 * MS, lambda: bool(responses))
        return responses[0]

    def read(self) -> bytes:
        return self.do(self.reader.get, "/n").data


@every_seed
def test_a_lagging_follower_returns_old_data_until_it_has_caught_up(seed: int) -> None:
    pair = Pair(seed)
    pair.do(pair.writer.set, "/n", b"new", -1)
    assert pair.read() == b"old"
    pair.world.run(pair.world.now_us + 2 * S)
    assert pair.read() == b"new"


@every_seed
def test_a_sync_or_a_write_brings_a_session_up_to_date(seed: int) -> None:
    for verb, arguments in (("sync", ("/",)), ("create", ("/own", b""))):
        pair = Pair(seed)
        pair.do(pair.writer.set, "/n", b"new", -1)
        pair.do(getattr(pair.reader, verb), *arguments)
        assert pair.read() == b"new"


@every_seed
def test_a_watch_fires_before_the_change_can_be_read(seed: int) -> None:
    pair = Pair(seed)
    reported: list[str] = []
    pair.do(pair.reader.get, "/n", watch=reported.append)
    pair.do(pair.writer.set, "/n", b"new", -1)
    while pair.read() == b"old":
        assert not reported
    assert reported == ["/n"]


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


def test_no_request_of_a_refused_connection_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A listener that opens a moment later must not answer the second request with the response to the first."""
    line = TransportScene(1, timeout_ms=5_000)
    delays_ms = iter((1, 3, 5, 1, 1))  # of both requests, of the refusal, of a response
    monkeypatch.setattr(line.network, "delay_us", lambda: next(delays_ms) * MS)
    listener = line.network.listeners.pop(("server", 1))
    line.send_request(b"refused", b"behind it")
    line.pass_ms(2)
    line.network.listeners["server", 1] = listener
    line.pass_ms(100)
    assert line.reported == [None, None]
