"""The controller's database thread: reads desired state from rows, and writes results to rows.

Invariants: the event loop never waits for this thread. Every result is written with the controller epoch. A request is handled only once: its id is stored in a
row. Does not contain: ZooKeeper.
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
    MetadataRecord,
    PartitionsGrown,
    ReplicaReset,
    TopicConfigChanged,
    TopicDeleted,
    TopicReady,
)
from brokerd.cluster.model import (
    GROUP_OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    STARTUP_TOPIC_CONFIGS,
    TRANSACTION_STATE_TOPIC,
)
from brokerd.cluster.requests import ForwardedRequest
from brokerd.wire.errors import ErrorCode
from controlplane.controller import request_persistence
from controlplane.controller.events import (
    DesiredAccess,
    DesiredFailed,
    DesiredRead,
    DesiredReset,
    DesiredTopic,
    LoggedChange,
    Report,
    Subject,
    SubjectKind,
)
from controlplane.db.sqlite import drop_if_replaced
from controlplane.models.change import Outcome
from controlplane.selectors.common import cluster_row
from controlplane.services import Rejected, move_worker, recovery, topic_results
from controlplane.services import access as access_services
from controlplane.services import features as feature_services
from controlplane.services import topics as topic_services
from controlplane.services.common import AlreadyExists, record
from weir_common.phrases import sentence

log = logging.getLogger(__name__)

POLL_SECONDS = 0.25
"""Seconds between polls for rows that the log lacks: one indexed query each for topics, partitions of moves and resets."""

REPORT_REPEAT_SECONDS = 30.0
"""Seconds before the same report about the same subject is written and logged again."""

INTERNAL_TOPICS_CHECK_SECONDS = 1.0
"""Seconds between checks for missing internal topics."""

OFFSETS_PARTITIONS = 50
"""Partitions of __consumer_offsets, Kafka's default. Never changed: it determines each group's coordinator."""

TRANSACTIONS_PARTITIONS = 50
"""Partitions of __transaction_state (Kafka's transaction.state.log.num.partitions). Never changed: it determines the coordinators."""

SHARE_STATE_PARTITIONS = 50
"""Partitions of __share_group_state (Kafka's share.coordinator.state.topic.num.partitions). Never changed: it determines the share coordinators."""

INTERNAL_CONFIGS = {"cleanup.policy": "compact", "segment.bytes": str(16 * 1024 * 1024)}
"""Small segments are compacted sooner, so that a new coordinator has less to read."""

CHANGES_QUEUED_MAX = 1_000
"""Maximum number of audit rows of logged changes that are queued while the database does not respond. The oldest is dropped first."""

RESET_RETRY_SECONDS = 30.0
"""Seconds before a reset that has not appeared in the log is sent to the core again."""

KAFKA_ERRORS = {
    "name": ErrorCode.INVALID_TOPIC_EXCEPTION,
    "partitions": ErrorCode.INVALID_PARTITIONS,
    "replication_factor": ErrorCode.INVALID_REPLICATION_FACTOR,
    "assignment": ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    "configs": ErrorCode.INVALID_CONFIG,
}
"""Kafka's error code of a rejection, by the invalid input (`configs.<name>` is a config). Every other input is a policy violation."""


def _kafka_error(rejected: Rejected) -> ErrorCode:
    if isinstance(rejected, AlreadyExists):
        return ErrorCode.TOPIC_ALREADY_EXISTS
    return KAFKA_ERRORS.get(rejected.field.partition(".")[0], ErrorCode.POLICY_VIOLATION)


@dataclass(frozen=True, slots=True)
class TermStarted:
    controller_epoch: int


@dataclass(frozen=True, slots=True)
class TermEnded:
    pass


@dataclass(frozen=True, slots=True)
class ResetsApplied:
    """(reset, sequence number of its log entry, its topic's name)"""

    seen: tuple[tuple[ReplicaReset, int, str], ...]


@dataclass(frozen=True, slots=True)
class FeaturesApplied:
    """(feature name, level) of new log records."""

    finalised: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class PollNow:
    """Rows may have been applied: poll now instead of at the next interval."""


@dataclass(frozen=True, slots=True)
class Stop:
    pass


Command = (
    TermStarted
    | TermEnded
    | ResetsApplied
    | FeaturesApplied
    | PollNow
    | ForwardedRequest
    | Report
    | LoggedChange
    | Stop
)
Post = Callable[[DesiredRead | DesiredFailed], None]


class DatabaseThread:
    """The runner's `Database`. `image` is the controller's image, set before the loop runs. This thread only reads it, one look-up at a time.

    `brokers_expected`: internal topics are created as soon as three brokers (or all, if there are fewer) are alive.
    """

    def __init__(
        self,
        *,
        brokers_expected: int = 3,
        offsets_partitions: int = OFFSETS_PARTITIONS,
        transactions_partitions: int = TRANSACTIONS_PARTITIONS,
        share_state_partitions: int = SHARE_STATE_PARTITIONS,
    ) -> None:
        self.image: Image | None = None
        self._brokers_expected = brokers_expected
        self._internal_partitions = {
            GROUP_OFFSETS_TOPIC: offsets_partitions,
            TRANSACTION_STATE_TOPIC: transactions_partitions,
            SHARE_STATE_TOPIC: share_state_partitions,
        }
        self._post: Post = lambda event: None
        self._commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="controller-database", daemon=True)
        self._epoch: int | None = None
        self._first = False
        """True if nothing has been posted to the core in this term."""
        self._resets: list[tuple[ReplicaReset, int, str]] = []
        self._resets_sent_at: dict[str, float] = {}
        self._finalised: dict[str, int] = {}
        """Features finalised in the log, not yet written to the database."""
        self._reports: dict[Subject, tuple[str, float]] = {}
        self._changes: deque[LoggedChange] = deque(maxlen=CHANGES_QUEUED_MAX)
        """Changes in the log whose audit rows are not yet written."""
        self._internal_topics_checked = 0.0
        self.problem: str | None = None
        """Error of the last database access; None = it succeeded."""

    # -- the loop's side ---------------------------------------------------------------------------------------------------
    def start(self, post: Post) -> None:
        self._post = post
        self._thread.start()

    def begin_term(self, controller_epoch: int) -> None:
        self._commands.put(TermStarted(controller_epoch))

    def stand_by(self) -> None:
        self._commands.put(TermEnded())

    def write(self, request: ForwardedRequest) -> None:
        self._commands.put(request)

    def on_applied(self, image: Image, records: Sequence[MetadataRecord]) -> None:
        if resets := tuple(r for r in records if isinstance(r, ReplicaReset)):
            names = {t: topic.name for t in {r.topic_id for r in resets} if (topic := image.topics.get(t)) is not None}
            self._commands.put(ResetsApplied(tuple((r, image.seq, names.get(r.topic_id, "")) for r in resets)))
        if finalised := tuple((r.name, r.feature_level) for r in records if isinstance(r, FeatureFinalised)):
            self._commands.put(FeaturesApplied(finalised))
        if any(
            isinstance(
                r,
                AccessChanged | BrokerConfigChanged | TopicReady | TopicDeleted | PartitionsGrown | TopicConfigChanged,
            )
            for r in records
        ):
            self._commands.put(PollNow())

    def report(self, report: Report | LoggedChange) -> None:
        self._commands.put(report)

    def close(self) -> None:
        """Wait at most 0.5 s: the thread is a daemon, and a locked database must not delay the exit."""
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
                self._write_changes()
                if self._epoch is not None and self._commands.empty():
                    self._poll(self._epoch)
                self._on_database_success()
            except DatabaseError as e:
                self._on_database_error(e)
                if isinstance(command, ForwardedRequest):
                    text = "The control plane's database does not respond; try again."
                    self._post(DesiredFailed(command.request_id, ErrorCode.REQUEST_TIMED_OUT, text))

    def _on_database_success(self) -> None:
        if self.problem is not None:
            log.info("database available again")
            self.problem = None

    def _on_database_error(self, error: DatabaseError) -> None:
        if self.problem is None:
            log.warning("database unavailable, elections continue and changes are queued: error=%s", error)
        self.problem = str(error)
        close_old_connections()
        time.sleep(POLL_SECONDS)

    def _handle(self, command: Command) -> None:
        match command:
            case TermStarted():
                self._epoch, self._first = command.controller_epoch, True
                self._resets_sent_at.clear()
                self._finalised = dict(self.image.features) if self.image is not None else {}
            case TermEnded():
                self._epoch = None
            case ResetsApplied():
                self._resets.extend(command.seen)
            case FeaturesApplied():
                self._finalised.update(command.finalised)
            case ForwardedRequest():
                self._request(command)
            case Report():
                self._report(command)
            case LoggedChange():
                self._changes.append(command)
            case PollNow() | Stop():
                pass

    def _poll(self, epoch: int) -> None:
        if drop_if_replaced():
            log.warning("database file was replaced, reading rows again")
        while self._resets:
            reset, seq, topic = self._resets[0]
            if not recovery.mark_reset(UUID(reset.reset_id), seq, epoch) and topic:
                where = (reset.topic_id, topic, reset.partition, reset.broker_id)
                recovery.begun_by_controller(UUID(reset.reset_id), *where, seq, epoch)
            self._resets.pop(0)
        for name, level in list(self._finalised.items()):
            feature_services.remember(name, level, epoch)
            del self._finalised[name]
        self._create_internal_topics()
        # Assignments are read before topics and settings, because one transaction writes a move's order together with its throttle.
        assignments = tuple(request_persistence.desired_assignment(p) for p in move_worker.ordered_parts())
        topics: list[DesiredTopic] = []
        done: dict[UUID, int] = {}
        for row in topic_results.waiting_topics():
            in_log = self._generation(row.id)
            if in_log == row.generation or (in_log and row.deleted_at is not None and self._is_deleted(row.id)):
                done[row.id] = row.generation
            elif in_log < row.generation:
                topics.append(request_persistence.desired_topic(row))
            # Otherwise the row is older than the log. This drift is shown, and the controller does not act on it.
        if done:
            topic_results.mark_applied(done, epoch)
        now = time.monotonic()
        resets = []
        for r in recovery.waiting_resets():
            if now - self._resets_sent_at.get(str(r.reset_id), -RESET_RETRY_SECONDS) >= RESET_RETRY_SECONDS:
                self._resets_sent_at[str(r.reset_id)] = now
                resets.append(DesiredReset(r.topic_id, r.partition, r.broker_id, str(r.reset_id)))
        access = self._access(epoch, everything=self._first)
        if self._first:
            known = cluster_row().cluster_id
            self._first = False
            rows = (tuple(topics), assignments, tuple(resets), access)
            self._post(DesiredRead(*rows, complete=True, cluster_id=known, features=feature_services.stored_levels()))
        elif topics or assignments or resets or access:
            self._post(DesiredRead(tuple(topics), assignments, tuple(resets), access))

    def _access(self, epoch: int, everything: bool = False) -> tuple[DesiredAccess, ...]:
        """Rows that the log lacks. A row older than the log's entry is drift: the core reports it and does not act on it."""
        desired = []
        # At the start of a term all rows are compared with the log: it may be a new log after a loss.
        for row in access_services.all_entries() if everything else access_services.waiting_entries():
            in_log, _ = self.image.access_to(row.kind, row.key) if self.image is not None else (0, None)
            if in_log == row.generation:
                if row.waiting:
                    access_services.mark_applied(row, epoch)
            elif in_log < row.generation:
                desired.append(request_persistence.desired_access(row))
        return tuple(desired)

    def _is_deleted(self, topic_id: UUID) -> bool:
        return self.image is not None and topic_id in self.image.deleted

    def _generation(self, topic_id: UUID) -> int:
        """The generation of this topic in the log, tombstones included; 0 = the topic is not in the log, or not ready."""
        if self.image is None:
            return 0
        topic = self.image.topics.get(topic_id)
        if topic is not None:
            return topic.generation if topic.ready else 0
        return self.image.deleted.get(topic_id, 0)

    # -- requests of brokers -------------------------------------------------------------------------------------------------
    def _request(self, request: ForwardedRequest) -> None:
        assert self.image is not None, "a request is forwarded by the core, which has an image"
        try:
            outcomes = request_persistence.persist(request, self.image)
        except Rejected as e:
            outcomes = [DesiredFailed(request.request_id, _kafka_error(e), e.reason)]
        except IntegrityError as e:
            log.warning("concurrent write: request=%s error=%s", request.request_id, e)
            text = "A concurrent change was written first; try again."
            outcomes = [DesiredFailed(request.request_id, ErrorCode.REQUEST_TIMED_OUT, text)]
        except ValueError as e:  # for example a NUL character in a key, with PostgreSQL
            log.warning("malformed request: request=%s error=%r", request.request_id, e)
            outcomes = [
                DesiredFailed(request.request_id, ErrorCode.INVALID_REQUEST, f"The request cannot be stored: {e!r}.")
            ]
        for event in outcomes:
            self._post(event)

    def _create_internal_topics(self) -> None:
        """Create internal topics at the start, so that the first group does not have to wait for them."""
        now = time.monotonic()
        factor = min(3, self._brokers_expected)
        if self.image is None or now - self._internal_topics_checked < INTERNAL_TOPICS_CHECK_SECONDS:
            return
        self._internal_topics_checked = now
        missing = [name for name in self._internal_partitions if self.image.topic_named(name) is None]
        if not missing or sum(1 for b in list(self.image.brokers.values()) if b.alive) < factor:
            return
        for name in missing:
            if topic_results.has_topic(name):
                continue
            try:
                topic_services.create_topic(
                    name,
                    partitions=self._internal_partitions[name],
                    replication_factor=factor,
                    configs={
                        **INTERNAL_CONFIGS,
                        **STARTUP_TOPIC_CONFIGS[name],
                        "min.insync.replicas": "2" if factor >= 3 else "1",
                    },
                    actor="controller",
                    comment="internal topics are created at the start",
                    checked=True,
                )
            except Rejected as e:
                log.info("internal topic not created: topic=%s reason=%s", name, e.reason)

    def _write_changes(self) -> None:
        while self._changes:
            made = self._changes[0]
            record(
                made.actor,
                made.verb,
                made.object_kind,
                made.object_name[:255],
                before=made.before,
                after=made.after,
                detail=made.detail,
                outcome=Outcome.REJECTED if made.rejected else Outcome.CONFIRMED,
            )
            self._changes.popleft()

    # -- reports -------------------------------------------------------------------------------------------------------------
    def _report(self, report: Report) -> None:
        text, at = self._reports.get(report.subject, ("", -REPORT_REPEAT_SECONDS))
        now = time.monotonic()
        if text == report.text and now - at < REPORT_REPEAT_SECONDS:
            return
        if len(self._reports) > 10_000:
            self._reports.clear()
        self._reports[report.subject] = (report.text, now)
        log.warning("controller report: kind=%s subject=%s reason=%s", report.kind, report.subject, report.text)
        if self._epoch is None:
            return
        match report.subject:
            case Subject(SubjectKind.MOVE, move_id, topic, int(partition)) if move_id.isdigit():
                move_worker.order_rejected(int(move_id), topic, partition, report.text)
            case Subject(SubjectKind.RECOVERY, reset_id):
                recovery.mark_reset_rejected(
                    UUID(reset_id), sentence("The controller rejected the request: {reason}.", reason=report.text)
                )
            case Subject(SubjectKind.TOPIC, topic=name):
                topic_results.mark_rejected(name, report.text, self._epoch)
