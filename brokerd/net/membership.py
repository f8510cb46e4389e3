"""This broker's place in the cluster: its registration, its view of the metadata log, what it asks the controller.

Laws: registered only after the log was read past a sync; one's own seat after a lost session is taken over by uuid, nobody else's;
every request is answered once, by the log or by None. Called by the broker. Must not come in: partitions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from brokerd.cluster import znodes
from brokerd.cluster.image import Image
from brokerd.cluster.levels import SPOKEN
from brokerd.cluster.metadata import Record, RequestAnswered
from brokerd.cluster.model import Endpoint, Now, TopicPartition
from brokerd.cluster.store import Code, Create, Delete, Result, SessionState, Store
from brokerd.cluster.tailer import Tailer
from brokerd.cluster.znodes import Finding, ForwardedRequest, Registration
from brokerd.identity import Identity
from brokerd.net.told import Told

log = logging.getLogger(__name__)

RETRY_MS = 300
REQUESTS_MAX = 1_000
"""Requests of this broker that wait for the controller at once; more are answered None at once."""


class Listener(Protocol):
    def image_loaded(self, image: Image, now: Now) -> None: ...

    def entry_applied(self, image: Image, records: Sequence[Record], now: Now) -> None: ...

    def registered(self, incarnation: int, now: Now) -> None: ...

    def caught_up(self, now: Now) -> None: ...

    def session_lost(self, now: Now) -> None: ...

    def halted(self, reason: str) -> None: ...


@dataclass(slots=True)
class Waiting:
    deadline_mono_ms: int
    done: Callable[[RequestAnswered | None], None]
    kind: str
    payload: Mapping[str, Any]
    asked: bool = False
    """Its node was asked for in this session of ours, or is known to be there."""


class Membership:
    def __init__(
        self,
        store: Store,
        identity: Identity,
        listener: Listener,
        clock: Callable[[], Now],
        *,
        endpoints: Sequence[Endpoint],
        clear: Endpoint,
        rack: str | None,
        failure_domain: str | None,
    ) -> None:
        self._store, self._identity, self._listener, self._clock = store, identity, listener, clock
        self._endpoints, self._clear = tuple(endpoints), clear
        self._rack, self._failure_domain = rack, failure_domain
        self.broker_id = identity.broker_id
        self.tailer = Tailer(store, self, clock)
        self.incarnation: int | None = None
        self._born: int | None = None
        """The first incarnation of this process: names its requests, which outlive a session."""
        self._registering = False
        self._retry_at_ms: int | None = None
        self._loaded = False
        self._closing = False
        self._wanted = znodes.Proposals()
        self._proposals_busy = False
        self._proposals_dirty = False
        self._proposals_mine = False
        """The node is of this session. An earlier one's can still be there, and goes with that session, what was written into it too."""
        none: frozenset[TopicPartition] = frozenset()
        self._offline = Told(store, znodes.offline(self.broker_id), znodes.encode_offline, none)
        nothing: tuple[Finding, ...] = ()
        self._findings = Told(store, znodes.findings(self.broker_id), znodes.encode_findings, nothing)
        self._number = 0
        self._waiting: dict[str, Waiting] = {}
        self._early: list[Waiting] = []
        """Asked before this process had its first seat, whose number names its requests."""
        store.on_session = self._session

    @property
    def image(self) -> Image:
        return self.tailer.image

    @property
    def head_read(self) -> bool:
        return self.tailer.current

    # -- the session -----------------------------------------------------------------------------------------------------
    def _session(self, state: SessionState) -> None:
        now = self._clock()
        if state is SessionState.CONNECTED:
            self.tailer.connected()
            return
        self.tailer.disconnected()
        self._registering = self._proposals_busy = self._offline.busy = self._findings.busy = False
        if state is SessionState.EXPIRED:
            for waiting in self._waiting.values():
                waiting.asked = False  # its node went with the session
            log.warning("the ZooKeeper session has expired: registering anew")
            self._proposals_mine = False
            self._unseated(now)

    def _unseated(self, now: Now) -> None:
        self.incarnation = None
        self._unsaid()
        self._listener.session_lost(now)

    def tick(self, now: Now) -> None:
        self.tailer.tick(now)
        for request_id in [i for i, w in self._waiting.items() if w.deadline_mono_ms <= now.mono_ms]:
            waiting = self._waiting.pop(request_id)
            if self._store.zk_session:
                self._store.delete(znodes.request(request_id), -1, lambda r: None)
            waiting.done(None)
        expired = [w for w in self._early if w.deadline_mono_ms <= now.mono_ms]
        self._early = [w for w in self._early if w.deadline_mono_ms > now.mono_ms]
        for waiting in expired:
            waiting.done(None)
        if self._retry_at_ms is not None and now.mono_ms >= self._retry_at_ms:
            self._retry_at_ms = None
            self._register()
        if self._proposals_dirty:
            self._send_proposals()
        self._say()

    # -- the tailer's listener -------------------------------------------------------------------------------------------
    def image_loaded(self, image: Image, now: Now) -> None:
        self._heard_of(image)
        if self._loaded:
            self._listener.image_loaded(image, now)
        # Else a start: a snapshot is older than the folder, and topics made after it would look like strays. `caught_up` loads.

    def entry_applied(self, image: Image, records: Sequence[Record], now: Now) -> None:
        self._heard_of(image)
        if self._loaded:
            self._listener.entry_applied(image, records, now)
        for record in records:
            if isinstance(record, RequestAnswered):
                waiting = self._waiting.pop(record.request_id, None)
                if waiting is not None:
                    waiting.done(record)

    def _heard_of(self, image: Image) -> None:
        if self.incarnation is not None and image.incarnation(self.broker_id) == self.incarnation:
            self._identity.loss_is_known()

    def caught_up(self, image: Image, now: Now) -> None:
        problem = self._identity.problem(image.cluster_id, image.seq)
        if problem is not None:
            self.tailer.halted = problem
            self._listener.halted(problem)
            return
        if not self._loaded:
            # Everything up to the head at once, rather than entry by entry: a start opens each log once.
            self._loaded = True
            self._listener.image_loaded(image, now)
        self._listener.caught_up(now)
        mine = image.brokers.get(self.broker_id)
        if mine is not None and mine.incarnation == self.incarnation and not mine.alive:
            log.warning("the controller took this broker for dead: registering anew")
            self._unseated(now)
        if self.incarnation is None:
            self._register()
        self._ask_the_rest()

    def halted(self, reason: str) -> None:
        self._listener.halted(reason)

    # -- registration ----------------------------------------------------------------------------------------------------
    def _register(self) -> None:
        if self._registering or self._closing or self.incarnation is not None or not self._store.zk_session:
            return
        self._registering = True
        self._store.get(znodes.broker(self.broker_id), self._seat_read)

    def _seat_read(self, result: Result) -> None:
        path = znodes.broker(self.broker_id)
        me = Registration(
            self.broker_id, self._identity.broker_uuid, self._clear.host, self._clear.port, self._rack,
            self._failure_domain, self._identity.tail_intact, self._identity.cluster_id, endpoints=self._endpoints,
            metadata_levels=SPOKEN,
        )  # fmt: skip
        if result.code is Code.NO_NODE:
            self._store.create(path, me.encode(), self._seat_taken, ephemeral=True)
        elif result.ok and result.stat is not None:
            try:
                holder = Registration.decode(result.data, result.stat.czxid).broker_uuid
            except (ValueError, KeyError):
                holder = "unreadable"
            if holder != self._identity.broker_uuid:
                log.error("broker id %d is held by another broker (%s); fix broker.id or stop that one",
                          self.broker_id, holder)  # fmt: skip
                self._again()
                return
            # One's own seat of an earlier session: taken over in one step.
            self._store.multi(
                [Delete(path, result.stat.version), Create(path, me.encode(), ephemeral=True)], self._seat_taken
            )
        else:
            self._again()

    def _seat_taken(self, result: Result) -> None:
        if not result.ok:
            self._again()  # also after an unknown outcome: the seat is read again
            return
        self._store.get(znodes.broker(self.broker_id), self._seat_known)

    def _seat_known(self, result: Result) -> None:
        if not result.ok or result.stat is None or result.stat.owner != self._store.zk_session:
            self._again()
            return
        self._registering = False
        self.incarnation = result.stat.czxid
        if self._born is None:
            self._born = self.incarnation
            early, self._early = self._early, []
            for w in early:
                self.request(w.kind, w.payload, max(1, w.deadline_mono_ms - self._clock().mono_ms), w.done)
        log.info("broker %d registered, incarnation %d", self.broker_id, self.incarnation)
        self._unsaid()
        self._listener.registered(self.incarnation, self._clock())
        self._send_proposals()
        self._say()
        self._ask_the_rest()

    def _again(self) -> None:
        self._registering = False
        self._retry_at_ms = self._clock().mono_ms + RETRY_MS

    # -- asking the controller -------------------------------------------------------------------------------------------
    def propose(self, wanted: znodes.Proposals) -> None:
        """Replace all that this broker, as leader, asks for."""
        self._wanted = wanted
        self._proposals_dirty = True
        self._send_proposals()

    def _send_proposals(self) -> None:
        if self._proposals_busy or self.incarnation is None or not self._store.zk_session:
            return
        self._proposals_busy, self._proposals_dirty = True, False
        data = znodes.encode_proposals(self.incarnation, self._wanted)
        path = znodes.proposals(self.broker_id)

        def gone(result: Result) -> None:
            if result.code in (Code.OK, Code.NO_NODE):
                self._store.create(path, data, written, ephemeral=True)
            else:
                written(result)

        def written(result: Result) -> None:
            self._proposals_busy = False
            self._proposals_mine = result.ok
            if not result.ok:
                self._proposals_dirty = True  # the next tick tries again
            elif self._proposals_dirty:
                self._send_proposals()

        if self._proposals_mine:
            self._store.set(path, data, -1, written)
        else:
            self._store.delete(path, -1, gone)

    def tell_offline(self, offline: frozenset[TopicPartition]) -> None:
        """Which of this broker's copies it cannot serve: the controller takes them out of the ISR and lets others lead."""
        self._offline.wanted = offline
        self._say()

    def tell_findings(self, found: tuple[Finding, ...]) -> None:
        """What is wrong with copies that it serves all the same: for people to see and have mended."""
        self._findings.wanted = found
        self._say()

    def _say(self) -> None:
        if self.incarnation is not None and self._store.zk_session:
            self._offline.send(self.incarnation)
            self._findings.send(self.incarnation)

    def _unsaid(self) -> None:
        """A new seat begins with nothing told."""
        self._offline.forget()
        self._findings.forget()

    def request(
        self,
        kind: str,
        payload: Mapping[str, Any],
        timeout_ms: int,
        done: Callable[[RequestAnswered | None], None],
    ) -> None:
        """Ask the controller; `done` hears the log's answer, or None after the time-out. Without a session it waits for the next."""
        if len(self._waiting) + len(self._early) >= REQUESTS_MAX:
            done(None)
            return
        deadline_mono_ms = self._clock().mono_ms + timeout_ms
        if self._born is None:
            self._early.append(Waiting(deadline_mono_ms, done, kind, payload))
            return
        self._number += 1
        request_id = f"{self._born}-{self._number}"
        if payload.get("auto"):
            # One node per name, so that a storm of clients asks once.
            request_id = f"create-topic-{payload['topics'][0]['name']}"
            if request_id in self._waiting:
                return
        self._waiting[request_id] = Waiting(deadline_mono_ms, done, kind, payload)
        self._ask(request_id)

    def _ask(self, request_id: str) -> None:
        if self.incarnation is None or not self._store.zk_session:
            return
        waiting = self._waiting[request_id]
        waiting.asked = True
        body = ForwardedRequest(request_id, self.broker_id, self.incarnation, waiting.kind, waiting.payload)

        def created(result: Result) -> None:
            if self._waiting.get(request_id) is not waiting or result.code in (Code.OK, Code.NODE_EXISTS):
                return
            if result.code is Code.CONNECTION_LOSS:
                waiting.asked = (
                    False  # unknown: asked again once the log was read, which has the answer if there is one
                )
                return
            del self._waiting[request_id]
            waiting.done(None)

        self._store.create(znodes.request(request_id), body.encode(), created, ephemeral=True)

    def _ask_the_rest(self) -> None:
        """What no session has carried yet. The log was read first: an answer of before is not asked for again."""
        for request_id in [i for i, waiting in self._waiting.items() if not waiting.asked]:
            self._ask(request_id)

    def shutdown(self, timeout_ms: int, done: Callable[[], None]) -> None:
        """Controlled: ask for the leaders to move off, then call `done` whatever came of it. Without a session there is nobody to ask."""
        self._closing = True
        if self.incarnation is None or not self._store.zk_session:
            done()
            return
        self.request("controlled_shutdown", {}, timeout_ms, lambda answer: done())

    def close(self) -> None:
        self._store.close()
