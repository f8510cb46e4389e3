"""One process's connection to the simulated ensemble: a session, its connection, the follower that serves it, and the losses when one of them ends.

Does not contain the tree and its rules (ensemble).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from brokerd.cluster.store import Code, Create, Delete, Done, Operation, Result, SessionState, Set
from brokerd.cluster.zookeeper import CLOSE_SECONDS_MAX
from tests.simulation.ensemble import Ensemble, Session, Watch
from tests.simulation.world import MS, Node, S


class SimStore:
    """`Store` for one incarnation of a process."""

    def __init__(self, ensemble: Ensemble, node: Node, timeout_ms: int, wake: Callable[[], None] | None = None) -> None:
        self.on_session: Callable[[SessionState], None] = lambda state: None
        self.ensemble, self.node, self.timeout_ms = ensemble, node, timeout_ms
        self.world = ensemble.world
        self.connection = 0
        self.number_at_server = 0
        self.linked = True
        """True if its packets get through now."""
        self.wake = wake
        self._session = 0
        self._connected = False
        self._closed = False
        self._events: deque[tuple[int, Callable[[], None], Callable[[], None] | None]] = deque()
        self._last_out_us = self._last_in_us = 0
        self._unsent: list[tuple[Callable[[], Result], Done]] = []
        self._under_way: dict[int, tuple[Callable[[], Result], Done]] = {}
        self._responses: dict[int, Done] = {}
        self._notices: deque[Callable[[], None]] = deque()
        self._serial = 0
        self.multis = 0
        """Requests in flight."""
        self._lag_us = 0
        self._seen = 0
        """The last zxid that its follower has applied; `_view` is the tree at that zxid."""
        self._view = ensemble.znodes
        self._watches: dict[tuple[str, str], Watch] = {}
        ensemble.stores.append(self)
        node.on_death.append(self._on_died)
        self.reconnect()

    def _on_died(self) -> None:
        self._closed = True
        self.connection += 1
        self.number_at_server = 0
        self.ensemble.stores.remove(self)
        for run, _ in self._under_way.values():
            if self.world.chance(0.5):
                run()  # the message had been sent already

    # -- the connection ----------------------------------------------------------------------------------------------------
    def cut(self) -> None:
        """Packets are lost from now on."""
        if self.linked and not self._closed:
            self.linked = False
            self.world.deliver(f"{self.node.name} is cut off from the ensemble")
            self.lose()

    def heal(self) -> None:
        if not self.linked and not self._closed:
            self.linked = True
            self.world.deliver(f"{self.node.name} reaches the ensemble again")
            self.reconnect()

    def lose(self) -> None:
        """The connection is lost; the client notices a little later."""
        self.connection += 1
        self.number_at_server = 0
        under_way, self._under_way = self._under_way, {}
        responses, self._responses = self._responses, {}
        for done in responses.values():
            self._notice(lambda done=done: done(Result(Code.CONNECTION_LOSS)))  # type: ignore[misc]
        for run, done in under_way.values():
            if self.ensemble.up and self.world.chance(0.5):
                run()
            self._notice(lambda done=done: done(Result(Code.CONNECTION_LOSS)))  # type: ignore[misc]
        self._watches.clear()
        self._notice(self._on_suspended)

    def _on_suspended(self) -> None:
        if self._connected:
            self._connected = False
            self.on_session(SessionState.SUSPENDED)

    def reconnect(self) -> None:
        life, connection = self.node.life, self.connection

        def on_arrival() -> None:
            if (
                self.number_at_server
                or self._closed
                or life != self.node.life
                or connection != self.connection
                or not self.linked
                or not self.ensemble.up
            ):
                return
            if self.node.frozen:
                self.world.after(20 * MS, on_arrival)
                return
            session = self.ensemble.sessions.get(self._session)
            if self._session and session is None:
                self._session = 0
                self.connection += 1
                unsent, self._unsent = self._unsent, []
                for _, done in unsent:
                    self._notice(lambda done=done: done(Result(Code.CONNECTION_LOSS)))  # type: ignore[misc]
                self._notice(self._on_expired)
                self.reconnect()
                return
            if session is None:
                self.ensemble.zxid += 1
                self._session = self.ensemble.zxid << 8
                self.ensemble.sessions[self._session] = Session(self._session, self, self.world.now_us)
                self._hears(self.ensemble.zxid)  # a session starts with a write
            self._attach()
            self.ensemble.sessions[self._session].received_us = self.world.now_us
            self.number_at_server = self._session
            unsent, self._unsent = self._unsent, []
            for run, done in unsent:
                run()
                self._notice(lambda done=done: done(Result(Code.CONNECTION_LOSS)))  # type: ignore[misc]
            self._notice(self._on_joined)

        self.world.after(self.world.between(1 * MS, 300 * MS), on_arrival)

    def _on_joined(self) -> None:
        self._connected = True
        self.on_session(SessionState.CONNECTED)

    def _on_expired(self) -> None:
        self._connected = False
        self.on_session(SessionState.EXPIRED)

    def expired_at_server(self) -> None:
        """The server expired the session. A connected client is disconnected and notified as soon as possible."""
        if not self._closed and self.linked and self.ensemble.up:
            self.lose()
            self.reconnect()

    # -- the follower --------------------------------------------------------------------------------------------------------
    def _attach(self) -> None:
        """Connects to a follower with a random lag, but never behind the state that this session has seen."""
        lag = self.ensemble.lag_ms
        self._lag_us = self.world.between(0, lag * MS) if lag and self.world.chance(0.7) else 0
        received = [c.zxid for c in self.ensemble.history if c.at_us <= self.world.now_us - self._lag_us]
        self._hears(max(received, default=0) if self._lag_us else self.ensemble.zxid)
        self.follower_will_hear(self.ensemble.zxid)

    def lag(self, us: int) -> None:
        """From now on the follower of this connection applies each change this much later."""
        self._lag_us = us

    def follower_will_hear(self, zxid: int) -> None:
        if self._lag_us == 0:
            self._hears(zxid)
            return
        connection = self.connection
        self.world.after(self._lag_us, lambda: self._hears(zxid) if connection == self.connection else None)

    def _hears(self, zxid: int) -> None:
        if zxid <= self._seen:
            return
        news = [c for c in self.ensemble.history if self._seen < c.zxid <= zxid]
        self._seen = zxid
        for change in news:
            self._view = change.znodes
            for place in change.fired:
                watch = self._watches.pop(place, None)
                if watch is not None:
                    self.receive(lambda watch=watch, path=place[1]: watch(path))  # type: ignore[misc]

    def _read(self, path: str) -> Result:
        znode = self._view.get(path)
        newest = self.ensemble.znodes.get(path)
        if znode != newest:
            self.world.reached["stale read"] += 1
        return Result(Code.NO_NODE) if znode is None else Result(Code.OK, znode.data, znode.stat())

    def _watch(self, kind: str, path: str, watch: Watch | None) -> None:
        if watch is not None:
            self._watches.setdefault((kind, path), watch)

    def _commit(self, operations: Sequence[Operation]) -> Result:
        """The response arrives when the follower has applied the change, and so everything before it."""
        result = self.ensemble.commit(operations, self._session)
        self._hears(self.ensemble.zxid)
        return result

    # -- messages ----------------------------------------------------------------------------------------------------------
    def receive(self, event: Callable[[], None], stale: Callable[[], None] | None = None) -> None:
        """An event from the server, in order, unless the connection is lost first."""
        delay = self.world.between(200, 3 * MS) if not self.world.chance(0.02) else self.world.between(3 * MS, 120 * MS)
        self._last_in_us = max(self._last_in_us, self.world.now_us + delay)
        connection = self.connection

        def on_delivery() -> None:
            if connection == self.connection:
                self._events.append((connection, event, stale))
                self._wake()

        self.node.post(self._last_in_us - self.world.now_us, on_delivery)

    def _notice(self, event: Callable[[], None]) -> None:
        """An event that the client detects itself, in order. A frozen client detects it some time after it was thawed: it may act before."""
        self._notices.append(event)
        self.world.after(self.world.between(100, 50 * MS), self._drain)

    def _drain(self) -> None:
        if not self._notices or not self.node.alive or self._closed:
            return
        if self.node.frozen:
            self.world.after(self.world.between(5 * MS, 40 * MS), self._drain)
            return
        if self.world.now_us < self.node.busy_until_us:
            self.world.after(self.node.busy_until_us - self.world.now_us, self._drain)
            return
        event = self._notices.popleft()

        def on_notice() -> None:
            self._events.append((-1, event, None))
            self._wake()

        self.node.enter(on_notice)

    def _wake(self) -> None:
        if self.wake is not None:
            self.wake()
        else:
            self.pump()

    def _send_request(self, run: Callable[[], Result], done: Done) -> None:
        if self._closed:
            return
        if self.number_at_server == 0:
            self._unsent.append((run, done))
            return
        self._serial += 1
        serial, connection = self._serial, self.connection
        self._under_way[serial] = (run, done)
        self._last_out_us = max(self._last_out_us, self.world.moment_us + self.world.between(200, 2 * MS))

        def on_arrival() -> None:
            if connection != self.connection or self._under_way.pop(serial, None) is None:
                return
            if not self.ensemble.up or not self.linked:
                return
            result = run()
            self._responses[serial] = done
            lost = Result(Code.CONNECTION_LOSS)
            self.receive(lambda: self._on_response(serial, result), lambda: self._on_response(serial, lost))

        self.world.after(self._last_out_us - self.world.now_us, on_arrival)

    def _on_response(self, serial: int, result: Result) -> None:
        done = self._responses.pop(serial, None)
        if done is not None:
            done(result)

    # -- operations -------------------------------------------------------------------------------------------------
    @property
    def zk_session(self) -> int:
        return self._session if self._connected else 0

    def get(self, path: str, done: Done, watch: Watch | None = None) -> None:
        def run() -> Result:
            result = self._read(path)
            if result.ok:
                self._watch("data", path, watch)
            return result

        self._send_request(run, done)

    def exists(self, path: str, done: Done, watch: Watch | None = None) -> None:
        def run() -> Result:
            self._watch("data", path, watch)
            result = self._read(path)
            return Result(result.code, stat=result.stat)

        self._send_request(run, done)

    def children(self, path: str, done: Done, watch: Watch | None = None) -> None:
        def run() -> Result:
            if path not in self._view:
                return Result(Code.NO_NODE)
            self._watch("children", path, watch)
            prefix = path.rstrip("/") + "/"
            below = [p[len(prefix) :] for p in self._view if p.startswith(prefix) and p != "/"]
            return Result(Code.OK, children=tuple(sorted(n for n in below if "/" not in n)))

        self._send_request(run, done)

    def _send_one(self, op: Operation, done: Done) -> None:
        def run() -> Result:
            result = self._commit([op])
            stat = None
            if result.ok and isinstance(op, Set):
                stat = self.ensemble.znodes[op.path].stat()
            return Result(result.code, stat=stat)

        self._send_request(run, done)

    def create(self, path: str, data: bytes, done: Done, *, ephemeral: bool = False) -> None:
        self._send_one(Create(path, data, ephemeral), done)

    def set(self, path: str, data: bytes, version: int, done: Done) -> None:
        self._send_one(Set(path, data, version), done)

    def delete(self, path: str, version: int, done: Done) -> None:
        self._send_one(Delete(path, version), done)

    def multi(self, operations: Sequence[Operation], done: Done) -> None:
        self.multis += 1

        def got_results(result: Result) -> None:
            self.multis -= 1
            if result.code is Code.CONNECTION_LOSS:
                self.world.reached["unknown multi"] += 1
            done(result)

        held = tuple(operations)
        self._send_request(lambda: self._commit(held), got_results)

    def sync(self, path: str, done: Done) -> None:
        def run() -> Result:
            self._hears(self.ensemble.zxid)
            return Result(Code.OK)

        self._send_request(run, done)

    def fileno(self) -> int:
        return -1

    def pump(self) -> None:
        while self._events:
            connection, event, stale = self._events.popleft()
            if connection in (-1, self.connection):
                event()
            elif stale is not None:
                stale()

    def close(self) -> None:
        """Ends the session: at once, or at the next connection within CLOSE_SECONDS_MAX. Requests made just before are lost: a closing process only
        writes ephemeral nodes."""
        self._closed = True
        self._under_way.clear()
        session, until_us = self._session, self.world.now_us + int(CLOSE_SECONDS_MAX * S)
        connected = self.number_at_server != 0
        self.connection += 1

        def end() -> None:
            if session not in self.ensemble.sessions:
                return
            if self.linked and self.ensemble.up:
                self.ensemble.expire(session)
            elif self.world.now_us < until_us:
                self.world.after(100 * MS, end)

        if connected and self.ensemble.up:
            end()
        else:
            self.world.after(100 * MS, end)
