"""Sends the dead letters of one partition, each at most once to a target.

A batch is sent in three steps: the service writes its row (state sending), runs one Kafka transaction with the records and a marker, and writes the final
state of the row. After a crash, the next sending of the partition first reads the marker of the open row (`clients.transactional_producer`). Invariants: a
dead letter is written to a target at most once, also by two operators at the same time and after crashes. All dead letters of a batch are written, or none.
Does not contain: permissions, audit rows, and which dead letters are sent (`services.dead_letters`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from django.db import IntegrityError, transaction
from django.utils import timezone

from controlplane.clients import transactional_producer
from controlplane.clients.connection import NoResponse
from controlplane.clients.transactional_producer import TransactionEnd, TransactionMarker
from controlplane.models import DeadLetterBatch, SentDeadLetter
from controlplane.models.dead_letter import ResendState
from controlplane.selectors.dead_letters import DeadLetterTopic
from controlplane.services.failed_records import DeadLetter

GROUP = "weir-dead-letters"
"""The group whose committed offsets are the markers. An offset reset of this group would remove one."""
BUSY_SECONDS = 90
"""After this time an open batch is no longer sent, because its client has timed out."""
MARKER_DAYS_MAX = 6
"""Maximum age in days of a marker that can be read: brokers delete the offsets of an empty group after seven days (offsets.retention.minutes)."""
BUSY = "Dead letters of partition {partition} are being sent at this moment. Try again in a minute."
OPEN = "It is unknown whether the dead letters of partition {partition} were sent: {problem} Send them again: each is written at most one time."


@dataclass(frozen=True, slots=True)
class ResendResult:
    """Numbers of dead letters. `target`: the topic, or the topics. `already`: the same dead letters, or others of the same record, were sent to the target
    before. `missing`: not in the log any more. `unknown`: the outcome is determined by the next sending. `refused`: nothing was written; `problems` has each
    reason once. `resume`: continues a sending by filter, "" at its end."""

    target: str
    sent: int = 0
    already: int = 0
    missing: int = 0
    refused: int = 0
    unknown: int = 0
    problems: list[str] = field(default_factory=list)
    resume: str = ""


def send_partition(
    actor: str, letter_topic: DeadLetterTopic, to: str, partition: int, copies: Sequence[DeadLetter]
) -> ResendResult:
    """Send the copies that were not sent to topic `to` yet, as one batch. Nothing is sent while another batch of the partition is open."""
    busy = BUSY.format(partition=partition)
    opened = DeadLetterBatch.objects.filter(
        topic_id=letter_topic.topic_id, partition=partition, state=ResendState.SENDING
    ).first()
    if opened is not None:
        if timezone.now() - opened.created_at < timedelta(seconds=BUSY_SECONDS):
            return ResendResult(to, refused=len(copies), problems=[busy])
        if problem := _resolve(opened):
            return ResendResult(to, refused=len(copies), problems=[OPEN.format(partition=partition, problem=problem)])
    unsent = _not_sent(letter_topic, to, partition, copies)
    already = len(copies) - len(unsent)
    if not unsent:
        return ResendResult(to, already=already)
    try:
        with transaction.atomic():
            batch = DeadLetterBatch.objects.create(
                topic=letter_topic.dead_topic,
                topic_id=letter_topic.topic_id,
                partition=partition,
                target=to,
                actor=actor,
            )
            SentDeadLetter.objects.bulk_create(
                SentDeadLetter(
                    batch=batch,
                    topic_id=letter_topic.topic_id,
                    partition=partition,
                    offset=x.offset,
                    target=to,
                    source=x.source,
                )
                for x in unsent
            )
    except IntegrityError:  # another operator has already sent it
        return ResendResult(to, already=already, refused=len(unsent), problems=[busy])
    sent = transactional_producer.send_once(_transactional_id(batch), to, [x.record for x in unsent], _marker(batch))
    return replace(_batch_result(batch, sent.end, sent.problem, len(unsent)), already=already, target=to)


def _not_sent(letter_topic: DeadLetterTopic, to: str, partition: int, copies: Sequence[DeadLetter]) -> list[DeadLetter]:
    """Return the dead letters that were not sent to this target yet, one for each failed record."""
    sent = SentDeadLetter.objects.filter(topic_id=letter_topic.topic_id, target=to)
    offsets = sent.filter(partition=partition, offset__in=[x.offset for x in copies])
    before = set(offsets.values_list("offset", flat=True))
    named = {x.source for x in copies if x.source}
    sources = set(sent.filter(source__in=named).values_list("source", flat=True))
    rest: list[DeadLetter] = []
    for x in copies:
        if x.offset not in before and x.source not in sources:
            rest.append(x)
            if x.source:
                sources.add(x.source)
    return rest


def _batch_result(batch: DeadLetterBatch, end: TransactionEnd, problem: str, count: int) -> ResendResult:
    if end is TransactionEnd.UNKNOWN:
        if unknown := _resolve(batch):
            text = OPEN.format(partition=batch.partition, problem=unknown)
            return ResendResult(batch.target, unknown=count, problems=[text])
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
    except NoResponse as error:
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
    """Transactional id of the partition. Batches of a partition share it, so that each batch fences the client of the previous batch."""
    return f"weir-dead-letters-{batch.topic_id}-{batch.partition}"


def _marker(batch: DeadLetterBatch) -> TransactionMarker:
    """Marker of the batch. Its offset is one above the offset of the last dead letter in the batch."""
    last = max(batch.letters.values_list("offset", flat=True), default=-1)
    return TransactionMarker(GROUP, batch.topic, batch.partition, last + 1, f"{batch.topic_id}:{batch.pk}")


def forget_below(letter_topic: DeadLetterTopic, partition: int, start_offset: int) -> None:
    """Delete the rows of dead letters that retention has deleted, and of their batches."""
    batches = DeadLetterBatch.objects.filter(topic_id=letter_topic.topic_id, partition=partition)
    closed = batches.exclude(state=ResendState.SENDING)
    SentDeadLetter.objects.filter(batch__in=closed, offset__lt=start_offset).delete()
    closed.filter(letters__isnull=True).delete()
