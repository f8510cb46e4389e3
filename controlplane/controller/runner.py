"""A controller process: one event loop that hosts store, election, tailer, core, appender and liveness probes.

Invariants: the loop never waits for the database (an eventfd signals its results). After Deposed nothing is written.
Does not contain: SQL, decisions.
"""

from __future__ import annotations

import logging
import os
import select
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol
from uuid import uuid4

from brokerd.cluster.appender import RECORDS_PER_ENTRY, Appender
from brokerd.cluster.clocks import read_clocks
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import MetadataRecord
from brokerd.cluster.model import Now, TopicPartition
from brokerd.cluster.requests import ForwardedRequest
from brokerd.cluster.snapshots import LOG_BYTES_PER_SNAPSHOT, SnapshotWriter
from brokerd.cluster.store import SessionState, Store
from brokerd.cluster.tailer import Tailer
from brokerd.cluster.znodes import Proposals, Registration
from brokerd.cluster.znodes import request as request_path
from controlplane.controller.core import Core
from controlplane.controller.ensemble import Ensemble
from controlplane.controller.events import (
    AppendMetadata,
    BrokersSeen,
    ControllerTick,
    Deposed,
    DesiredFailed,
    DesiredRead,
    Effect,
    Elected,
    Event,
    IsrProposed,
    LogEntryAppended,
    LoggedChange,
    ReplicasOffline,
    Report,
    Requested,
    StepDown,
    WriteDesired,
)
from controlplane.controller.liveness_probes import Probes

log = logging.getLogger(__name__)

TICK_MS = 100
UNKNOWN_WRITE_RETRY_MS = 2_000
"""Interval of checks for a write of unknown outcome while the connection is up."""


class Database(Protocol):
    """The database thread. `post` delivers its results to the loop. Every call returns immediately."""

    def start(self, post: Callable[[DesiredRead | DesiredFailed], None]) -> None: ...

    def begin_term(self, controller_epoch: int) -> None: ...

    def stand_by(self) -> None: ...

    def write(self, request: ForwardedRequest) -> None: ...

    def on_applied(self, image: Image, records: Sequence[MetadataRecord]) -> None: ...

    def report(self, report: Report | LoggedChange) -> None: ...

    def close(self) -> None: ...


class LivenessProbes(Protocol):
    """See `liveness_probes.Probes`."""

    @property
    def dead(self) -> frozenset[tuple[int, int]]: ...

    @property
    def while_standing_by(self) -> bool:
        """True if a standby controller probes, too."""
        ...

    def fileno(self) -> int: ...

    def watch(self, registrations: Mapping[int, Registration]) -> None: ...

    def begin_term(self, now: Now) -> None: ...

    def stand_by(self, now: Now) -> None: ...

    def run_iteration(self, now: Now) -> bool: ...

    def close(self) -> None: ...


