"""The controller's database work, in a thread of its own: wishes out of rows, answers into rows.

Laws: the loop never waits for this thread, whatever the database does; everything written back carries the controller epoch; a request
is handled once (its id has a row). Called by `runner` through its `Database` port; answers through `post`. Must not come in: ZooKeeper.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import DatabaseError, IntegrityError, close_old_connections, connection

from brokerd.cluster.image import Image
from brokerd.cluster.metadata import (
    AccessChanged,
    BrokerConfigChanged,
    FeatureFinalised,
    PartitionsGrown,
    Record,
    ReplicaReset,
    TopicConfigChanged,
    TopicDeleted,
    TopicReady,
)
from brokerd.cluster.model import GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from brokerd.cluster.znodes import ForwardedRequest
from controlplane.controller import forwarded
from controlplane.controller.events import (
    ChangeMade,
    DesiredAccess,
    DesiredFailed,
    DesiredRead,
    DesiredReset,
    DesiredTopic,
    Report,
)
from controlplane.dbcare import drop_if_replaced
from controlplane.models import Cluster, Topic
from controlplane.models.change import Outcome
from controlplane.services import Refused, advancing, recovery
from controlplane.services import access as access_services
from controlplane.services import features as feature_services
from controlplane.services import topics as topic_services
from controlplane.services.common import record

log = logging.getLogger(__name__)

POLL_SECONDS = 0.25
"""Seconds between looks at rows with wishes: one indexed query each for topics, parts and resets."""

REPORT_AGAIN_SECONDS = 30.0
"""Seconds before the same report about the same subject is written and logged again."""

BOOTSTRAP_SECONDS = 1.0
"""Seconds between looks whether internal topics are missing."""

OFFSETS_PARTITIONS = 50
"""Partitions of __consumer_offsets, Kafka's default. Fixed for ever: groups are found by it."""

TRANSACTIONS_PARTITIONS = 50
"""Partitions of __transaction_state (Kafka's transaction.state.log.num.partitions). Fixed for ever: transactional ids are found by it."""

INTERNAL_CONFIGS = {"cleanup.policy": "compact", "segment.bytes": str(16 * 1024 * 1024)}
"""Small segments: what is compacted need not be read when a coordinator moves."""

REQUEST_TIMED_OUT, INVALID_REQUEST = 7, 42

CHANGES_OWED_MAX = 1_000
"""Rows about changes already in the log that wait for a database that does not answer; the oldest is given up first."""

RESET_AGAIN_SECONDS = 30.0
"""Seconds before a reset that nobody saw in the log is handed to the core again."""

KAFKA_ERRORS = {"name": 17, "partitions": 37, "replication_factor": 38, "assignment": 39}
"""Kafka's code for a refusal, by the field at fault; configs are 40, everything else a policy violation (44)."""


@dataclass(frozen=True, slots=True)
class Begin:
    controller_epoch: int


@dataclass(frozen=True, slots=True)
class End:
    pass


@dataclass(frozen=True, slots=True)
class Resets:
    """(reset, sequence number of the log entry that holds it, its topic's name)"""

    seen: tuple[tuple[ReplicaReset, int, str], ...]


@dataclass(frozen=True, slots=True)
class Features:
    """Level by name, as the log has just said."""

    finalised: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Look:
    """Rows may have been applied: look at once rather than at the next poll."""


@dataclass(frozen=True, slots=True)
class Stop:
    pass


Command = Begin | End | Resets | Features | Look | ForwardedRequest | Report | ChangeMade | Stop
Post = Callable[[DesiredRead | DesiredFailed], None]


