"""Cluster membership of the broker: registration, metadata log tailer, requests and proposals to the controller.

The broker registers only after it has read the metadata log after a sync. After a lost session it replaces its own registration, identified by
UUID, and no other. Every request completes once, with a record of the log or None. Does not contain partitions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from brokerd.cluster import znodes
from brokerd.cluster.image import Image
from brokerd.cluster.levels import SUPPORTED_LEVELS
from brokerd.cluster.metadata import MetadataRecord, RequestCompleted
from brokerd.cluster.model import Endpoint, Now, TopicPartition
from brokerd.cluster.requests import AnyPayload, ControlledShutdown, CreateTopics, ForwardedRequest
from brokerd.cluster.store import Code, Create, Delete, Result, SessionState, Store
from brokerd.cluster.tailer import Tailer
from brokerd.cluster.znodes import DamageReport, Registration
from brokerd.membership.ephemeral_node import EphemeralNodePublisher
from brokerd.membership.identity import BrokerIdentity

log = logging.getLogger(__name__)

RETRY_MS = 300
REQUESTS_MAX = 1_000
"""Maximum number of waiting requests to the controller. Further requests complete with None immediately."""


class MembershipListener(Protocol):
    def image_loaded(self, image: Image, now: Now) -> None: ...

    def entry_applied(self, image: Image, records: Sequence[MetadataRecord], now: Now) -> None: ...

    def on_registered(self, broker_epoch: int, now: Now) -> None: ...

    def caught_up(self, now: Now) -> None: ...

    def on_halted(self, reason: str) -> None: ...


@dataclass(slots=True)
class ControllerRequest:
    deadline_mono_ms: int
    done: Callable[[RequestCompleted | None], None]
    payload: AnyPayload
    submitted: bool = False
    """The znode of the request is created in this session, or is known to exist."""


class Membership:
    def __init__(
        self,
        store: Store,
        identity: BrokerIdentity,
        listener: MembershipListener,
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
        self.broker_epoch: int | None = None
        self._first_broker_epoch: int | None = None
        """The first broker epoch of this process. Request ids contain it, because requests survive a session."""
        self._registering = False
        self._retry_at_ms: int | None = None
        self._resubmit_at_ms: int | None = None
        self._loaded = False
        self._closing = False
        self._proposals = znodes.Proposals()
        self._proposals_busy = False
        self._proposals_dirty = False
        self._proposals_mine = False
        """True if the proposals znode belongs to this session. A znode of an earlier session may still exist and is deleted with that session."""
        none: frozenset[TopicPartition] = frozenset()
        self._offline = EphemeralNodePublisher(store, znodes.offline(self.broker_id), znodes.encode_offline, none)
        nothing: tuple[DamageReport, ...] = ()
        self._damage_reports = EphemeralNodePublisher(
            store, znodes.damage_reports(self.broker_id), znodes.encode_damage_reports, nothing
        )
        self._number = 0
        self._waiting: dict[str, ControllerRequest] = {}
        self._requests_before_registration: list[ControllerRequest] = []
        """Requests from before the first registration. Their ids need its broker epoch."""
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
            self.tailer.on_connected()
            return
        self.tailer.on_disconnected()
        self._registering = self._proposals_busy = self._offline.busy = self._damage_reports.busy = False
        if state is SessionState.EXPIRED:
            for waiting in self._waiting.values():
                waiting.submitted = False  # its znode was deleted with the session
            log.warning("ZooKeeper session expired, registering again")
            self._proposals_mine = False
            self._on_deregistered(now)

    def _on_deregistered(self, now: Now) -> None:
        self.broker_epoch = None
        self._publish_again()

    def tick(self, now: Now) -> None:
        self.tailer.tick(now)
        for request_id in [i for i, w in self._waiting.items() if w.deadline_mono_ms <= now.mono_ms]:
            waiting = self._waiting.pop(request_id)
            if self._store.zk_session:
                self._store.delete(znodes.request(request_id), -1, lambda r: None)
            waiting.done(None)
        expired = [w for w in self._requests_before_registration if w.deadline_mono_ms <= now.mono_ms]
        self._requests_before_registration = [
            w for w in self._requests_before_registration if w.deadline_mono_ms > now.mono_ms
        ]
        for waiting in expired:
            waiting.done(None)
        if self._retry_at_ms is not None and now.mono_ms >= self._retry_at_ms:
            self._retry_at_ms = None
            self._register()
        if self._resubmit_at_ms is not None and now.mono_ms >= self._resubmit_at_ms:
            self._resubmit_at_ms = None
            if self.tailer.current:
                self._send_pending_requests()
        if self._proposals_dirty:
            self._send_proposals()
        self._send_reports()

    # -- the tailer's listener -------------------------------------------------------------------------------------------
    def image_loaded(self, image: Image, now: Now) -> None:
        self._apply_own_registration(image)
        if self._loaded:
            self._listener.image_loaded(image, now)
        # At start-up `caught_up` loads the image. A snapshot may be older than the directories, so newer topics would look like strays.

    def entry_applied(self, image: Image, records: Sequence[MetadataRecord], now: Now) -> None:
        self._apply_own_registration(image)
        if self._loaded:
            self._listener.entry_applied(image, records, now)
        for record in records:
            if isinstance(record, RequestCompleted):
                waiting = self._waiting.pop(record.request_id, None)
                if waiting is not None:
                    waiting.done(record)

    def _apply_own_registration(self, image: Image) -> None:
        if self.broker_epoch is not None and image.broker_epoch(self.broker_id) == self.broker_epoch:
            self._identity.loss_is_known(image.seq, image.chain_hash)

    def caught_up(self, image: Image, now: Now) -> None:
        problem = self._identity.problem(image.cluster_id, image.seq)
        mine = image.brokers.get(self.broker_id)
        if problem is None and mine is not None:
            problem = self._identity.compare(mine.life)
        if problem is not None:
            self.tailer.halted = problem
            self._listener.on_halted(problem)
            return
        if not self._loaded:
            # At start-up apply everything up to the head in one step, so that each log is opened once.
            self._loaded = True
            self._listener.image_loaded(image, now)
        self._listener.caught_up(now)
        if mine is not None and mine.broker_epoch == self.broker_epoch and not mine.alive:
            log.warning("the controller has declared this broker dead, registering again")
            self._on_deregistered(now)
        if self.broker_epoch is None:
            self._register()
        self._send_pending_requests()

    def on_halted(self, reason: str) -> None:
        self._listener.on_halted(reason)

    # -- registration ----------------------------------------------------------------------------------------------------
    def _register(self) -> None:
        if self._registering or self._closing or self.broker_epoch is not None or not self._store.zk_session:
            return
        self._registering = True
        self._store.get(znodes.broker(self.broker_id), self._registration_stat)

    def _registration_stat(self, result: Result) -> None:
        path = znodes.broker(self.broker_id)
        me = Registration(
            self.broker_id,
            self._identity.broker_uuid,
            self._clear.host,
            self._clear.port,
            self._rack,
            self._failure_domain,
            self._identity.tail_intact,
            self._identity.cluster_id,
            endpoints=self._endpoints,
            metadata_levels=SUPPORTED_LEVELS,
            life=self._identity.life,
            lives_before=self._identity.lives_before,
            tail_doubt=self._identity.doubt or "",
        )
        if result.code is Code.NO_NODE:
            self._store.create(path, me.encode(), self._registration_created, ephemeral=True)
        elif result.ok and result.stat is not None:
            try:
                holder = Registration.decode(result.data, result.stat.czxid).broker_uuid
            except (ValueError, KeyError):
                holder = "unreadable"
            if holder != self._identity.broker_uuid:
                log.error(
                    "broker id %d is already registered by another broker (%s); correct broker.id or stop that broker",
                    self.broker_id,
                    holder,
                )
                self._retry_registration()
                return
            # Our own registration of an earlier session: replace it in one multi.
            self._store.multi(
                [Delete(path, result.stat.version), Create(path, me.encode(), ephemeral=True)],
                self._registration_created,
            )
        else:
            self._retry_registration()

    def _registration_created(self, result: Result) -> None:
        if not result.ok:
            self._retry_registration()  # after an unknown outcome too: read the registration again
            return
        self._store.get(znodes.broker(self.broker_id), self._registration_read)

    def _registration_read(self, result: Result) -> None:
        if not result.ok or result.stat is None or result.stat.owner != self._store.zk_session:
            self._retry_registration()
            return
        self._registering = False
        self.broker_epoch = result.stat.czxid
        if self._first_broker_epoch is None:
            self._first_broker_epoch = self.broker_epoch
            early, self._requests_before_registration = self._requests_before_registration, []
            for w in early:
                self.request(w.payload, max(1, w.deadline_mono_ms - self._clock().mono_ms), w.done)
        log.info("broker registered: id=%d broker_epoch=%d", self.broker_id, self.broker_epoch)
        self._publish_again()
        self._listener.on_registered(self.broker_epoch, self._clock())
        self._send_proposals()
        self._send_reports()
        self._send_pending_requests()

    def _retry_registration(self) -> None:
        self._registering = False
        self._retry_at_ms = self._clock().mono_ms + RETRY_MS

    # -- requests to the controller -------------------------------------------------------------------------------------------
    def propose(self, proposals: znodes.Proposals) -> None:
        """Replace all proposals of this broker."""
        self._proposals = proposals
        self._proposals_dirty = True
        self._send_proposals()

    def _send_proposals(self) -> None:
        if self._proposals_busy or self.broker_epoch is None or not self._store.zk_session:
            return
        self._proposals_busy, self._proposals_dirty = True, False
        data = znodes.encode_proposals(self.broker_epoch, self._proposals)
        path = znodes.proposals(self.broker_id)

        def on_deleted(result: Result) -> None:
            if result.code in (Code.OK, Code.NO_NODE):
                self._store.create(path, data, on_written, ephemeral=True)
            else:
                on_written(result)

        def on_written(result: Result) -> None:
            self._proposals_busy = False
            self._proposals_mine = result.ok
            if not result.ok:
                self._proposals_dirty = True  # the next tick tries again
            elif self._proposals_dirty:
                self._send_proposals()

        if self._proposals_mine:
            self._store.set(path, data, -1, on_written)
        else:
            self._store.delete(path, -1, on_deleted)

    def publish_offline_replicas(self, offline: frozenset[TopicPartition]) -> None:
        """Publish the offline replicas of this broker. The controller removes them from the ISR and elects other leaders."""
        self._offline.desired = offline
        self._send_reports()

    def publish_damage_reports(self, reports: tuple[DamageReport, ...]) -> None:
        """Publish damage of replicas that are still online, for operators."""
        self._damage_reports.desired = reports
        self._send_reports()

    def _send_reports(self) -> None:
        if self.broker_epoch is not None and self._store.zk_session:
            self._offline.send(self.broker_epoch)
            self._damage_reports.send(self.broker_epoch)

    def _publish_again(self) -> None:
        """Publish all values again, because the znodes of the previous registration do not exist any more."""
        self._offline.forget()
        self._damage_reports.forget()

    def request(
        self,
        payload: AnyPayload,
        timeout_ms: int,
        done: Callable[[RequestCompleted | None], None],
    ) -> None:
        """Send a request to the controller. `done` gets the response from the metadata log. It gets None after `timeout_ms` milliseconds, or immediately if
        too many requests wait. Without a session the request waits for the next session."""
        if len(self._waiting) + len(self._requests_before_registration) >= REQUESTS_MAX:
            done(None)
            return
        deadline_mono_ms = self._clock().mono_ms + timeout_ms
        if self._first_broker_epoch is None:
            self._requests_before_registration.append(ControllerRequest(deadline_mono_ms, done, payload))
            return
        self._number += 1
        request_id = f"{self._first_broker_epoch}-{self._number}"
        if isinstance(payload, CreateTopics) and payload.auto:
            # One znode per topic name, so that many clients cause one request.
            request_id = f"create-topic-{payload.items[0].name}"
            if request_id in self._waiting:
                return
        self._waiting[request_id] = ControllerRequest(deadline_mono_ms, done, payload)
        self._submit(request_id)

    def _submit(self, request_id: str) -> None:
        if self.broker_epoch is None or not self._store.zk_session:
            return
        waiting = self._waiting[request_id]
        waiting.submitted = True
        body = ForwardedRequest(request_id, self.broker_id, self.broker_epoch, waiting.payload)

        def on_created(result: Result) -> None:
            if self._waiting.get(request_id) is not waiting or result.code in (Code.OK, Code.NODE_EXISTS):
                return
            waiting.submitted = False
            if result.code is not Code.CONNECTION_LOSS:
                # Not created: the controller of a new cluster has not created /requests yet, or ZooKeeper is unavailable.
                self._resubmit_at_ms = self._clock().mono_ms + RETRY_MS
            # Unknown outcome: sent again after the log was read, which contains the response if there is one.

        self._store.create(znodes.request(request_id), body.encode(), on_created, ephemeral=True)

    def _send_pending_requests(self) -> None:
        """Send the requests that are not sent in this session. The log was read first, so answered requests are not sent again."""
        for request_id in [i for i, waiting in self._waiting.items() if not waiting.submitted]:
            self._submit(request_id)

    def shutdown(self, timeout_ms: int, done: Callable[[], None]) -> None:
        """Controlled shutdown: request that the controller moves the leaderships to other brokers. `done` is called after the response or the time-out,
        without a session immediately."""
        self._closing = True
        if self.broker_epoch is None or not self._store.zk_session:
            done()
            return
        self.request(ControlledShutdown(), timeout_ms, lambda response: done())

    def close(self) -> None:
        self._store.close()
