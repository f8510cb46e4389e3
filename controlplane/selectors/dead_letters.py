"""The dead letter topic of a topic, the causes in a page of dead letters, and which of them were sent again. Does not contain: reading records
(`selectors.messages`), permissions (`services.dead_letters`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from brokerd.cluster.configs import GROUP_DEAD_LETTERS, RETRY_SOURCE, dead_topic_name, retry_topic_name
from controlplane.domain.dead_letters import DeadLetterCause, DeadLetterKind, FailedRecord, cause_of, failed_record
from controlplane.domain.produce import Header
from controlplane.models import SentDeadLetter, Topic
from controlplane.models.dead_letter import ResendState
from controlplane.selectors.front_leaders import front_of
from controlplane.selectors.messages import MessageRow, PartitionRead


@dataclass(frozen=True, slots=True)
class DeadLetterTopic:
    """`topic`: the topic whose page shows them; of share groups this is the dead letter topic itself, because many topics can have it. `retry_topic`:
    None if there is none."""

    topic: str
    dead_topic: str
    topic_id: UUID
    retry_topic: str | None
    kind: DeadLetterKind = DeadLetterKind.RETRY

    @property
    def of_share_groups(self) -> bool:
        return self.kind is DeadLetterKind.SHARE_GROUP


@dataclass(frozen=True, slots=True)
class Resending:
    """A sending of a dead letter. `state`: sending, sent or unknown."""

    target: str
    state: str
    actor: str
    at: datetime


@dataclass(frozen=True, slots=True)
class DeadLetterRow:
    """A dead letter, as masking rules permit. `cause`: from its headers. `failed`: the record that a dead letter of a share group names."""

    record: MessageRow
    cause: DeadLetterCause
    failed: FailedRecord | None = None
    sent: list[Resending] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ChosenLetter:
    """A dead letter that will be sent again, and its earlier sendings."""

    partition: int
    offset: int
    sent: list[Resending]


@dataclass(frozen=True, slots=True)
class DeadLetterList:
    """Newest first. `kind`: retry or share_group. `complete` False: `resume` continues. `note`: why it is not complete."""

    topic: str
    dead_topic: str
    kind: str = DeadLetterKind.RETRY.value
    rows: list[DeadLetterRow] = field(default_factory=list)
    problems: list[PartitionRead] = field(default_factory=list)
    scanned: int = 0
    complete: bool = True
    note: str = ""
    resume: str = ""


def dead_letter_topic(topic: str) -> DeadLetterTopic | None:
    """Return None if the topic has no dead letter topic and is not a dead letter topic of share groups."""
    own = Topic.objects.filter(name=topic, deleted_at__isnull=True).first()
    if own is not None and str(own.configs.get(GROUP_DEAD_LETTERS, "")).lower() == "true":
        return DeadLetterTopic(topic, topic, own.id, None, DeadLetterKind.SHARE_GROUP)
    name = front_of(topic, dead_topic_name(topic), RETRY_SOURCE)
    if name is None:
        return None
    row = Topic.objects.get(name=name, deleted_at__isnull=True)
    return DeadLetterTopic(topic, name, row.id, front_of(topic, retry_topic_name(topic), RETRY_SOURCE))


def retry_topic_of(topic: str) -> str | None:
    """The retry topic for failed records of this topic. A retry topic is its own: its records have failed again."""
    row = Topic.objects.filter(name=topic, deleted_at__isnull=True).first()
    source = row.configs.get(RETRY_SOURCE) if row is not None else None
    if source and topic == retry_topic_name(str(source)):
        return topic
    return front_of(topic, retry_topic_name(topic), RETRY_SOURCE)


def with_causes(topic: DeadLetterTopic, records: Sequence[MessageRow]) -> list[DeadLetterRow]:
    sent = _resendings(topic.topic_id, ((r.partition, r.offset) for r in records))
    return [
        DeadLetterRow(
            r,
            cause_of(dict(r.headers), topic.kind),
            failed_record(_bytes(r.headers)) if topic.of_share_groups else None,
            sent.get((r.partition, r.offset), []),
        )
        for r in records
    ]


def _bytes(headers: Iterable[tuple[str, str | None]]) -> list[Header]:
    return [(name, None if value is None else value.encode()) for name, value in headers]


def chosen_letters(topic: DeadLetterTopic, places: Sequence[tuple[int, int]]) -> list[ChosenLetter]:
    """The dead letters at these places, in their order."""
    sent = _resendings(topic.topic_id, places)
    return [ChosenLetter(partition, offset, sent.get((partition, offset), [])) for partition, offset in places]


def _resendings(topic_id: UUID, places: Iterable[tuple[int, int]]) -> dict[tuple[int, int], list[Resending]]:
    offsets: dict[int, list[int]] = {}
    for partition, offset in places:
        offsets.setdefault(partition, []).append(offset)
    found: dict[tuple[int, int], list[Resending]] = {}
    for partition, chosen in offsets.items():
        rows = SentDeadLetter.objects.filter(topic_id=topic_id, partition=partition, offset__in=chosen)
        for row in rows.select_related("batch"):
            batch = row.batch
            at = batch.finished_at or batch.created_at
            sending = Resending(batch.target, ResendState(batch.state).value, batch.actor, at)
            found.setdefault((partition, row.offset), []).append(sending)
    return found
