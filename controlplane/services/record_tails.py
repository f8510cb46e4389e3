"""Live tails of a topic's records by people: permission, limits, the audit log.

Invariants: a tail shows what a read of the same user would show; permission and masking rules are read again while it runs. Start and end are in the
audit log, the start before its first record is shown. A tail counts against the limits until it is closed. Does not contain: the polls
(`selectors.record_tails`), the WebSocket (`console.record_tails`).
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from dataclasses import asdict, dataclass, field

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied

from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.record_expression import EvaluationError
from controlplane.domain.record_query import RecordQuery
from controlplane.domain.record_tail import TailCounts, TailEnd
from controlplane.models.change import Outcome
from controlplane.selectors.messages import PROBLEM_TEXTS, MessageRow
from controlplane.selectors.record_tails import TailReader
from controlplane.services.common import Rejected, record, record_rejection
from controlplane.services.records import (
    AUTOMATIC,
    Formats,
    User,
    check_permission,
    name_of,
    query_facts,
    read_denial,
    renderers,
)
from weir_common.phrases import Phrase, sentence

RECHECK_SECONDS = 5.0
"""Time between two reads of the user, the permission and the masking rules of a tail."""

RATE_UPDATES = 6


@dataclass(frozen=True, slots=True)
class TailUpdate:
    """`rows`: newest first. `problems`: texts by partition. `records_per_s`: scanned, in the last RATE_UPDATES updates. `evaluation_errors`: why the
    filter expression could not be evaluated, since the start."""

    rows: list[MessageRow]
    counts: TailCounts
    problems: list[str]
    records_per_s: int = 0
    evaluation_errors: list[EvaluationError] = field(default_factory=list)


class TailLimits:
    """The running tails of this process. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: Counter[str] = Counter()

    def take(self, user: str) -> None:
        """Raises Rejected."""
        per_user, most = settings.WEIR.tails_per_user, settings.WEIR.tails_max
        with self._lock:
            if self._running[user] >= per_user:
                raise Rejected(
                    sentence(
                        "You have {per_user} live tails already (WEIR_TAILS_PER_USER). Stop one of them.",
                        per_user=per_user,
                    )
                )
            if self._running.total() >= most:
                raise Rejected(sentence("{max} live tails are running (WEIR_TAILS_MAX). Try again later.", max=most))
            self._running[user] += 1

    def release(self, user: str) -> None:
        with self._lock:
            self._running[user] -= 1
            self._running += Counter()  # removes users without a running tail


limits = TailLimits()


class LiveTail:
    """A running tail. Its methods wait for brokers and the database, and are called by one thread at a time. Raises PermissionDenied and Rejected."""

    def __init__(self, user: User, query: RecordQuery, formats: Formats = AUTOMATIC) -> None:
        user = _as_stored(user)  # the account may change while the connection is open
        self._user, self._query, self._formats = user, query, formats
        check_permission(user, AuditOperation.RECORDS_TAIL, query)
        query.check()
        shown = renderers(user, query.topic, formats)
        self._renderer = shown["renderer"]
        actor = user.get_username()
        try:
            limits.take(actor)
        except Rejected as rejection:
            record_rejection(
                actor, AuditOperation.RECORDS_TAIL, "records", name_of(query), rejection, after=self._audited_query()
            )
            raise
        try:
            self._reader = TailReader(query, shown["plain"])
            record(
                actor,
                AuditOperation.RECORDS_TAIL,
                "records",
                name_of(query),
                after=self._audited_query(),
                outcome=Outcome.CONFIRMED,
            )
        except BaseException:
            limits.release(actor)
            raise
        self._checked_at = self._began = time.monotonic()
        self._samples: deque[tuple[float, int]] = deque([(self._began, 0)], maxlen=RATE_UPDATES)
        """(monotonic seconds, scanned records) of the last updates"""

    @property
    def topic(self) -> str:
        return self._query.topic

    def update(self, *, paused: bool) -> TailUpdate:
        """The records since the last update. Raises PermissionDenied when the user may no longer read them."""
        self._check_again()
        tail = self._reader.tail
        if paused:
            tail.pause()
        else:
            tail.resume()
        self._reader.poll()
        rows = self._reader.take(self._renderer)
        problems: list[str] = [
            sentence("Partition {partition}: {problem}", partition=p, problem=Phrase(PROBLEM_TEXTS[problem]))
            for p, problem in sorted(tail.problems.items())
        ]
        return TailUpdate(rows, tail.counts, problems, self._records_per_s(), tail.evaluation_errors.rows())

    def drop(self, count: int) -> None:
        """Count records of the last update that the page does not show."""
        self._reader.tail.drop(count)

    def close(self, end: TailEnd) -> None:
        """Close the tail. Must be called only once."""
        actor = self._user.get_username()
        limits.release(actor)
        self._reader.close()
        counts = self._reader.tail.counts
        seconds = round(time.monotonic() - self._began)
        after = {"end": end.value, "seconds": seconds, **asdict(counts)}
        detail = f"{counts.shown} records shown in {seconds} s."
        name = name_of(self._query)
        record(
            actor,
            AuditOperation.RECORDS_TAIL_END,
            "records",
            name,
            after=after,
            outcome=Outcome.CONFIRMED,
            detail=detail,
        )

    def _audited_query(self) -> dict[str, object]:
        """A tail starts now and has no limit of records."""
        return {k: v for k, v in query_facts(self._query).items() if k not in START_FIELDS}

    def _records_per_s(self) -> int:
        now, scanned = time.monotonic(), self._reader.tail.counts.scanned
        self._samples.append((now, scanned))
        began, before = self._samples[0]
        return round((scanned - before) / (now - began)) if now > began else 0

    def _check_again(self) -> None:
        now = time.monotonic()
        if now - self._checked_at < RECHECK_SECONDS:
            return
        self._checked_at = now
        user = _as_stored(self._user)
        if reason := read_denial(user, self._query.topic):
            raise PermissionDenied(reason)
        shown = renderers(user, self._query.topic, self._formats)
        self._renderer = shown["renderer"]
        self._reader.mask(shown["plain"])


def _as_stored(user: User) -> User:
    """Return the user of the tail with the current permissions. Raises PermissionDenied."""
    found = get_user_model().objects.filter(username=user.get_username(), is_active=True).first()
    if found is None:
        raise PermissionDenied("The account is not active.")
    return found


START_FIELDS = ("start", "offset", "timestamp_ms", "minutes", "limit", "until_ms", "all_partitions")
