"""Dead letters: list them, and send them again, one by one or all that match a filter. Checks permissions and writes the audit row.

Invariants: sending needs the right to see the raw records. Each dead letter is sent at most once (`services.dead_letter_batches`). A failed record that
several dead letters of share groups name is sent once. Does not contain: the transactions of a partition (`services.dead_letter_batches`), causes and filters
(`domain.dead_letters`), the records of share groups (`services.failed_records`).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.core.exceptions import PermissionDenied

from controlplane.clients import record_range
from controlplane.clients.connection import NoResponse
from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.dead_letters import (
    ResendTarget,
    build_resent_record,
    place_text,
    with_headers,
)
from controlplane.domain.produce import REQUEST_BYTES_MAX, NewRecord, check_record
from controlplane.domain.record_query import RecordQuery, StartPosition
from controlplane.models import ObservedPartition
from controlplane.models.change import Outcome
from controlplane.selectors import dead_letters as selectors
from controlplane.selectors import messages
from controlplane.selectors.dead_letters import DeadLetterList, DeadLetterTopic
from controlplane.selectors.messages import MessageRow
from controlplane.services import failed_records, masking, records
from controlplane.services.common import Rejected, finish_changes, needs_reason, record
from controlplane.services.dead_letter_batches import ResendResult, forget_below, send_partition
from controlplane.services.failed_records import DeadLetter, RestoredLetters
from controlplane.services.produce import MASKED_SOURCE, check_target, permission_check
from weir_common.phrases import joined, sentence

User = AbstractBaseUser | AnonymousUser
VERB = AuditOperation.DEAD_LETTERS_SEND
PLACES_MAX = 500
"""Maximum number of dead letters of one request: as many as a page can have."""
OFFSETS_SPAN_MAX = 100_000
"""Maximum number of offsets between the first and the last chosen dead letter of a partition: they are read in one pass."""
PLACES_AUDITED_MAX = 50
"""Maximum number of places that the audit row names."""
REQUEST_SECONDS = 60.0
"""Time after which a request begins no further partition: each can wait 40 s for brokers that do not respond."""
TARGETS_NAMED_MAX = 5
"""Maximum number of topics that a result names."""
TIME_OVER = "The time limit of a request is reached. Send the rest again: what was sent is not sent twice."


def dead_letters(user: User, topic: str, query: RecordQuery, resume: str = "") -> DeadLetterList | None:
    """One page. None: the topic has no dead letter topic. Raises PermissionDenied and Rejected."""
    of = selectors.dead_letter_topic(topic)
    if of is None:
        return None
    read = records.read_records(user, replace(query, topic=of.dead_topic), resume)
    return DeadLetterList(
        topic=topic,
        dead_topic=of.dead_topic,
        kind=of.kind.value,
        rows=selectors.with_causes(of, sorted(read.rows, key=_newest_first)),
        problems=read.problems,
        scanned=read.scanned,
        complete=read.complete,
        note=read.note,
        resume=read.resume,
    )


def _newest_first(record: MessageRow) -> tuple[int, int, int]:
    """Order of a page: its partitions are read one after the other."""
    return -(record.timestamp_ms or 0), record.partition, -record.offset


def record_to_resend(user: User, topic: str, partition: int, offset: int) -> DeadLetter | None:
    """The record that would be sent for a dead letter, for an edit. None: the topic has no dead letter topic. Raises PermissionDenied and Rejected."""
    of = selectors.dead_letter_topic(topic)
    if of is None:
        return None
    _check_reader(user, of)
    found = _read_letters(of, {partition: {offset}})
    if not found:
        raise Rejected(failed_records.missing_letter(of.dead_topic, partition, offset), "offset")
    if not of.of_share_groups:
        return replace(found[0], to_partition=partition)
    restored = failed_records.restore(user, found, edited=True)
    if not restored.letters:
        raise Rejected(restored.problems[0], "offset")
    return restored.letters[0]


def send(
    user: User,
    topic: str,
    places: Sequence[tuple[int, int]],
    *,
    target: ResendTarget,
    edited: NewRecord | None = None,
    comment: str = "",
) -> ResendResult | None:
    """Send these dead letters, given as (partition, offset), again. `edited`: the record that is written instead, for a single dead letter; its partition
    None is that of its key. None: the topic has no dead letter topic. Raises PermissionDenied and Rejected."""
    letter_topic = selectors.dead_letter_topic(topic)
    requested = {"places": [f"{p}@{o}" for p, o in places[:PLACES_AUDITED_MAX]], "target": target.value}
    with permission_check(user, VERB, topic, requested, comment):
        if letter_topic is None:
            return None
        to = _check(user, letter_topic, target, comment)
        chosen = set(places)
        if not 1 <= len(chosen) <= PLACES_MAX:
            raise Rejected(
                sentence("{count} dead letters is out of range; send 1 to {max}.", count=len(chosen), max=PLACES_MAX),
                "places",
            )
        if edited is not None and len(chosen) != 1:
            raise Rejected("An edited record replaces exactly one dead letter.", "places")
        by_partition: dict[int, set[int]] = {}
        for partition, offset in chosen:
            by_partition.setdefault(partition, set()).add(offset)
        found = _read_letters(letter_topic, by_partition)
        restored = _prepare(user, letter_topic, to, target, found, edited)
        failed_records.check_groups(restored.letters, target)
    result = _send_audited(user, letter_topic, target, restored, requested | {"edited": edited is not None}, comment)
    return replace(result, missing=len(chosen) - len(found))


def send_matching(
    user: User, topic: str, query: RecordQuery, *, target: ResendTarget, resume: str = "", comment: str = ""
) -> ResendResult | None:
    """Send the next dead letters that match, oldest first, at most `query.limit`. `resume` of the result continues. None: the topic has no dead letter
    topic. Raises PermissionDenied and Rejected."""
    letter_topic = selectors.dead_letter_topic(topic)
    requested = {**records.query_facts(query), "target": target.value}
    with permission_check(user, VERB, topic, requested, comment):
        if letter_topic is None:
            return None
        to = _check(user, letter_topic, target, comment)
        if query.start is StartPosition.LATEST:
            query = replace(query, start=StartPosition.EARLIEST)
        read = messages.read_raw(replace(query, topic=letter_topic.dead_topic), resume)
        if read.summary.problems:
            problem = read.summary.problems[0]
            raise Rejected(
                sentence(
                    "{topic}-{partition} could not be read: {detail}. Nothing was sent.",
                    topic=letter_topic.dead_topic,
                    partition=problem.partition,
                    detail=problem.problem,
                )
            )
        found = [
            DeadLetter(p, r.offset, NewRecord(r.key, r.value, tuple(r.headers), None, r.timestamp), to, None)
            for p, r in read.records
        ]
        restored = _prepare(user, letter_topic, to, target, found)
        failed_records.check_groups(restored.letters, target)
    result = _send_audited(user, letter_topic, target, restored, requested | {"records": len(found)}, comment)
    return replace(result, resume=read.summary.resume)


# -- checks ------------------------------------------------------------------------------------------------------------
def _check(user: User, letter_topic: DeadLetterTopic, target: ResendTarget, comment: str) -> str:
    """Return the target topic. "" means that each dead letter of a share group names its own target."""
    needs_reason(comment)
    _check_reader(user, letter_topic)
    if letter_topic.of_share_groups:
        return ""
    to = letter_topic.topic if target is ResendTarget.TOPIC else letter_topic.retry_topic
    if to is None:
        text = sentence("{topic} has no retry topic; weir.retry.enable=true creates it.", topic=letter_topic.topic)
        raise Rejected(text, "target")
    check_target(to, None)
    return to


def _check_reader(user: User, letter_topic: DeadLetterTopic) -> None:
    if reason := records.read_denial(user, letter_topic.dead_topic):
        raise PermissionDenied(reason)
    if masking.rules_for(user, letter_topic.dead_topic):
        raise PermissionDenied(MASKED_SOURCE)


def _prepare(
    user: User,
    letter_topic: DeadLetterTopic,
    to: str,
    target: ResendTarget,
    letters: Sequence[DeadLetter],
    edited: NewRecord | None = None,
) -> RestoredLetters:
    """Return the dead letters with their targets. An edited record names its partition. Any other record goes to the partition with the same number,
    as a retry does.
    Raises PermissionDenied and Rejected."""
    if letter_topic.of_share_groups:
        restored = failed_records.restore(user, letters, target, edited=edited is not None)
    else:
        count = ObservedPartition.objects.filter(topic__name=to).count()
        restored = RestoredLetters(
            [replace(x, to=to, to_partition=x.partition if x.partition < count else None) for x in letters]
        )
    if edited is not None:
        for x in restored.letters:
            check_record(edited, check_target(x.to, edited.partition))
        restored.letters = [
            replace(x, record=with_headers(edited, x.needed), to_partition=edited.partition) for x in restored.letters
        ]
    return restored


def _read_letters(letter_topic: DeadLetterTopic, chosen: Mapping[int, set[int]]) -> list[DeadLetter]:
    """The chosen dead letters that are in the log. Raises Rejected."""
    known = set(ObservedPartition.objects.filter(topic__name=letter_topic.dead_topic).values_list("index", flat=True))
    found: list[DeadLetter] = []
    for partition, offsets in sorted(chosen.items()):
        where = {"topic": letter_topic.dead_topic, "partition": partition}
        if partition not in known:
            raise Rejected(sentence("Partition {topic}-{partition} does not exist.", **where), "partition")
        first, last = min(offsets), max(offsets)
        if last - first >= OFFSETS_SPAN_MAX:
            raise Rejected(
                sentence(
                    "Dead letters of {topic}-{partition} are too far apart. Send them in several requests.", **where
                ),
                "places",
            )
        try:
            read = record_range.read_range(letter_topic.dead_topic, partition, first, last, REQUEST_BYTES_MAX)
        except NoResponse as error:
            raise Rejected(
                sentence("{topic}-{partition} could not be read: {detail}. Nothing was sent.", detail=error, **where)
            ) from None
        if not read.complete:
            raise Rejected(sentence("The dead letters of {topic}-{partition} are too large. Send fewer.", **where))
        found += [DeadLetter(partition, offset, r, "", None) for offset, r in read.records if offset in offsets]
        forget_below(letter_topic, partition, read.start_offset)
    return found


# -- sending -----------------------------------------------------------------------------------------------------------
def _send_audited(
    user: User,
    letter_topic: DeadLetterTopic,
    target: ResendTarget,
    restored: RestoredLetters,
    requested: Mapping[str, object],
    comment: str,
) -> ResendResult:
    """Send the records. Called between the audit row and its outcome."""
    object_id = f"dead-letters-{uuid.uuid4().hex}"
    actor = user.get_username()
    record(actor, VERB, "records", letter_topic.dead_topic, comment=comment, after=dict(requested), object_id=object_id)
    total = ResendResult(
        _targets(letter_topic, target, restored.letters), refused=restored.refused, problems=restored.problems
    )
    until = time.monotonic() + REQUEST_SECONDS
    for partition, to in sorted({(x.partition, x.to) for x in restored.letters}):
        letters = [x for x in restored.letters if (x.partition, x.to) == (partition, to)]
        if time.monotonic() > until:
            total = _sum(total, ResendResult(to, refused=len(letters), problems=[TIME_OVER]))
            continue
        copies = [
            replace(
                x,
                record=build_resent_record(
                    x.record, target, place_text(letter_topic.dead_topic, partition, x.offset), x.to_partition
                ),
            )
            for x in letters
        ]
        total = _sum(total, send_partition(actor, letter_topic, to, partition, copies))
    outcome = Outcome.CONFIRMED if total.sent or not total.refused else Outcome.REJECTED
    summary = sentence(
        "{sent} sent, {already} sent before, {rejected} rejected, {unknown} unknown.",
        sent=total.sent,
        already=total.already,
        rejected=total.refused,
        unknown=total.unknown,
    )
    detail = joined([summary, *total.problems])
    finish_changes(object_id, None, Outcome.UNKNOWN if total.unknown else outcome, detail)
    return total


def _targets(letter_topic: DeadLetterTopic, target: ResendTarget, letters: Sequence[DeadLetter]) -> str:
    names = sorted({x.to for x in letters})
    if not names:
        return letter_topic.retry_topic or letter_topic.topic if target is ResendTarget.RETRY else letter_topic.topic
    more = len(names) - TARGETS_NAMED_MAX
    return ", ".join(names[:TARGETS_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


def _sum(first: ResendResult, second: ResendResult) -> ResendResult:
    return ResendResult(
        first.target,
        first.sent + second.sent,
        first.already + second.already,
        first.missing + second.missing,
        first.refused + second.refused,
        first.unknown + second.unknown,
        list(dict.fromkeys([*first.problems, *second.problems])),
    )
