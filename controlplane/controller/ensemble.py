"""The controller's reads of ZooKeeper: controller election, broker registrations, proposals, offline replicas, forwarded requests.

A standby controller reads the registrations only, for its probes.
Invariants: every znode is read again at each change and once per second, because a watch may be lost. One multi creates /controller and
raises /controller_epoch. Does not contain: decisions, the database.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable
from typing import Protocol

from brokerd.cluster import znodes
from brokerd.cluster.model import Now, TopicPartition
from brokerd.cluster.requests import ForwardedRequest, Unreadable
from brokerd.cluster.store import Code, Create, Result, Set, Store
from brokerd.cluster.znodes import Proposals, Registration

log = logging.getLogger(__name__)

POLL_EVERY_MS = 1_000
REQUESTS_AT_ONCE = 500
"""Forwarded requests read in one poll. The next poll reads the rest."""


class EnsembleListener(Protocol):
    def on_elected(self, controller_epoch: int, epoch_version: int, now: Now) -> None: ...

    def on_registrations(self, registrations: dict[int, Registration], now: Now) -> None: ...

    def on_proposals(self, broker_id: int, broker_epoch: int, proposals: Proposals, now: Now) -> None: ...

    def on_offline_partitions(
        self, broker_id: int, broker_epoch: int, partitions: frozenset[TopicPartition], now: Now
    ) -> None: ...

    def on_request(self, request: ForwardedRequest, now: Now) -> None: ...


class Ensemble:
    def __init__(
        self,
        store: Store,
        name: str,
        listener: EnsembleListener,
        clock: Callable[[], Now],
        *,
        brokers_on_standby: bool = True,
    ) -> None:
        """`brokers_on_standby`: read the registrations also while another controller is active."""
        self._brokers_on_standby = brokers_on_standby
        self._store, self._name, self._listener, self._clock = store, name, listener, clock
        self._connection_number = 0
        self.acting = False
        self.can_lead = True
        """True if this controller can read the log. A candidate that cannot would be elected, resign, and be elected again."""
        self._electing = False
        self._polled_ms = 0
        self._brokers: dict[int, Registration] = {}
        self._seen_requests: set[str] = set()
        self._ready = False

    # -- life of a connection --------------------------------------------------------------------------------------------
    def on_connected(self) -> None:
        self._connection_number += 1
        self._electing = False
        self._create_paths(0)

    def on_disconnected(self) -> None:
        self._connection_number += 1
        self._electing = self._ready = False

    def term_started(self) -> None:
        """The core accepts events from now on. It missed the reads since the election, so all nodes are read again."""
        self._connection_number += 1
        self._seen_requests.clear()
        self.poll()

    def on_deposed(self) -> None:
        self.acting = False
        self._seen_requests.clear()

    def resign(self) -> None:
        """Stop running for election until `can_lead` is set again, and delete our /controller node."""
        self.can_lead = False

        def delete_own(result: Result) -> None:
            if (
                result.ok
                and result.stat is not None
                and result.stat.owner == self._store.zk_session
                and not self.can_lead
            ):
                self._store.delete(znodes.CONTROLLER, result.stat.version, lambda r: None)

        self._store.get(znodes.CONTROLLER, delete_own)

    def tick(self, now: Now) -> None:
        if self._ready and now.mono_ms - self._polled_ms >= POLL_EVERY_MS:
            self._polled_ms = now.mono_ms
            if self.acting:
                self.poll()
            else:
                self._stand_by()

    def _stand_by(self) -> None:
        self.run_for_election()
        if self._brokers_on_standby:
            self._poll_brokers()

    def _create_paths(self, i: int) -> None:
        number_before = self._connection_number
        if i < len(znodes.PERSISTENT):

            def on_created(result: Result) -> None:
                if number_before == self._connection_number and result.code in (Code.OK, Code.NODE_EXISTS):
                    self._create_paths(i + 1)

            self._store.create(znodes.PERSISTENT[i], b"", on_created)
            return

        def on_counted(result: Result) -> None:
            if number_before == self._connection_number and result.code in (Code.OK, Code.NODE_EXISTS):
                self._ready = True
                if not self.acting:
                    self._stand_by()

        self._store.create(znodes.CONTROLLER_EPOCH, b"0", on_counted)

    # -- election --------------------------------------------------------------------------------------------------------
    def run_for_election(self) -> None:
        """Try to become the active controller."""
        if self._electing or self.acting or not self._ready or not self.can_lead:
            return
        self._electing = True
        number_before = self._connection_number

        def active_read(result: Result) -> None:
            if number_before != self._connection_number:
                return
            if result.code is Code.NO_NODE:
                self._store.get(znodes.CONTROLLER_EPOCH, epoch)
                return
            self._electing = False
            if result.ok and result.stat is not None and result.stat.owner == self._store.zk_session:
                # The election succeeded, but its response was lost: delete the node and run again, for a new epoch.
                self._store.delete(znodes.CONTROLLER, result.stat.version, lambda r: self.run_for_election())

        def epoch(result: Result) -> None:
            if number_before != self._connection_number or not result.ok or result.stat is None:
                self._electing = False
                return
            number, version = int(result.data), result.stat.version
            body = znodes.to_json({"controller": self._name, "epoch": number + 1})

            def on_epoch_written(result: Result) -> None:
                if number_before != self._connection_number:
                    return
                self._electing = False
                if result.ok:
                    self.acting = True
                    log.info("controller elected: name=%s epoch=%d", self._name, number + 1)
                    self._listener.on_elected(number + 1, version + 1, self._clock())
                    self.poll()

            self._store.multi(
                [
                    Create(znodes.CONTROLLER, body, ephemeral=True),
                    Set(znodes.CONTROLLER_EPOCH, str(number + 1).encode(), version),
                ],
                on_epoch_written,
            )

        self._store.get(znodes.CONTROLLER, active_read, lambda path: self.run_for_election())

    # -- polls: those of the brokers also by a standby controller, for its probes --------------------------------------------
    def poll(self) -> None:
        if self._store.zk_session == 0:
            return
        self._poll_brokers()
        self._poll_proposals()
        self._poll_offline()
        self._poll_requests()

    def _poll_brokers(self) -> None:
        number_before = self._connection_number

        def on_listed(result: Result) -> None:
            if number_before != self._connection_number or not result.ok:
                return
            found: dict[int, Registration] = {}
            left = len(result.children)
            broken = False
            if not left:
                self._listener.on_registrations({}, self._clock())

            def on_data(name: str, result: Result) -> None:
                nonlocal left, broken
                left -= 1
                if result.ok and result.stat is not None:
                    try:
                        r = Registration.decode(result.data, result.stat.czxid)
                        found[r.broker_id] = r
                    except (ValueError, KeyError) as e:
                        log.error("malformed broker registration: path=%s/%s error=%s", znodes.BROKERS, name, e)
                elif result.code is not Code.NO_NODE:
                    broken = True
                if left == 0 and not broken and number_before == self._connection_number:
                    self._listener.on_registrations(found, self._clock())

            for name in result.children:
                self._store.get(f"{znodes.BROKERS}/{name}", lambda r, name=name: on_data(name, r))  # type: ignore[misc]

        self._store.children(znodes.BROKERS, on_listed, lambda path: self._brokers_changed())

    def _brokers_changed(self) -> None:
        if self.acting or self._brokers_on_standby:
            self._poll_brokers()

    def _poll_proposals(self) -> None:
        number_before = self._connection_number

        def on_listed(result: Result) -> None:
            if number_before == self._connection_number and result.ok:
                for name in result.children:
                    self._read_proposals(name)

        self._store.children(znodes.PROPOSALS, on_listed, lambda path: self._poll_proposals() if self.acting else None)

    def _read_proposals(self, name: str) -> None:
        number_before = self._connection_number

        def on_data(result: Result) -> None:
            if number_before != self._connection_number or not result.ok:
                return
            try:
                broker_epoch, proposals = znodes.decode_proposals(result.data)
                self._listener.on_proposals(int(name), broker_epoch, proposals, self._clock())
            except (ValueError, KeyError, TypeError) as e:
                log.error("malformed proposals: broker=%s error=%s", name, e)

        self._store.get(
            f"{znodes.PROPOSALS}/{name}", on_data, lambda path: self._read_proposals(name) if self.acting else None
        )

    def _poll_offline(self) -> None:
        number_before = self._connection_number

        def on_listed(result: Result) -> None:
            if number_before == self._connection_number and result.ok:
                for name in result.children:
                    self._read_offline(name)

        self._store.children(znodes.OFFLINE, on_listed, lambda path: self._poll_offline() if self.acting else None)

    def _read_offline(self, name: str) -> None:
        number_before = self._connection_number

        def on_data(result: Result) -> None:
            if number_before != self._connection_number or not result.ok:
                return
            try:
                broker_epoch, partitions = znodes.decode_offline(result.data)
                self._listener.on_offline_partitions(int(name), broker_epoch, partitions, self._clock())
            except (ValueError, KeyError, TypeError, zlib.error) as e:
                log.error("malformed offline replicas: broker=%s error=%s", name, e)

        self._store.get(
            f"{znodes.OFFLINE}/{name}", on_data, lambda path: self._read_offline(name) if self.acting else None
        )

    def _poll_requests(self) -> None:
        number_before = self._connection_number

        def on_listed(result: Result) -> None:
            if number_before != self._connection_number or not result.ok:
                return
            present = set(result.children)
            self._seen_requests &= present
            for name in [n for n in result.children if n not in self._seen_requests][:REQUESTS_AT_ONCE]:
                self._seen_requests.add(name)
                self._store.get(f"{znodes.REQUESTS}/{name}", lambda r, name=name: on_data(name, r))  # type: ignore[misc]

        def on_data(name: str, result: Result) -> None:
            if number_before != self._connection_number or not result.ok:
                self._seen_requests.discard(name)
                return
            request = ForwardedRequest.decode(name, result.data)
            if isinstance(request.payload, Unreadable):
                log.error("unreadable request: request=%s reason=%s", name, request.payload.reason)
            self._listener.on_request(request, self._clock())

        self._store.children(znodes.REQUESTS, on_listed, lambda path: self._poll_requests() if self.acting else None)
