"""One controller candidate as a process: a loop thread that hosts store, election, tailer, core and appender.

Laws: nothing in the loop blocks; the database has a thread of its own and comes back as events; effects run in the order in which the
core gave them; after a term's end nothing of it is written. Called by `manage.py controller`. Must not come in: decisions.
"""

from __future__ import annotations

import json
import logging
import os
import selectors
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from uuid import UUID, uuid4

from brokerd.cluster import znodes
from brokerd.cluster.appender import Appender
from brokerd.cluster.metadata import (
    Image,
    PartitionsGrown,
    Record,
    ReplicaReset,
    TopicConfigChanged,
    TopicDeleted,
    TopicReady,
)
from brokerd.cluster.model import GROUP_OFFSETS_TOPIC, Now
from brokerd.cluster.store import Result, SessionState, Store
from brokerd.cluster.tailer import Tailer
from brokerd.cluster.znodes import ForwardedRequest, IsrProposal, Registration
from controlplane.controller.core import Core
from controlplane.controller.database import Applied, Begin, Bootstrap, Database, End, Posted
from controlplane.controller.ensemble import Election, Inputs, Term
from controlplane.controller.events import (
    Appended,
    AppendMetadata,
    BrokersSeen,
    Deposed,
    Elected,
    Event,
    IsrProposed,
    Report,
    Requested,
    StepDown,
    Tick,
    WriteDesired,
)

log = logging.getLogger(__name__)

TICK_SECONDS = 0.1
"""Seconds between turns of an idle loop."""

CORE_TICK_MS = 500
"""Milliseconds between ticks of the core: its timers are seconds long."""

BOOTSTRAP_EVERY_MS = 2_000

OFFSETS_PARTITIONS = 50
"""Partitions of __consumer_offsets, Kafka's default. Fixed for ever: groups are found by it."""

OFFSETS_CONFIGS = {"cleanup.policy": "compact", "segment.bytes": str(16 * 1024 * 1024)}


