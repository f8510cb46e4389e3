"""Metrics of half messages, delayed messages and dead letters, collected for rows, charts and alerts.

A round requests the values from the leaders of at most PARTITIONS_MAX front partitions; the next round continues where it ended. Numbers of dead letters come
from offsets that are in rows. Invariants: a topic has metrics only after each of its front partitions has answered, and a silent partition keeps its last
response, with its time. Runs on a thread that may wait for brokers. Does not contain: the messages (`selectors.half_messages`), alerts (`domain.alert`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from django.db import transaction
from django.db.models import F, Q, Sum

from brokerd.cluster.configs import (
    DELAY_TOPIC,
    GROUP_DEAD_LETTERS,
    HALF_TOPIC,
    RETRY_SOURCE,
    dead_topic_name,
    delay_topic_name,
    expired_topic_name,
    half_topic_name,
)
from brokerd.wire.messages.delayed_messages import DelayedMessagesRequest, DelayedMessagesResponse
from brokerd.wire.messages.half_messages import HalfMessagesResponse
from controlplane.clients import delayed_messages, half_messages
from controlplane.clients.connection import KafkaConnection
from controlplane.domain.message_metrics import COLUMNS, MessageMetrics
from controlplane.domain.times import utc_of_ms
from controlplane.models import ObservedPartition, ObservedTopic, TopicMessages
from controlplane.selectors.front_leaders import LeaderProblem, leader_responses

COLLECT_MS = 10_000
"""Milliseconds between the starts of two rounds: the step of the history."""
PARTITIONS_MAX = 500
"""Front partitions of a round, a small request each. With 3,000 of them a response is at most a minute old."""
GROWTH_S = 600
"""Seconds over which new dead letters are counted."""

FrontPartition = tuple[str, int]
"""(front topic, partition)."""
FrontResponse = HalfMessagesResponse | DelayedMessagesResponse


@dataclass(frozen=True, slots=True)
class MessageTopics:
    """The topics that have metrics, from the configs in rows. `half`, `delay`: {front topic: its topic}. `dead`: {topic of dead letters: the topic whose
    page shows them}."""

    half: Mapping[str, str]
    delay: Mapping[str, str]
    dead: Mapping[str, str]


class MessageMetricCollector:
    def __init__(self) -> None:
        self.latest: Mapping[str, MessageMetrics] = {}
        """Metrics by topic. The dictionary is replaced as a whole, so that other threads may read it."""
        self._responses: dict[FrontPartition, tuple[datetime, FrontResponse]] = {}
        self._position: FrontPartition | None = None
        """The last partition of the previous round, if there are more."""
        self._ends: dict[str, deque[tuple[float, int]]] = {}
        """(time, end offsets of all partitions) of the topics of dead letters, of the last GROWTH_S."""

    def collect(self) -> None:
        """Run one round of the collection, and write the rows. Raises DatabaseError."""
        topics = message_topics()
        leaders: dict[FrontPartition, int | None] = {
            (name, index): leader
            for name, index, leader in ObservedPartition.objects.filter(topic__name__in=[*topics.half, *topics.delay])
            .order_by("topic__name", "index")
            .values_list("topic__name", "index", "leader")
        }
        chosen = self._choose(leaders)

        def call(connection: KafkaConnection, spot: FrontPartition) -> FrontResponse:
            if spot[0] in topics.half:
                return half_messages.fetch_undecided(connection, *spot, 0, 1)
            return delayed_messages.fetch_pending(connection, *spot, DelayedMessagesRequest(bounds_ms=[]))

        responses = leader_responses(chosen, call)
        now = datetime.now(UTC)
        self._responses |= {spot: (now, a) for spot, a in responses.items() if not isinstance(a, LeaderProblem)}
        self._responses = {spot: a for spot, a in self._responses.items() if spot in leaders}
        found = self._metrics(topics, leaders, now)
        with transaction.atomic():
            TopicMessages.objects.exclude(topic__in=found).delete()
            rows = [TopicMessages(topic=t, **{c: getattr(f, c) for c in COLUMNS}) for t, f in found.items()]
            TopicMessages.objects.bulk_create(
                rows, update_conflicts=True, unique_fields=["topic"], update_fields=list(COLUMNS)
            )
        self.latest = found

    def _choose(self, leaders: Mapping[FrontPartition, int | None]) -> dict[FrontPartition, int | None]:
        after = [s for s in leaders if self._position is None or s > self._position]
        chosen = list(islice(after, PARTITIONS_MAX))
        self._position = chosen[-1] if len(after) > PARTITIONS_MAX else None
        return {s: leaders[s] for s in chosen}

    def _metrics(
        self, topics: MessageTopics, leaders: Iterable[FrontPartition], now: datetime
    ) -> dict[str, MessageMetrics]:
        spots: dict[str, list[FrontPartition]] = {}
        for spot in leaders:
            spots.setdefault(spot[0], []).append(spot)
        offsets = _offsets([*(expired_topic_name(f) for f in topics.half), *topics.dead])
        values: dict[str, dict[str, Any]] = {}
        times: dict[str, list[datetime]] = {}
        for front, own in spots.items():
            known = [self._responses[s] for s in own if s in self._responses]
            if len(known) < len(own):
                continue
            topic = topics.half.get(front) or topics.delay[front]
            times.setdefault(topic, []).append(min(at for at, _ in known))
            half = [a for _, a in known if isinstance(a, HalfMessagesResponse)]
            delayed = [a for _, a in known if isinstance(a, DelayedMessagesResponse)]
            expired = offsets.get(expired_topic_name(front), (None, None))[0]
            values.setdefault(topic, {}).update(_half(half, expired) if half else _delayed_values(delayed))
        for dead, topic in topics.dead.items():
            count, end = offsets.get(dead, (None, None))
            if count is not None and end is not None:
                grown = self._growth(dead, end, now.timestamp())
                values.setdefault(topic, {}).update(dead_letters=count, dead_letters_grown=grown)
        self._ends = {name: ends for name, ends in self._ends.items() if name in topics.dead}
        return {
            topic: MessageMetrics(**own, sampled_at=min(times.get(topic, [now])))
            for topic, own in sorted(values.items())
        }

    def _growth(self, name: str, end: int, now_s: float) -> int:
        ends = self._ends.setdefault(name, deque())
        if ends and end < ends[-1][1]:
            ends.clear()  # the topic was deleted and recreated
        ends.append((now_s, end))
        while len(ends) > 2 and ends[1][0] <= now_s - GROWTH_S:
            ends.popleft()
        return end - ends[0][1]


def message_topics() -> MessageTopics:
    """Raises DatabaseError."""
    markers = (HALF_TOPIC, DELAY_TOPIC, RETRY_SOURCE, GROUP_DEAD_LETTERS)
    has_one = Q()
    for marker in markers:
        has_one |= Q(configs__has_key=marker)
    half, delay, dead = dict[str, str](), dict[str, str](), dict[str, str]()
    for name, configs in ObservedTopic.objects.filter(has_one).order_by("name").values_list("name", "configs"):
        topic = configs.get(HALF_TOPIC, "")
        if topic and name == half_topic_name(topic):
            half[name] = topic
        topic = configs.get(DELAY_TOPIC, "")
        if topic and name == delay_topic_name(topic):
            delay[name] = topic
        topic = configs.get(RETRY_SOURCE, "")
        if topic and name == dead_topic_name(topic):
            dead[name] = topic
        elif str(configs.get(GROUP_DEAD_LETTERS, "")).lower() == "true":
            dead[name] = name
    return MessageTopics(half, delay, dead)


def _offsets(names: Iterable[str]) -> dict[str, tuple[int | None, int | None]]:
    """{topic: (records by offsets, sum of the end offsets)}; None: not known."""
    rows = ObservedPartition.objects.filter(topic__name__in=list(names)).order_by().values("topic__name")
    sums = rows.annotate(n=Sum(F("end_offset") - F("start_offset")), end=Sum("end_offset"))
    return {r["topic__name"]: (r["n"], r["end"]) for r in sums}


def _half(responses: list[HalfMessagesResponse], expired: int | None) -> dict[str, object]:
    oldest = min((m for a in responses for m in a.messages), key=lambda m: m.appended_ms, default=None)
    return {
        "half_undecided": sum(a.undecided for a in responses),
        "half_oldest_at": None if oldest is None else utc_of_ms(oldest.appended_ms),
        "half_oldest_checks": None if oldest is None else oldest.checks,
        "half_checks": sum(a.checks_sent for a in responses),
        "half_expired": expired,
    }


def _delayed_values(responses: list[DelayedMessagesResponse]) -> dict[str, object]:
    """A record that is due stays pending until it is delivered: its time is that of the batch that was sent last."""
    times = [a.earliest_ms for a in responses if a.earliest_ms >= 0]
    times += [a.last_due_ms for a in responses if a.due and a.last_due_ms >= 0]
    last = max((a for a in responses if a.last_sent_ms >= 0), key=lambda a: a.last_sent_ms, default=None)
    return {
        "delayed_pending": sum(a.pending + a.due for a in responses),
        "delayed_next_at": utc_of_ms(min(times)) if times else None,
        "delayed_late_ms": None if last is None else max(0, last.last_sent_ms - last.last_due_ms),
    }
