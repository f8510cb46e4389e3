"""Undecided half messages of all topics, read from the leaders of their front partitions.

Invariants: a page reads the oldest MESSAGES_PER_PARTITION messages of each of at most PARTITIONS_MAX partitions, and waits at most a few seconds. A page
says what it lacks: silent partitions, partitions beyond the limit, younger messages. A user sees only messages of visible topics.
Does not contain: one topic with its values (`half_messages`), decisions (`services.half_messages`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

from django.db.models import F
from django.utils import timezone

from brokerd.cluster.configs import HALF_TOPIC, half_topic_name
from brokerd.wire.messages.half_messages import HalfMessagesResponse
from controlplane.clients import half_messages as client
from controlplane.clients.connection import KafkaConnection
from controlplane.domain.alert_thresholds import AlertThresholds, ThresholdName
from controlplane.domain.roles import RoleResource
from controlplane.models import ObservedPartition, ObservedTopic, TopicMessages
from controlplane.selectors import alert_thresholds
from controlplane.selectors.front_leaders import LeaderProblem, leader_responses
from controlplane.selectors.half_messages import HalfMessageRow, half_message_row
from controlplane.selectors.paging import ListOrder, Page, PageStart, computed_page
from controlplane.selectors.visibility import sees

PARTITIONS_MAX = 500
"""Maximum number of front partitions of one page. Those of the topics with the oldest messages come first."""
MESSAGES_PER_PARTITION = 100
"""Maximum number of messages of one response, the oldest ones."""

FrontPartition = tuple[str, int]
"""(front topic, partition)."""


class HalfState(StrEnum):
    """`unchecked`: no check was sent to its producers yet. `checked`: a check was sent. `overdue`: older than the alert threshold of its topic. `expiring`: the
    last check was not answered."""

    UNCHECKED = "unchecked"
    CHECKED = "checked"
    OVERDUE = "overdue"
    EXPIRING = "expiring"


@dataclass(frozen=True, slots=True)
class UndecidedRow(HalfMessageRow):
    """An undecided half message of `topic`. `front_topic`: where its record is. `written_ms`: Unix time in milliseconds, the order of the list."""

    topic: str
    front_topic: str
    written_ms: int
    state: HalfState

    @property
    def is_expiring(self) -> bool:
        return self.state is HalfState.EXPIRING


@dataclass(frozen=True, slots=True)
class SilentFront:
    """A partition of a front topic whose messages are missing, and the reason."""

    topic: str
    partition: int
    problem: str


@dataclass(frozen=True, slots=True)
class UndecidedPage(Page[UndecidedRow]):
    """A page of undecided half messages. `undecided`: the number in the partitions that answered. `searched`: the number of messages that were read, the
    oldest ones of each partition. `partitions_skipped`: partitions above the limit of one request."""

    rows: list[UndecidedRow]
    undecided: int
    searched: int
    partitions_asked: int
    partitions_skipped: int
    missing: list[SilentFront]


ORDER = ListOrder(("topic", "partition", "offset"), ("written_ms", "checks", "half_id", "state"), "written_ms")


def undecided_page(
    *,
    topic: str = "",
    state: str = "",
    query: str = "",
    sort: str = "",
    page: PageStart = 1,
    per_page: int = 50,
) -> UndecidedPage:
    """Undecided half messages, the oldest first. `topic`: part of its name. `state`: one of HalfState. `query`: part of the half id."""
    fronts = {f: t for f, t in visible_fronts().items() if topic.lower() in t.lower()}
    leaders = _leaders(fronts)
    selected = dict(list(leaders.items())[:PARTITIONS_MAX])

    def call(connection: KafkaConnection, spot: FrontPartition) -> HalfMessagesResponse:
        return client.fetch_undecided(connection, *spot, 0, MESSAGES_PER_PARTITION)

    thresholds, now = alert_thresholds.current_thresholds(), timezone.now()
    rows, missing, undecided = list[UndecidedRow](), list[SilentFront](), 0
    for (front, index), response in leader_responses(selected, call).items():
        if isinstance(response, LeaderProblem):
            missing.append(SilentFront(fronts[front], index, response.problem))
            continue
        undecided += response.undecided
        rows += [
            _row(fronts[front], front, half_message_row(fronts[front], index, m, now), thresholds)
            for m in response.messages
        ]
    chosen = [r for r in rows if query in r.half_id and (not state or r.state == state)]
    found = computed_page(chosen, ORDER, page=page, per_page=per_page, sort=sort, query=query)
    return UndecidedPage(
        rows=found.rows,
        total=found.total,
        window=found.window,
        sort=found.sort,
        query=query,
        undecided=undecided,
        searched=len(rows),
        partitions_asked=len(selected),
        partitions_skipped=len(leaders) - len(selected),
        missing=missing,
    )


def visible_fronts() -> dict[str, str]:
    """{front topic of half messages: its topic} of the topics that the user sees."""
    rows = ObservedTopic.objects.filter(configs__has_key=HALF_TOPIC).order_by("name").values_list("name", "configs")
    pairs = ((name, str(configs[HALF_TOPIC] or "")) for name, configs in rows)
    return {n: t for n, t in pairs if t and n == half_topic_name(t) and sees(RoleResource.TOPIC, t)}


def overdue_topics() -> list[str]:
    """The visible topics whose oldest undecided half message is older than the alert threshold of the topic, the oldest first. No request is sent to a
    broker."""
    thresholds, now = alert_thresholds.current_thresholds(), timezone.now()
    smallest = min(
        [thresholds[ThresholdName.HALF_UNDECIDED], *thresholds.overrides.get(ThresholdName.HALF_UNDECIDED, {}).values()]
    )
    rows = TopicMessages.objects.filter(half_oldest_at__lte=now - timedelta(seconds=smallest)).order_by(
        "half_oldest_at"
    )
    return [
        topic
        for topic, at in rows.values_list("topic", "half_oldest_at")
        if at is not None
        and (now - at).total_seconds() >= thresholds.value_for(ThresholdName.HALF_UNDECIDED, topic)
        and sees(RoleResource.TOPIC, topic)
    ]


def _leaders(fronts: dict[str, str]) -> dict[FrontPartition, int | None]:
    """The leader of each front partition, first those of the topics with the oldest message at the last round of the monitor."""
    metrics = TopicMessages.objects.filter(half_undecided__gt=0).order_by(F("half_oldest_at").asc(nulls_last=True))
    rank = {topic: i for i, topic in enumerate(metrics.values_list("topic", flat=True))}
    rows = ObservedPartition.objects.filter(topic__name__in=list(fronts)).values_list("topic__name", "index", "leader")
    ordered = sorted(rows, key=lambda r: (rank.get(fronts[r[0]], len(rank)), r[0], r[1]))
    return {(name, index): leader for name, index, leader in ordered}


def _row(topic: str, front: str, row: HalfMessageRow, thresholds: AlertThresholds) -> UndecidedRow:
    values: dict[str, Any] = asdict(row)
    written_ms = round(row.written_at.timestamp() * 1000)
    return UndecidedRow(
        **values, topic=topic, front_topic=front, written_ms=written_ms, state=_state(topic, row, thresholds)
    )


def _state(topic: str, row: HalfMessageRow, thresholds: AlertThresholds) -> HalfState:
    if row.expiring:
        return HalfState.EXPIRING
    if row.age_ms >= thresholds.value_for(ThresholdName.HALF_UNDECIDED, topic) * 1000:
        return HalfState.OVERDUE
    return HalfState.CHECKED if row.checks else HalfState.UNCHECKED