class DatabaseThread:
    """The runner's `Database`. `image` is the controller's own, set before the loop runs; here it is only read, one look-up at a time.

    `brokers_expected`: internal topics are made as soon as three brokers (or all, if there are fewer) are alive.
    """

    def __init__(
        self,
        *,
        brokers_expected: int = 3,
        offsets_partitions: int = OFFSETS_PARTITIONS,
        transactions_partitions: int = TRANSACTIONS_PARTITIONS,
    ) -> None:
        self.image: Image | None = None
        self._brokers_expected = brokers_expected
        self._internal_partitions = {
            GROUP_OFFSETS_TOPIC: offsets_partitions,
            TRANSACTION_STATE_TOPIC: transactions_partitions,
        }
        self._post: Post = lambda event: None
        self._commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="controller-database", daemon=True)
        self._epoch: int | None = None
        self._first = False
        """Nothing was posted yet in this term."""
        self._resets: list[tuple[ReplicaReset, int, str]] = []
        self._resets_handed: dict[str, float] = {}
        self._features: dict[str, int] = {}
        """Finalised in the log, and not remembered yet."""
        self._reports: dict[str, tuple[str, float]] = {}
        self._made: deque[ChangeMade] = deque(maxlen=CHANGES_OWED_MAX)
        """Changes in the log whose rows are not written yet."""
        self._bootstrapped = 0.0
        self.problem: str | None = None
        """Why the database could not be used at the last try; None = it could."""

    # -- the loop's side ---------------------------------------------------------------------------------------------------
    def start(self, post: Post) -> None:
        self._post = post
        self._thread.start()

    def acting(self, controller_epoch: int) -> None:
        self._commands.put(Begin(controller_epoch))

    def standing_by(self) -> None:
        self._commands.put(End())

    def write(self, request: ForwardedRequest) -> None:
        self._commands.put(request)

    def applied(self, image: Image, records: Sequence[Record]) -> None:
        if resets := tuple(r for r in records if isinstance(r, ReplicaReset)):
            names = {t: topic.name for t in {r.topic_id for r in resets} if (topic := image.topics.get(t)) is not None}
            self._commands.put(Resets(tuple((r, image.seq, names.get(r.topic_id, "")) for r in resets)))
        if finalised := tuple((r.name, r.feature_level) for r in records if isinstance(r, FeatureFinalised)):
            self._commands.put(Features(finalised))
        if any(
            isinstance(
                r,
                AccessChanged | BrokerConfigChanged | TopicReady | TopicDeleted | PartitionsGrown | TopicConfigChanged,
            )
            for r in records
        ):
            self._commands.put(Look())

    def report(self, report: Report | ChangeMade) -> None:
        self._commands.put(report)

    def close(self) -> None:
        """Waits a moment at most: the thread is a daemon, and a locked database must not hold up an exit."""
        self._commands.put(Stop())
        self._thread.join(0.5)

    # -- this thread -------------------------------------------------------------------------------------------------------
    def _run(self) -> None:
        while True:
            try:
                command: Command | None = self._commands.get(timeout=POLL_SECONDS)
            except queue.Empty:
                command = None
            if isinstance(command, Stop):
                connection.close()
                return
            try:
                if command is not None:
                    self._handle(command)
                self._write_down()
                if self._epoch is not None and self._commands.empty():
                    self._poll(self._epoch)
                self._well()
            except DatabaseError as e:
                self._ill(e)
                if isinstance(command, ForwardedRequest):
                    text = "The control plane's database does not answer; try again."
                    self._post(DesiredFailed(command.request_id, REQUEST_TIMED_OUT, text))

    def _well(self) -> None:
        if self.problem is not None:
            log.info("the database answers again")
            self.problem = None

    def _ill(self, error: DatabaseError) -> None:
        if self.problem is None:
            log.warning("the database does not answer; elections go on, changes wait: %s", error)
        self.problem = str(error)
        close_old_connections()
        time.sleep(POLL_SECONDS)

    def _handle(self, command: Command) -> None:
        match command:
            case Begin():
                self._epoch, self._first = command.controller_epoch, True
                self._resets_handed.clear()
                self._features = dict(self.image.features) if self.image is not None else {}
            case End():
                self._epoch = None
            case Resets():
                self._resets.extend(command.seen)
            case Features():
                self._features.update(command.finalised)
            case ForwardedRequest():
                self._request(command)
            case Report():
                self._report(command)
            case ChangeMade():
                self._made.append(command)
            case Look() | Stop():
                pass

    def _poll(self, epoch: int) -> None:
        if drop_if_replaced():
            log.warning("the database file was replaced; its rows are read anew")
        while self._resets:
            reset, seq, topic = self._resets[0]
            if not recovery.mark_reset(UUID(reset.reset_id), seq, epoch) and topic:
                where = (reset.topic_id, topic, reset.partition, reset.broker_id)
                recovery.begun_by_controller(UUID(reset.reset_id), *where, seq, epoch)
            self._resets.pop(0)
        for name, level in list(self._features.items()):
            feature_services.remember(name, level, epoch)
            del self._features[name]
        self._bootstrap()
        # Before topics and settings: whoever orders a copy has put its throttle with it, in one transaction.
        assignments = tuple(forwarded.placed(p) for p in advancing.ordered_parts())
        topics: list[DesiredTopic] = []
        done: dict[UUID, int] = {}
        for row in topic_services.waiting_topics():
            in_log = self._generation(row.id)
            if in_log == row.generation or (in_log and row.deleted_at is not None and self._deleted(row.id)):
                done[row.id] = row.generation
            elif in_log < row.generation:
                topics.append(forwarded.desired(row))
            # else drift: the row is older than the log. It is shown, and nothing is done about it.
        if done:
            topic_services.mark_applied(done, epoch)
        now = time.monotonic()
        resets = []
        for r in recovery.waiting_resets():
            if now - self._resets_handed.get(str(r.reset_id), -RESET_AGAIN_SECONDS) >= RESET_AGAIN_SECONDS:
                self._resets_handed[str(r.reset_id)] = now
                resets.append(DesiredReset(r.topic_id, r.partition, r.broker_id, str(r.reset_id)))
        access = self._access(epoch, everything=self._first)
        if self._first:
            known = Cluster.objects.filter(pk=1).values_list("cluster_id", flat=True).first() or ""
            self._first = False
            rows = (tuple(topics), assignments, tuple(resets), access)
            self._post(DesiredRead(*rows, complete=True, cluster_id=known, features=feature_services.remembered()))
        elif topics or assignments or resets or access:
            self._post(DesiredRead(tuple(topics), assignments, tuple(resets), access))

    def _access(self, epoch: int, everything: bool = False) -> tuple[DesiredAccess, ...]:
        """Rows that the log lacks. One that is older than the log's is drift: shown by the core, and nothing is done about it."""
        wanted = []
        # At the beginning of an office all rows are held against the log: it may be a new one, after a loss.
        for row in access_services.everything() if everything else access_services.waiting():
            in_log, _ = self.image.access_to(row.kind, row.key) if self.image is not None else (0, None)
            if in_log == row.generation:
                if row.waiting:
                    access_services.mark_applied(row, epoch)
            elif in_log < row.generation:
                wanted.append(forwarded.entry_of(row))
        return tuple(wanted)

    def _deleted(self, topic_id: UUID) -> bool:
        return self.image is not None and topic_id in self.image.deleted

    def _generation(self, topic_id: UUID) -> int:
        """The generation of this topic in the log, tombstones included; 0 = the log does not have it, or not whole."""
        if self.image is None:
            return 0
        topic = self.image.topics.get(topic_id)
        if topic is not None:
            return topic.generation if topic.ready else 0
        return self.image.deleted.get(topic_id, 0)

    # -- requests of brokers -------------------------------------------------------------------------------------------------
    def _request(self, request: ForwardedRequest) -> None:
        assert self.image is not None, "requests come through the log, which has an image"
        try:
            told = forwarded.written(request, self.image)
        except Refused as e:
            code = 40 if e.field.startswith("configs") else KAFKA_ERRORS.get(e.field, 44)
            if e.field == "name" and "exists already" in e.reason:
                code = 36
            told = [DesiredFailed(request.request_id, code, e.reason)]
        except IntegrityError as e:
            log.warning("request %s met another writer: %s", request.request_id, e)
            text = "Another change came in between; try again."
            told = [DesiredFailed(request.request_id, REQUEST_TIMED_OUT, text)]
        except (KeyError, TypeError, ValueError) as e:
            log.warning("request %s cannot be read: %r", request.request_id, e)
            told = [DesiredFailed(request.request_id, INVALID_REQUEST, f"The request cannot be read: {e!r}.")]
        for event in told:
            self._post(event)

    def _bootstrap(self) -> None:
        """Internal topics are there from the start: groups must not wait for the first of them to be made."""
        now = time.monotonic()
        factor = min(3, self._brokers_expected)
        if self.image is None or now - self._bootstrapped < BOOTSTRAP_SECONDS:
            return
        self._bootstrapped = now
        missing = [name for name in self._internal_partitions if self.image.topic_named(name) is None]
        if not missing or sum(1 for b in list(self.image.brokers.values()) if b.alive) < factor:
            return
        for name in missing:
            if Topic.objects.filter(name=name, deleted_at__isnull=True).exists():
                continue
            try:
                topic_services.create_topic(
                    name, partitions=self._internal_partitions[name], replication_factor=factor,
                    configs={**INTERNAL_CONFIGS, "min.insync.replicas": "2" if factor >= 3 else "1"}, who="controller",
                    why="internal topics are there from the start", checked=True,
                )  # fmt: skip
            except Refused as e:
                log.info("%s was not created: %s", name, e.reason)

    def _write_down(self) -> None:
        while self._made:
            made = self._made[0]
            record(
                made.who, made.verb, made.object_kind, made.object_name[:255],
                before=made.before, after=made.after, detail=made.detail,
                outcome=Outcome.REFUSED if made.refused else Outcome.CONFIRMED,
            )  # fmt: skip
            self._made.popleft()

    # -- reports -------------------------------------------------------------------------------------------------------------
    def _report(self, report: Report) -> None:
        text, at = self._reports.get(report.subject, ("", -REPORT_AGAIN_SECONDS))
        now = time.monotonic()
        if text == report.text and now - at < REPORT_AGAIN_SECONDS:
            return
        if len(self._reports) > 10_000:
            self._reports.clear()
        self._reports[report.subject] = (report.text, now)
        log.warning("%s: %s: %s", report.kind, report.subject, report.text)
        if self._epoch is None:
            return
        kind, _, rest = report.subject.partition(" ")
        number, _, place = rest.partition(" ")
        if kind == "move" and number.isdigit():  # a client's order has no row
            topic, _, partition = place.rpartition("-")
            advancing.order_refused(int(number), topic, int(partition), report.text)
        elif kind == "recovery" and rest:
            recovery.mark_reset_refused(UUID(rest), f"The controller refused: {report.text}.")
        elif kind != "broker":
            row = Topic.objects.filter(name=report.subject, deleted_at__isnull=True).first()
            if row is not None:
                topic_services.mark_refused(row.id, row.generation, report.text, self._epoch)
