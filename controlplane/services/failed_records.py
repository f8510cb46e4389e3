"""The records that are sent for dead letters of share groups: the failed records themselves. Some of them cannot be sent now.

A dead letter names its record by headers (KIP-1191) and has at most its key and value, so the record is read at its place. The record is sent to its
topic, or to the retry topic of its topic with a header that names the share group. Invariants: a user without the
right to read and produce raw records of a source topic gets nothing from it. A record is not replaced by one of a later topic with the same name. Does
not contain: the sending (`services.dead_letters`), headers (`domain.dead_letters`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.core.exceptions import PermissionDenied

from controlplane.clients import records_at
from controlplane.domain.dead_letters import (
    GROUP,
    FailedRecord,
    ResendTarget,
    failed_record,
    has_group,
    place_text,
    restore_failed_record,
    retry_headers,
    with_headers,
)
from controlplane.domain.produce import Header, NewRecord
from controlplane.domain.times import utc_of_ms
from controlplane.models import Topic
from controlplane.selectors.dead_letters import retry_topic_of
from controlplane.services import masking, records
from controlplane.services.common import Rejected
from controlplane.services.produce import MASKED_SOURCE, check_target, produce_denial
from weir_common.phrases import sentence

User = AbstractBaseUser | AnonymousUser
DIGEST_DIGITS = 12
"""Hexadecimal digits of the digest of a group name: a name can be longer than the column."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter at `partition`, `offset`. `record`: the record that is sent for it, to topic `to` and partition `to_partition` (None: by the key).
    `source`: the failed record, with the id of its topic, and for a retry topic the digest of its share group; "": it is not known, and other dead letters of
    the same record are sent too. `needed`: headers for the retry topic of a share group, which an edited record gets too."""

    partition: int
    offset: int
    record: NewRecord
    to: str
    to_partition: int | None
    source: str = ""
    needed: tuple[Header, ...] = ()


@dataclass(slots=True)
class RestoredLetters:
    """`problems`: why the other `refused` dead letters cannot be sent, each reason once."""

    letters: list[DeadLetter] = field(default_factory=list)
    refused: int = 0
    problems: list[str] = field(default_factory=list)

    def reject(self, problem: str, count: int = 1) -> None:
        self.refused += count
        self.problems = list(dict.fromkeys([*self.problems, problem]))


def check_source(user: User, topic: str) -> None:
    """Raises PermissionDenied."""
    if reason := records.read_denial(user, topic) or produce_denial(user, topic):
        raise PermissionDenied(sentence("{topic}: {reason}", topic=topic, reason=reason))
    if masking.rules_for(user, topic):
        raise PermissionDenied(sentence("{topic}: {reason}", topic=topic, reason=MASKED_SOURCE))


def restore(
    user: User, letters: Sequence[DeadLetter], target: ResendTarget = ResendTarget.TOPIC, *, edited: bool = False
) -> RestoredLetters:
    """Return the dead letters with the records that failed and their targets. `edited`: the record may be missing from the log, because another one replaces
    it. Raises PermissionDenied, before a record is read."""
    restored = RestoredLetters()
    by_topic: dict[str, list[tuple[DeadLetter, FailedRecord]]] = {}
    for letter in letters:
        failed = failed_record(letter.record.headers)
        if failed is None:
            restored.reject(
                sentence(
                    "The record at {partition}@{offset} does not name a failed record in its headers.",
                    partition=letter.partition,
                    offset=letter.offset,
                )
            )
        else:
            by_topic.setdefault(failed.topic, []).append((letter, failed))
    for topic in by_topic:
        check_source(user, topic)
    for topic, named in sorted(by_topic.items()):
        _restore_topic(topic, named, restored, target, edited=edited)
    restored.letters.sort(key=lambda x: (x.partition, x.offset))
    return restored


def _restore_topic(
    topic: str,
    named: Sequence[tuple[DeadLetter, FailedRecord]],
    restored: RestoredLetters,
    target: ResendTarget,
    *,
    edited: bool,
) -> None:
    row = Topic.objects.filter(name=topic, deleted_at__isnull=True).first()
    to = topic if target is ResendTarget.TOPIC or row is None else retry_topic_of(topic)
    if to is None:
        restored.reject(
            sentence("{topic} has no retry topic; weir.retry.enable=true creates it.", topic=topic), len(named)
        )
        return
    try:
        partitions = check_target(topic, None)
        to_partitions = check_target(to, None)
    except Rejected as error:
        restored.reject(error.reason, len(named))
        return
    places = {(f.partition, f.offset) for _, f in named if f.partition < partitions}
    records_read = records_at.read_records_at(topic, places)
    for letter, failed in named:
        if (failed.partition, failed.offset) in records_read.unread:
            restored.reject(
                sentence(
                    "{topic}-{partition} could not be read. Send the dead letters of {topic} again.",
                    topic=topic,
                    partition=failed.partition,
                )
            )
            continue
        original = records_read.records.get((failed.partition, failed.offset))
        if original is not None and (row is None or _earlier(letter.record, row.created_at)):
            original = None  # the topic was created after the failure
        try:
            record, needed = _record_to_send(letter, failed, original, target, edited=edited)
        except Rejected as error:
            restored.reject(error.reason)
            continue
        restored.letters.append(
            replace(
                letter,
                record=with_headers(record, needed),
                to=to,
                to_partition=failed.partition if failed.partition < to_partitions else None,
                source="" if row is None else _source(row, failed, needed),
                needed=needed,
            )
        )


def _record_to_send(
    letter: DeadLetter, failed: FailedRecord, original: NewRecord | None, target: ResendTarget, *, edited: bool
) -> tuple[NewRecord, tuple[Header, ...]]:
    """The failed record, and the headers that the retry topic needs. `original`: the record in the log, None if the log does not have it. Raises Rejected."""
    record = restore_failed_record(letter.record, original) or (NewRecord() if edited else None)
    if record is None:
        raise Rejected(
            sentence(
                "{place} has no record any more, and its dead letter has no copy (errors.deadletterqueue.copy.record.enable of the group). Edit it to "
                "send a record.",
                place=place_text(failed.topic, failed.partition, failed.offset),
            )
        )
    needed = retry_headers(letter.record.headers) if target is ResendTarget.RETRY else ()
    if target is ResendTarget.RETRY and not needed:
        raise Rejected(
            sentence(
                "The record at {partition}@{offset} does not name a share group in its headers.",
                partition=letter.partition,
                offset=letter.offset,
            )
        )
    return record, needed


def _source(row: Topic, failed: FailedRecord, needed: Sequence[Header]) -> str:
    """Several share groups can fail at one record. In a retry topic each of them gets it."""
    group = next((value for name, value in needed if name == GROUP), None)
    place = f"{row.id}:{failed.partition}@{failed.offset}"
    return f"{place}:{sha256(group).hexdigest()[:DIGEST_DIGITS]}" if group else place


def _earlier(letter: NewRecord, created_at: datetime) -> bool:
    at_ms = letter.timestamp_ms
    return at_ms is not None and utc_of_ms(at_ms) < created_at


def check_groups(letters: Sequence[DeadLetter], target: ResendTarget) -> None:
    """Raises Rejected for a dead letter that no group would read from the retry topic."""
    if target is ResendTarget.RETRY and (without := [x for x in letters if not has_group(x.record)]):
        place = f"{without[0].partition}@{without[0].offset}"
        raise Rejected(
            sentence(
                "{count} dead letters have no header x-retry-group, for example {place}: no group would process them. Send them to the topic.",
                count=len(without),
                place=place,
            ),
            "target",
        )


def missing_letter(dead_topic: str, partition: int, offset: int) -> str:
    """The problem of an offset without a dead letter."""
    return sentence(
        "{topic}-{partition} has no record at offset {offset}. Retention may have removed it.",
        topic=dead_topic,
        partition=partition,
        offset=offset,
    )
