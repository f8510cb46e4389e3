"""Dead letters: look, and send again one by one or all that match a filter. Permissions, the audit row, and each dead letter at most one time.

A sending of one partition is a row (state sending), one Kafka transaction with the records and a marker, and the row's last state. After a crash in the
middle the next sending of the partition asks for the marker of the open row first (`clients.transactional_producer`).
Invariants: a dead letter is written to a target at most one time, also by two operators at the same time and after crashes. All dead letters of a
batch are written, or none. Sending needs the right to see the raw records. Does not contain: causes and filters (`domain.dead_letters`).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, transaction
from django.utils import timezone

from controlplane.clients import record_range, transactional_producer
from controlplane.clients.connection import NoAnswer
from controlplane.clients.transactional_producer import TransactionEnd, TransactionMarker
from controlplane.domain.dead_letters import DeadLetterFilters, ResendTarget, has_group, place_text, resent
from controlplane.domain.produce import REQUEST_BYTES_MAX, NewRecord, check_record
from controlplane.domain.record_query import RecordQuery, StartPosition
from controlplane.models import DeadLetterBatch, Partition, SentDeadLetter
from controlplane.models.change import Outcome
from controlplane.models.dead_letter import ResendState
from controlplane.selectors import dead_letters as selectors
from controlplane.selectors import messages
from controlplane.selectors.dead_letters import DeadLetterList, DeadLetterTopic
from controlplane.services import masking, records
from controlplane.services.common import Rejected, finish_changes, needs_reason, record
from controlplane.services.produce import MASKED_SOURCE, check_target, permitted

User = AbstractBaseUser | AnonymousUser
VERB = "dead_letters.send"
GROUP = "weir-dead-letters"
"""The group whose committed offsets are the markers. An offset reset of this group would remove one."""
PLACES_MAX = 500
"""Dead letters of one request: as many as a page can have."""
OFFSETS_SPAN_MAX = 100_000
"""Offsets between the first and the last chosen dead letter of a partition: they are read in one pass."""
BUSY_SECONDS = 90
"""A batch that is open for this time is not sent any more: its client has given up."""
MARKER_DAYS_MAX = 6
"""Days for which a marker is known: brokers delete the offsets of an empty group after seven (offsets.retention.minutes)."""
PLACES_AUDITED_MAX = 50
"""Places that the audit row names."""
REQUEST_SECONDS = 60.0
"""After this time a request begins no further partition: each can wait 40 s for brokers that do not answer."""
TIME_OVER = "The time limit of a request is reached. Send the rest again: what was sent is not sent twice."
BUSY = "Dead letters of partition {partition} are being sent at this moment. Try again in a minute."
OPEN = "It is unknown whether the dead letters of partition {partition} were sent: {problem} Send them again: each is written at most one time."


@dataclass(frozen=True, slots=True)
class ResendResult:
    """Numbers of dead letters. `already`: sent to this target before. `missing`: not in the log any more. `unknown`: the outcome is found out by the
    next sending. `refused`: nothing was written; `problems` has each reason one time. `resume`: continues a sending by filter, "" at its end."""

    target: str
    sent: int = 0
    already: int = 0
    missing: int = 0
    refused: int = 0
    unknown: int = 0
    problems: list[str] = field(default_factory=list)
    resume: str = ""


@dataclass(frozen=True, slots=True)
class Letter:
    partition: int
    offset: int
    record: NewRecord


def query_of(of: DeadLetterTopic, filters: DeadLetterFilters, **asked: Any) -> RecordQuery:
    """A query for dead letters, newest first unless `asked` has a start."""
    return RecordQuery(of.dead_topic, filters=filters, all_partitions=True, **asked)


def dead_letters(user: User, topic: str, query: RecordQuery, resume: str = "") -> DeadLetterList | None:
    """One page. None: the topic has no dead letter topic. Raises PermissionDenied and Rejected."""
    of = selectors.dead_letter_topic(topic)
    if of is None:
        return None
    read = records.read_records(user, replace(query, topic=of.dead_topic), resume)
    return DeadLetterList(
        topic=topic,
        dead_topic=of.dead_topic,
        rows=selectors.with_causes(of, read.rows),
        problems=read.problems,
        scanned=read.scanned,
        complete=read.complete,
        note=read.note,
        resume=read.resume,
    )


def one(user: User, topic: str, partition: int, offset: int) -> NewRecord | None:
    """A dead letter as it is stored, for an edit. None: the topic has no dead letter topic. Raises PermissionDenied and Rejected."""
    of = selectors.dead_letter_topic(topic)
    if of is None:
        return None
    _check_reader(user, of)
    found = _read(of, {partition: {offset}})
    if not found:
        raise Rejected(_missing(of, partition, offset), "offset")
    return found[0].record


def send(
    user: User,
    topic: str,
    places: Sequence[tuple[int, int]],
    *,
    target: ResendTarget,
    edited: NewRecord | None = None,
    comment: str = "",
) -> ResendResult | None:
    """Send these dead letters, given as (partition, offset), again. `edited`: what is written instead of the only one; its partition None is that of
    its key. None: the topic has no dead letter topic. Raises PermissionDenied and Rejected."""
    of = selectors.dead_letter_topic(topic)
    asked = {"places": [f"{p}@{o}" for p, o in places[:PLACES_AUDITED_MAX]], "target": target.value}
    with permitted(user, VERB, topic, asked, comment):
        if of is None:
            return None
        to = _check(user, of, target, comment)
        chosen = set(places)
        if not 1 <= len(chosen) <= PLACES_MAX:
            raise Rejected(
                f"{len(chosen)} dead letters is out of range; send 1 to {PLACES_MAX} in a request.", "places"
            )
        if edited is not None and len(chosen) != 1:
            raise Rejected("An edited record replaces exactly one dead letter.", "places")
        by_partition: dict[int, set[int]] = {}
        for partition, offset in chosen:
            by_partition.setdefault(partition, set()).add(offset)
        found = _read(of, by_partition)
        if edited is not None:
            check_record(edited, check_target(to, edited.partition))
            found = [replace(letter, record=edited) for letter in found]
        _check_groups(found, target)
    result = _send_audited(
        user, of, to, target, found, asked | {"edited": edited is not None}, comment, edited is not None
    )
    return replace(result, missing=len(chosen) - len(found))


def send_matching(
    user: User, topic: str, query: RecordQuery, *, target: ResendTarget, resume: str = "", comment: str = ""
) -> ResendResult | None:
    """Send the next dead letters that match, oldest first, at most `query.limit`. `resume` of the result continues. None: the topic has no dead letter
    topic. Raises PermissionDenied and Rejected."""
    of = selectors.dead_letter_topic(topic)
    asked = {**records.asked_of(query), "target": target.value}
    with permitted(user, VERB, topic, asked, comment):
        if of is None:
            return None
        to = _check(user, of, target, comment)
        if query.start is StartPosition.LATEST:
            query = replace(query, start=StartPosition.EARLIEST)
        read = messages.read_raw(replace(query, topic=of.dead_topic), resume)
        if read.summary.problems:
            p = read.summary.problems[0]
            raise Rejected(f"Partition {of.dead_topic}-{p.partition} could not be read: {p.problem}. Nothing was sent.")
        found = [
            Letter(p, r.offset, NewRecord(r.key, r.value, tuple(r.headers), None, r.timestamp)) for p, r in read.records
        ]
        _check_groups(found, target)
    result = _send_audited(user, of, to, target, found, asked | {"records": len(found)}, comment)
    return replace(result, resume=read.summary.resume)


# -- checks ------------------------------------------------------------------------------------------------------------
def _check(user: User, of: DeadLetterTopic, target: ResendTarget, comment: str) -> str:
    """The target topic."""
    needs_reason(comment)
    _check_reader(user, of)
    to = of.topic if target is ResendTarget.TOPIC else of.retry_topic
    if to is None:
        raise Rejected(f"{of.topic} has no retry topic; weir.retry.enable=true creates it.", "target")
    check_target(to, None)
    return to


def _check_reader(user: User, of: DeadLetterTopic) -> None:
    if reason := records.denied(user, of.dead_topic):
        raise PermissionDenied(reason)
    if masking.rules_for(user, of.dead_topic):
        raise PermissionDenied(MASKED_SOURCE)


def _check_groups(letters: Sequence[Letter], target: ResendTarget) -> None:
    if target is ResendTarget.RETRY and (without := [x for x in letters if not has_group(x.record)]):
        place = f"{without[0].partition}@{without[0].offset}"
        raise Rejected(
            f"{len(without)} dead letters have no header x-retry-group, for example {place}: no group would process them. "
            "Send them to the topic.",
            "target",
        )


def _missing(of: DeadLetterTopic, partition: int, offset: int) -> str:
    return f"{of.dead_topic}-{partition} has no record at offset {offset}. Retention may have removed it."


def _read(of: DeadLetterTopic, chosen: Mapping[int, set[int]]) -> list[Letter]:
    """The chosen dead letters that are in the log. Raises Rejected."""
    known = set(Partition.objects.filter(topic__name=of.dead_topic).values_list("index", flat=True))
    found: list[Letter] = []
    for partition, offsets in sorted(chosen.items()):
        if partition not in known:
            raise Rejected(f"Partition {of.dead_topic}-{partition} does not exist.", "partition")
        first, last = min(offsets), max(offsets)
        if last - first >= OFFSETS_SPAN_MAX:
            raise Rejected(
                f"The dead letters of partition {partition} are too far apart. Send them in parts.", "places"
            )
        try:
            read = record_range.read_range(of.dead_topic, partition, first, last, REQUEST_BYTES_MAX)
        except NoAnswer as error:
            raise Rejected(f"{of.dead_topic}-{partition} could not be read: {error}. Nothing was sent.") from None
        if not read.complete:
            raise Rejected(f"The dead letters of partition {partition} are too large for one request. Send fewer.")
        found += [Letter(partition, offset, r) for offset, r in read.records if offset in offsets]
        _forget_below(of, partition, read.start_offset)
    return found


# -- sending -----------------------------------------------------------------------------------------------------------
def _send_audited(
    user: User,
    of: DeadLetterTopic,
    to: str,
    target: ResendTarget,
    letters: Sequence[Letter],
    asked: Mapping[str, Any],
    comment: str,
    edited: bool = False,
) -> ResendResult:
    """Between the audit row and its outcome."""
    object_id = f"dead-letters-{uuid.uuid4().hex}"
    actor = user.get_username()
    record(actor, VERB, "records", of.dead_topic, comment=comment, after=dict(asked), object_id=object_id)
    total = ResendResult(to)
    partitions = Partition.objects.filter(topic__name=to).count()
    until = time.monotonic() + REQUEST_SECONDS
    for partition in sorted({x.partition for x in letters}):
        own = [x for x in letters if x.partition == partition]
        if time.monotonic() > until:
            total = _sum(total, ResendResult(to, refused=len(own), problems=[TIME_OVER]))
            continue
        copies = [
            (
                x.offset,
                resent(x.record, target, place_text(of.dead_topic, partition, x.offset), _to(x, edited, partitions)),
            )
            for x in own
        ]
        total = _sum(total, _send_partition(actor, of, to, partition, copies))
    done = Outcome.CONFIRMED if total.sent or not total.refused else Outcome.REFUSED
    said = f"{total.sent} sent, {total.already} sent before, {total.refused} refused, {total.unknown} unknown."
    finish_changes(object_id, None, Outcome.UNKNOWN if total.unknown else done, " ".join([said, *total.problems]))
    return total


def _to(letter: Letter, edited: bool, partitions: int) -> int | None:
    """The partition with the same number, as for the retries. An edited record says its own."""
    if edited:
        return letter.record.partition
    return letter.partition if letter.partition < partitions else None


def _sum(a: ResendResult, b: ResendResult) -> ResendResult:
    return ResendResult(
        a.target,
        a.sent + b.sent,
        a.already + b.already,
        a.missing + b.missing,
        a.refused + b.refused,
        a.unknown + b.unknown,
        list(dict.fromkeys([*a.problems, *b.problems])),
    )


def _send_partition(
    actor: str, of: DeadLetterTopic, to: str, partition: int, copies: Sequence[tuple[int, NewRecord]]
) -> ResendResult:
    busy = BUSY.format(partition=partition)
    opened = DeadLetterBatch.objects.filter(
        topic_id=of.topic_id, partition=partition, state=ResendState.SENDING
    ).first()
    if opened is not None:
        if timezone.now() - opened.created_at < timedelta(seconds=BUSY_SECONDS):
            return ResendResult(to, refused=len(copies), problems=[busy])
        if problem := _resolve(opened):
            return ResendResult(to, refused=len(copies), problems=[OPEN.format(partition=partition, problem=problem)])
    offsets = [offset for offset, _ in copies]
    before = set(
        SentDeadLetter.objects.filter(
            topic_id=of.topic_id, partition=partition, target=to, offset__in=offsets
        ).values_list("offset", flat=True)
    )
    rest = [(offset, copy) for offset, copy in copies if offset not in before]
    if not rest:
        return ResendResult(to, already=len(before))
    try:
        with transaction.atomic():
            batch = DeadLetterBatch.objects.create(
                topic=of.dead_topic, topic_id=of.topic_id, partition=partition, target=to, actor=actor
            )
            SentDeadLetter.objects.bulk_create(
                SentDeadLetter(batch=batch, topic_id=of.topic_id, partition=partition, offset=offset, target=to)
                for offset, _ in rest
            )
    except IntegrityError:  # another operator was first
        return ResendResult(to, already=len(before), refused=len(rest), problems=[busy])
    made = transactional_producer.send_once(_transactional_id(batch), to, [copy for _, copy in rest], _marker(batch))
    return replace(_ended(batch, made.end, made.problem, len(rest)), already=len(before), target=to)


def _ended(batch: DeadLetterBatch, end: TransactionEnd, problem: str, count: int) -> ResendResult:
    if end is TransactionEnd.UNKNOWN:
        if unknown := _resolve(batch):
            said = OPEN.format(partition=batch.partition, problem=unknown)
            return ResendResult(batch.target, unknown=count, problems=[said])
        batch.refresh_from_db()
        sent = batch.state == ResendState.SENT
    else:
        sent = end is TransactionEnd.COMMITTED
        _finish(batch, sent=sent)
    return (
        ResendResult(batch.target, sent=count)
        if sent
        else ResendResult(batch.target, refused=count, problems=[problem])
    )


def _resolve(batch: DeadLetterBatch) -> str:
    """Find out how the transaction of an open batch ended. Returns why that is unknown now, "" if it is known."""
    if timezone.now() - batch.created_at > timedelta(days=MARKER_DAYS_MAX):
        batch.state, batch.finished_at = ResendState.UNKNOWN, timezone.now()
        batch.save(update_fields=["state", "finished_at"])
        return ""
    try:
        sent = transactional_producer.find_marker(_transactional_id(batch), _marker(batch))
    except NoAnswer as error:
        return f"{error}."
    _finish(batch, sent=sent)
    return ""


def _finish(batch: DeadLetterBatch, *, sent: bool) -> None:
    with transaction.atomic():
        changed = DeadLetterBatch.objects.filter(pk=batch.pk, state=ResendState.SENDING).update(
            state=ResendState.SENT if sent else ResendState.NOT_SENT, finished_at=timezone.now()
        )
        if changed and not sent:
            batch.letters.all().delete()


def _transactional_id(batch: DeadLetterBatch) -> str:
    """One per partition, so that a batch fences the client of the batch before."""
    return f"weir-dead-letters-{batch.topic_id}-{batch.partition}"


def _marker(batch: DeadLetterBatch) -> TransactionMarker:
    """The offset is that after the last dead letter of the batch."""
    last = max(batch.letters.values_list("offset", flat=True), default=-1)
    return TransactionMarker(GROUP, batch.topic, batch.partition, last + 1, f"{batch.topic_id}:{batch.pk}")


def _forget_below(of: DeadLetterTopic, partition: int, start_offset: int) -> None:
    """Delete the rows of dead letters that retention has deleted, and of their batches."""
    closed = DeadLetterBatch.objects.filter(topic_id=of.topic_id, partition=partition).exclude(
        state=ResendState.SENDING
    )
    SentDeadLetter.objects.filter(batch__in=closed, offset__lt=start_offset).delete()
    closed.filter(letters__isnull=True).delete()