def clock() -> Now:
    return Now(time.monotonic_ns() // 1_000_000, time.time_ns() // 1_000_000)


class Runner:
    """`brokers_expected` is how many brokers the house has: internal topics wait for three of them (or all, if fewer)."""

    def __init__(
        self,
        store: Store,
        controller_id: int,
        *,
        brokers_expected: int = 3,
        offsets_partitions: int = OFFSETS_PARTITIONS,
        database: Callable[[Callable[[int, Posted], None]], Database] = Database,
        status_path: Path | None = None,
        clock: Callable[[], Now] = clock,
    ) -> None:
        self._store, self._clock = store, clock
        self.controller_id = controller_id
        self._brokers_expected, self._offsets_partitions = brokers_expected, offsets_partitions
        self._status_path = status_path
        self._posted: deque[tuple[int, Posted]] = deque()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.tailer = Tailer(store, self, clock)
        self.core = Core(self.tailer.image, uuid4().hex)
        self.election = Election(store, controller_id, uuid4().hex, won=self._won, lost=self._lost)
        self.inputs = Inputs(
            store,
            brokers=self._brokers_seen,
            proposed=self._proposed,
            requested=self._requested,
        )
        self.database = database(self._post)
        self._appender: Appender | None = None
        self._term: Term | None = None
        self._ticked_ms = self._bootstrapped_ms = 0
        self._stopping = False
        self.turns = 0
        store.on_session = self._session

    # -- the loop ------------------------------------------------------------------------------------------------------
    def run(self) -> None:
        """Until `stop` is called. Gives the seat up before it returns."""
        self.database.start()
        with selectors.DefaultSelector() as selector:
            selector.register(self._store.fileno(), selectors.EVENT_READ)
            selector.register(self._wake, selectors.EVENT_READ)
            while not self._stopping:
                selector.select(TICK_SECONDS)
                self.turn()
        self._end_term("this controller stops")
        self.database.stop(2.0)
        self._store.close()

    def stop(self) -> None:
        """From any thread or a signal handler."""
        self._stopping = True
        os.eventfd_write(self._wake, 1)

    def turn(self) -> None:
        """One turn: what ZooKeeper said, what the database said, what time says."""
        self.turns += 1
        try:
            os.eventfd_read(self._wake)
        except BlockingIOError:
            pass
        self._store.pump()
        while self._posted:
            epoch, event = self._posted.popleft()
            if self._term is not None and epoch == self._term.epoch:
                self._hear(event)
        now = self._clock()
        self.tailer.tick(now)
        self.election.tick(now)
        self.inputs.tick(now)
        if self._term is not None and now.mono_ms - self._ticked_ms >= CORE_TICK_MS:
            self._ticked_ms = now.mono_ms
            self._hear(Tick())
            self._bootstrap(now)

    def _post(self, epoch: int, event: Posted) -> None:
        self._posted.append((epoch, event))
        os.eventfd_write(self._wake, 1)

    # -- the session ---------------------------------------------------------------------------------------------------
    def _session(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            self.tailer.connected()
            self.election.connected()
            if self._term is not None and self._appender is not None:
                self._appender.reconnected()
                self.inputs.start()
            return
        self.tailer.disconnected()
        if state is SessionState.EXPIRED:
            self.election.expired()
        else:
            self.election.disconnected()

    # -- terms ---------------------------------------------------------------------------------------------------------
    def _won(self, term: Term) -> None:
        log.info("controller %s holds epoch %s; reading the log to its head", self.controller_id, term.epoch)
        self._read_to_head(term)

    def _read_to_head(self, term: Term) -> None:
        """The head as it is after the claim: no deposed controller can move it any more."""

        def read(result: Result) -> None:
            if self.election.term is not term:
                return
            if result.ok:
                self._begin_when(term, int(result.data))
            elif result.code.value == "no node":
                self._begin_when(term, 0)
            else:
                self.election.abandon()

        self._store.get(znodes.HEAD, read)

    def _begin_when(self, term: Term, head: int) -> None:
        self._awaiting = (term, head)
        self.tailer.look()
        self._begin_if_read()

    _awaiting: tuple[Term, int] | None = None

    def _begin_if_read(self) -> None:
        if self._awaiting is None:
            return
        term, head = self._awaiting
        if self.election.term is not term:
            self._awaiting = None
        elif self.tailer.image.seq >= head:
            self._awaiting = None
            self._begin_term(term)

    def _begin_term(self, term: Term) -> None:
        log.info("controller %s acts from entry %s on", self.controller_id, self.tailer.image.seq)
        self._term = term
        self._appender = Appender(
            self._store, self.tailer.image, term.epoch, term.epoch_version, applied=self._applied, deposed=self._deposed
        )
        self.database.tell(Begin(term.epoch, _generations(self.tailer.image)))
        self._hear(Elected(term.epoch))
        self.inputs.start()
        self._write_status()

    def _end_term(self, reason: str) -> None:
        self._awaiting = None
        if self._term is None:
            return
        log.warning("controller %s no longer acts: %s", self.controller_id, reason)
        self._term = None
        self.inputs.stop()
        if self._appender is not None:
            self._appender.stop()
            self._appender = None
        self.core.handle(Deposed(reason), self._clock())
        self.database.tell(End())
        self._write_status()

    def _lost(self, reason: str) -> None:
        self._end_term(reason)

    def _deposed(self, reason: str) -> None:
        self._end_term(reason)
        self.election.abandon()

    # -- the tailer's listener -----------------------------------------------------------------------------------------
    def image_loaded(self, image: Image, now: Now) -> None:
        self._begin_if_read()

    def entry_applied(self, image: Image, records: Sequence[Record], now: Now) -> None:
        if self._term is not None:
            self._tell_applied(records)
        self._begin_if_read()

    def caught_up(self, image: Image, now: Now) -> None:
        self._begin_if_read()

    def halted(self, reason: str) -> None:
        """This candidate cannot read the log: it must not lead, and stays up to say why."""
        self._end_term(reason)
        self.election.abandon()
        self.election.disconnected()
        self._write_status()

    # -- what brokers say ----------------------------------------------------------------------------------------------
    def _brokers_seen(self, registrations: dict[int, Registration]) -> None:
        self._hear(BrokersSeen(registrations))

    def _proposed(self, broker_id: int, incarnation: int, proposals: tuple[IsrProposal, ...]) -> None:
        self._hear(IsrProposed(broker_id, incarnation, proposals))

    def _requested(self, request: ForwardedRequest) -> None:
        self._hear(Requested(request))

    # -- the core and its effects --------------------------------------------------------------------------------------
    def _hear(self, event: Event) -> None:
        if self._term is None:
            return
        for effect in self.core.handle(event, self._clock()):
            match effect:
                case AppendMetadata():
                    assert self._appender is not None
                    self._appender.submit(effect.records, [znodes.request(r) for r in effect.answered])
                case WriteDesired():
                    self.database.tell(effect.request)
                case Report():
                    self.database.tell(effect)
                case StepDown():
                    self._deposed(effect.reason)
            if self._term is None:
                return

    def _applied(self, records: tuple[Record, ...]) -> None:
        self._tell_applied(records)
        # The core plans anew only when everything of its last look is in the image.
        if self._appender is not None and self._appender.idle:
            self._hear(Appended(records))

    def _tell_applied(self, records: Sequence[Record]) -> None:
        image = self.tailer.image
        topics: dict[UUID, int] = {}
        resets: list[tuple[str, int]] = []
        for record in records:
            match record:
                case TopicReady() if record.topic_id in image.topics:
                    topics[record.topic_id] = image.topics[record.topic_id].generation
                case TopicDeleted() | PartitionsGrown() | TopicConfigChanged():
                    topics[record.topic_id] = record.generation
                case ReplicaReset():
                    resets.append((record.reset_id, image.seq))
        if topics or resets:
            self.database.tell(Applied(topics, tuple(resets)))

    # -- internal topics -----------------------------------------------------------------------------------------------
    def _bootstrap(self, now: Now) -> None:
        if now.mono_ms - self._bootstrapped_ms < BOOTSTRAP_EVERY_MS:
            return
        self._bootstrapped_ms = now.mono_ms
        image = self.tailer.image
        factor = min(3, self._brokers_expected)
        if image.topic_named(GROUP_OFFSETS_TOPIC) is not None or len(image.live_brokers()) < factor:
            return
        configs = {**OFFSETS_CONFIGS, "min.insync.replicas": "2" if factor >= 3 else "1"}
        self.database.tell(Bootstrap(((GROUP_OFFSETS_TOPIC, self._offsets_partitions, factor, configs),)))

    # -- for people ----------------------------------------------------------------------------------------------------
    def describe(self) -> dict[str, object]:
        return {
            "controller_id": self.controller_id,
            "acting": self._term is not None,
            "epoch": self._term.epoch if self._term is not None else None,
            "holder": self.election.holder,
            "seq": self.tailer.image.seq,
            "halted": self.tailer.halted,
            "database_problem": self.database.problem,
            "pid": os.getpid(),
        }

    def _write_status(self) -> None:
        if self._status_path is None:
            return
        self._status_path.parent.mkdir(parents=True, exist_ok=True)
        new = self._status_path.with_suffix(".new")
        new.write_text(json.dumps(self.describe()))
        new.replace(self._status_path)


def _generations(image: Image) -> Mapping[UUID, int]:
    return {**image.deleted, **{t.topic_id: t.generation for t in image.topics.values() if t.ready}}


class Watchdog:
    """Ends the process when its loop has not turned for `limit_s`: kazoo's thread keeps the session alive even then, so a hung
    controller would hold the seat for ever. It counts its own wake-ups, so that a stopped and continued process is not punished."""

    WAKE_SECONDS = 0.5

    def __init__(self, runner: Runner, limit_s: float) -> None:
        self._runner, self._wakes_max = runner, max(2, int(limit_s / self.WAKE_SECONDS))
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def _watch(self) -> None:
        seen, wakes = -1, 0
        while not self._runner._stopping:
            time.sleep(self.WAKE_SECONDS)
            if self._runner.turns != seen:
                seen, wakes = self._runner.turns, 0
                continue
            wakes += 1
            if wakes >= self._wakes_max:
                log.critical("the loop has not turned for %.1f s; this process ends", wakes * self.WAKE_SECONDS)
                os._exit(70)
