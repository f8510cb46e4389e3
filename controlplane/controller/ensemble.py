"""What the controller hears of ZooKeeper: who acts, who is registered, what is proposed and asked.

Laws: everything is read again at each change and every second regardless (watches are hints); a seat is won by one multi that also
raises /controller_epoch. Called by `runner`. Must not come in: decisions, the database.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable
from typing import Protocol

from brokerd.cluster import znodes
from brokerd.cluster.model import Now, TopicPartition
from brokerd.cluster.store import Code, Create, Result, Set, Store
from brokerd.cluster.znodes import ForwardedRequest, Proposals, Registration

log = logging.getLogger(__name__)

LOOK_EVERY_MS = 1_000
REQUESTS_AT_ONCE = 500
"""Forwarded requests read in one look; the rest follow."""


class Listener(Protocol):
    def won(self, controller_epoch: int, epoch_version: int, now: Now) -> None: ...

    def brokers(self, registrations: dict[int, Registration], now: Now) -> None: ...

    def proposed(self, broker_id: int, incarnation: int, wanted: Proposals, now: Now) -> None: ...

    def offline(self, broker_id: int, incarnation: int, partitions: frozenset[TopicPartition], now: Now) -> None: ...

    def requested(self, request: ForwardedRequest, now: Now) -> None: ...


class Ensemble:
    def __init__(self, store: Store, name: str, listener: Listener, clock: Callable[[], Now]) -> None:
        self._store, self._name, self._listener, self._clock = store, name, listener, clock
        self._round = 0
        self.acting = False
        self.able = True
        """Whether it reads the log. One that does not would win the seat, find out, lose it, and win it again."""
        self._electing = False
        self._looked_ms = 0
        self._brokers: dict[int, Registration] = {}
        self._seen_requests: set[str] = set()
        self._ready = False

    # -- life of a connection --------------------------------------------------------------------------------------------
    def connected(self) -> None:
        self._round += 1
        self._electing = False
        self._create_paths(0)

    def disconnected(self) -> None:
        self._round += 1
        self._electing = self._ready = False

    def taken_up(self) -> None:
        """The core hears from now on; what was read between the election and this moment it has not heard, so all is read again."""
        self._round += 1
        self._seen_requests.clear()
        self.look()

    def deposed(self) -> None:
        self.acting = False
        self._seen_requests.clear()

    def resign(self) -> None:
        """Stand no more until `able` again, and give back the seat if it is ours."""
        self.able = False

        def held(result: Result) -> None:
            if result.ok and result.stat is not None and result.stat.owner == self._store.zk_session and not self.able:
                self._store.delete(znodes.CONTROLLER, result.stat.version, lambda r: None)

        self._store.get(znodes.CONTROLLER, held)

    def tick(self, now: Now) -> None:
        if self._ready and now.mono_ms - self._looked_ms >= LOOK_EVERY_MS:
            self._looked_ms = now.mono_ms
            if self.acting:
                self.look()
            else:
                self.stand()

    def _create_paths(self, i: int) -> None:
        round_ = self._round
        if i < len(znodes.PERSISTENT):

            def created(result: Result) -> None:
                if round_ == self._round and result.code in (Code.OK, Code.NODE_EXISTS):
                    self._create_paths(i + 1)

            self._store.create(znodes.PERSISTENT[i], b"", created)
            return

        def counted(result: Result) -> None:
            if round_ == self._round and result.code in (Code.OK, Code.NODE_EXISTS):
                self._ready = True
                if not self.acting:
                    self.stand()

        self._store.create(znodes.CONTROLLER_EPOCH, b"0", counted)

    # -- election --------------------------------------------------------------------------------------------------------
    def stand(self) -> None:
        """Try to become the acting controller."""
        if self._electing or self.acting or not self._ready or not self.able:
            return
        self._electing = True
        round_ = self._round

        def holder(result: Result) -> None:
            if round_ != self._round:
                return
            if result.code is Code.NO_NODE:
                self._store.get(znodes.CONTROLLER_EPOCH, epoch)
                return
            self._electing = False
            if result.ok and result.stat is not None and result.stat.owner == self._store.zk_session:
                # Won, but the answer was lost: give the seat back and win it properly, with a new epoch.
                self._store.delete(znodes.CONTROLLER, result.stat.version, lambda r: self.stand())

        def epoch(result: Result) -> None:
            if round_ != self._round or not result.ok or result.stat is None:
                self._electing = False
                return
            number, version = int(result.data), result.stat.version
            body = znodes.to_json({"controller": self._name, "epoch": number + 1})

            def won(result: Result) -> None:
                if round_ != self._round:
                    return
                self._electing = False
                if result.ok:
                    self.acting = True
                    log.info("%s acts as controller, epoch %d", self._name, number + 1)
                    self._listener.won(number + 1, version + 1, self._clock())
                    self.look()

            self._store.multi(
                [
                    Create(znodes.CONTROLLER, body, ephemeral=True),
                    Set(znodes.CONTROLLER_EPOCH, str(number + 1).encode(), version),
                ],
                won,
            )

        self._store.get(znodes.CONTROLLER, holder, lambda path: self.stand())

    # -- what the acting controller looks at -------------------------------------------------------------------------------
    def look(self) -> None:
        if self._store.zk_session == 0:
            return
        self._look_brokers()
        self._look_proposals()
        self._look_offline()
        self._look_requests()

    def _look_brokers(self) -> None:
        round_ = self._round

        def listed(result: Result) -> None:
            if round_ != self._round or not result.ok:
                return
            found: dict[int, Registration] = {}
            left = len(result.children)
            broken = False
            if not left:
                self._listener.brokers({}, self._clock())

            def read(name: str, result: Result) -> None:
                nonlocal left, broken
                left -= 1
                if result.ok and result.stat is not None:
                    try:
                        r = Registration.decode(result.data, result.stat.czxid)
                        found[r.broker_id] = r
                    except (ValueError, KeyError) as e:
                        log.error("%s/%s cannot be read: %s", znodes.BROKERS, name, e)
                elif result.code is not Code.NO_NODE:
                    broken = True
                if left == 0 and not broken and round_ == self._round:
                    self._listener.brokers(found, self._clock())

            for name in result.children:
                self._store.get(f"{znodes.BROKERS}/{name}", lambda r, name=name: read(name, r))  # type: ignore[misc]

        self._store.children(znodes.BROKERS, listed, lambda path: self._look_brokers() if self.acting else None)

    def _look_proposals(self) -> None:
        round_ = self._round

        def listed(result: Result) -> None:
            if round_ == self._round and result.ok:
                for name in result.children:
                    self._read_proposals(name)

        self._store.children(znodes.PROPOSALS, listed, lambda path: self._look_proposals() if self.acting else None)

    def _read_proposals(self, name: str) -> None:
        round_ = self._round

        def read(result: Result) -> None:
            if round_ != self._round or not result.ok:
                return
            try:
                incarnation, wanted = znodes.decode_proposals(result.data)
                self._listener.proposed(int(name), incarnation, wanted, self._clock())
            except (ValueError, KeyError, TypeError) as e:
                log.error("ISR proposals of broker %s cannot be read: %s", name, e)

        self._store.get(
            f"{znodes.PROPOSALS}/{name}", read, lambda path: self._read_proposals(name) if self.acting else None
        )

    def _look_offline(self) -> None:
        round_ = self._round

        def listed(result: Result) -> None:
            if round_ == self._round and result.ok:
                for name in result.children:
                    self._read_offline(name)

        self._store.children(znodes.OFFLINE, listed, lambda path: self._look_offline() if self.acting else None)

    def _read_offline(self, name: str) -> None:
        round_ = self._round

        def read(result: Result) -> None:
            if round_ != self._round or not result.ok:
                return
            try:
                incarnation, partitions = znodes.decode_offline(result.data)
                self._listener.offline(int(name), incarnation, partitions, self._clock())
            except (ValueError, KeyError, TypeError, zlib.error) as e:
                log.error("what broker %s has offline cannot be read: %s", name, e)

        self._store.get(
            f"{znodes.OFFLINE}/{name}", read, lambda path: self._read_offline(name) if self.acting else None
        )

    def _look_requests(self) -> None:
        round_ = self._round

        def listed(result: Result) -> None:
            if round_ != self._round or not result.ok:
                return
            present = set(result.children)
            self._seen_requests &= present
            for name in [n for n in result.children if n not in self._seen_requests][:REQUESTS_AT_ONCE]:
                self._seen_requests.add(name)
                self._store.get(f"{znodes.REQUESTS}/{name}", lambda r, name=name: read(name, r))  # type: ignore[misc]

        def read(name: str, result: Result) -> None:
            if round_ != self._round or not result.ok:
                self._seen_requests.discard(name)
                return
            try:
                self._listener.requested(ForwardedRequest.decode(name, result.data), self._clock())
            except (ValueError, KeyError, TypeError) as e:
                log.error("request %s cannot be read: %s", name, e)

        self._store.children(znodes.REQUESTS, listed, lambda path: self._look_requests() if self.acting else None)