class Controller:
    def __init__(
        self,
        store: Store,
        name: str,
        database: Database,
        *,
        clock: Callable[[], Now] = read_clocks,
        draw: Callable[[], str] = lambda: uuid4().hex,
        snapshot_log_bytes: int = LOG_BYTES_PER_SNAPSHOT,
        records_per_entry: int = RECORDS_PER_ENTRY,
        probes: LivenessProbes | None = None,
    ) -> None:
        """`draw` returns a unique string: the cluster id, and the token of each write."""
        self._draw, self._snapshot_log_bytes, self._records_per_entry = draw, snapshot_log_bytes, records_per_entry
        self._store, self._name, self._database, self._clock = store, name, database, clock
        self._probes: LivenessProbes = Probes() if probes is None else probes
        self._registrations: dict[int, Registration] | None = None
        """Registrations of brokers that were read in this term. A standby reads them for the probes only: a broker may have registered since."""
        self.tailer = Tailer(store, self, clock)
        self.core = Core(self.tailer.image, draw())
        self.ensemble = Ensemble(store, name, self, clock, brokers_on_standby=self._probes.while_standing_by)
        self.appender: Appender | None = None
        self._snapshots: SnapshotWriter | None = None
        self._posted: deque[DesiredRead | DesiredFailed] = deque()
        self._eventfd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        # Close it with the object: tests create thousands of controllers in one process, and select() accepts only descriptors below 1,024.
        weakref.finalize(self, os.close, self._eventfd)
        self._stopping = False
        self._pending_term: tuple[int, int] | None = None
        self._retried_ms = 0
        store.on_session = self._session
        database.start(self._post)

    # -- the loop --------------------------------------------------------------------------------------------------------
    def run(self) -> None:
        poll = select.poll()
        poll.register(self._store.fileno(), select.POLLIN)
        poll.register(self._eventfd, select.POLLIN)
        poll.register(self._probes.fileno(), select.POLLIN)
        while not self._stopping:
            poll.poll(TICK_MS)
            self.run_iteration()
        self._database.close()
        self._probes.close()
        self._store.close()

    def stop(self) -> None:
        self._stopping = True

    def run_iteration(self) -> None:
        self._store.pump()
        try:
            os.eventfd_read(self._eventfd)
        except BlockingIOError:
            pass
        now = self._clock()
        while self._posted:
            self._handle(self._posted.popleft())
        self.tailer.tick(now)
        self.ensemble.tick(now)
        if self._probes.run_iteration(now):
            self._handle_brokers()
        if self.appender is not None and now.mono_ms - self._retried_ms >= UNKNOWN_WRITE_RETRY_MS:
            self._retried_ms = now.mono_ms
            self.appender.tick()
        self._handle(ControllerTick())

    def _post(self, event: DesiredRead | DesiredFailed) -> None:
        self._posted.append(event)
        os.eventfd_write(self._eventfd, 1)

    def _session(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            self.tailer.on_connected()
            self.ensemble.on_connected()
            if self.appender is not None:
                self.appender.on_reconnected()
            return
        self.tailer.on_disconnected()
        self.ensemble.on_disconnected()
        if state is SessionState.EXPIRED:
            self._depose("ZooKeeper session expired")

    # -- the ensemble's and the tailer's listener ----------------------------------------------------------------------------
    def on_elected(self, controller_epoch: int, epoch_version: int, now: Now) -> None:
        self._pending_term = (controller_epoch, epoch_version)
        self._probes.begin_term(now)
        # The term starts after the log has been read to its end, with a sync after the election.
        self.tailer.on_disconnected()
        self.tailer.on_connected()

    def caught_up(self, image: Image, now: Now) -> None:
        self.ensemble.can_lead = True
        if self._pending_term is None or not self.ensemble.acting:
            return
        (epoch, version), self._pending_term = self._pending_term, None
        self.appender = Appender(
            self._store,
            image,
            epoch,
            version,
            applied=self._on_applied,
            deposed=self._depose,
            new_token=self._draw,
            records_per_entry=self._records_per_entry,
        )
        self._snapshots = SnapshotWriter(self._store, image, version, self._snapshot_log_bytes)
        self._database.begin_term(epoch)
        self._registrations = None
        self._handle(Elected(epoch))
        self.ensemble.term_started()

    def image_loaded(self, image: Image, now: Now) -> None:
        pass

    def entry_applied(self, image: Image, records: Sequence[MetadataRecord], now: Now) -> None:
        if self.appender is not None and image.controller_epoch != self.core.controller_epoch:
            self._depose("the log has an entry of another controller")

    def on_halted(self, reason: str) -> None:
        """This controller cannot read the log (for example because it was not upgraded): it resigns in favour of another candidate."""
        self._depose(reason)
        self.ensemble.resign()

    def on_registrations(self, registrations: dict[int, Registration], now: Now) -> None:
        self._probes.watch(registrations)
        if self.appender is not None:
            self._registrations = registrations
            self._handle_brokers()

    def _handle_brokers(self) -> None:
        if self._registrations is not None:
            self._handle(BrokersSeen(self._registrations, self._probes.dead))

    def on_proposals(self, broker_id: int, broker_epoch: int, proposals: Proposals, now: Now) -> None:
        self._handle(
            IsrProposed(
                broker_id,
                broker_epoch,
                proposals.isrs,
                proposals.bootstrap_offsets,
                proposals.starts,
                proposals.resets,
                proposals.log_ends,
            )
        )

    def on_offline_partitions(
        self, broker_id: int, broker_epoch: int, partitions: frozenset[TopicPartition], now: Now
    ) -> None:
        self._handle(ReplicasOffline(broker_id, broker_epoch, partitions))

    def on_request(self, request: ForwardedRequest, now: Now) -> None:
        self._handle(Requested(request))

    # -- the core --------------------------------------------------------------------------------------------------------
    def _handle(self, event: Event) -> None:
        self._run_effects(self.core.handle(event, self._clock()))

    def _run_effects(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case AppendMetadata():
                    assert self.appender is not None
                    self.appender.submit(effect.records, [request_path(r) for r in effect.completed])
                case WriteDesired():
                    self._database.write(effect.request)
                case Report() | LoggedChange():
                    self._database.report(effect)
                case StepDown():
                    self._depose(effect.reason)

    def _on_applied(self, records: tuple[MetadataRecord, ...]) -> None:
        self._database.on_applied(self.tailer.image, records)
        if self._snapshots is not None and self.appender is not None:
            self._snapshots.on_appended(self.appender.appended_bytes)
        if self.appender is not None and self.appender.idle:
            self._handle(LogEntryAppended(records))

    def _depose(self, reason: str) -> None:
        if self.appender is None and not self.ensemble.acting:
            return
        log.warning("controller deposed: name=%s reason=%s", self._name, reason)
        if self.appender is not None:
            self.appender.stop()
        self.appender = self._snapshots = None
        self._pending_term = None
        self._registrations = None
        self._probes.stand_by(self._clock())
        self._handle(Deposed(reason))
        self.ensemble.on_deposed()
        self._database.stand_by()
