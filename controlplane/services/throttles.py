"""Throttles of moves, in Kafka's dynamic configs: rates on brokers, lists of replicas on topics.

Invariant: the throttle of a move never overwrites a value that a person set. The throttle is an overlay, recomputed from the moves that copy now. The
metadata log contains values and overlay merged. So the end of a move, or a crash at any moment, restores exactly the values from before the move.
Does not contain the choice of a rate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from django.db.models import F
from django.utils import timezone

from brokerd.cluster.configs import (
    FOLLOWER_REPLICAS,
    LEADER_REPLICAS,
)
from brokerd.cluster.metadata import BROKER
from controlplane.domain.config_overlay import LISTS, RATES, apply_overlay
from controlplane.domain.config_overlay import join_replica_lists as _joined
from controlplane.domain.move_phrases import MORE_THROTTLES, THROTTLE_OF_BROKER, THROTTLE_OF_TOPIC
from controlplane.domain.move_states import UNDER_WAY
from controlplane.domain.throttle import ThrottlesBefore
from controlplane.models import AccessEntry, Broker, Move, MovePartition, ObservedTopic, Topic
from controlplane.services.common import Rejected
from weir_common.phrases import joined, sentence

LEAST_BYTES_PER_S = 1_000
"""Minimum throttle. A lower one counts as a typing error: one batch would take minutes."""
NAMED_MAX = 5
"""Maximum number of topics and brokers listed by name in a sentence. The others are counted."""


def refresh() -> None:
    """Recompute the overlays from the moves that copy now, in the caller's transaction. Changes nothing where they are up to date."""
    lists, rates = _desired_throttles()
    for topic in Topic.objects.filter(deleted_at__isnull=True, id__in=lists) | Topic.objects.filter(
        deleted_at__isnull=True, overlay__isnull=False
    ):
        overlay = lists.get(topic.id)
        if overlay != topic.overlay:
            Topic.objects.filter(pk=topic.pk, generation=topic.generation).update(
                overlay=overlay, generation=F("generation") + 1, updated_at=timezone.now()
            )
    rows = {r.key: r for r in AccessEntry.objects.filter(kind=BROKER)}
    seen = {str(b.broker_id): b for b in Broker.objects.all()}
    for key in sorted({*rows, *map(str, rates)}):
        row, rate = rows.get(key), rates.get(int(key))
        overlay = None if rate is None else dict.fromkeys(RATES, str(rate))
        broker = seen.get(key)
        if row is None:
            configs = dict(broker.configs) if broker is not None else {}
            row = AccessEntry.objects.create(
                kind=BROKER, key=key, value=configs, generation=0, waiting=False, changed_by="moves"
            )
        if overlay != row.overlay:
            # The generation is above that in the log, too, because a restored database may have lower generations than the log.
            above = max(row.generation, broker.config_generation if broker is not None else 0)
            AccessEntry.objects.filter(pk=row.pk, generation=row.generation).update(
                overlay=overlay, generation=above + 1, waiting=True, changed_by="moves", changed_at=timezone.now()
            )


def _desired_throttles(without: Move | None = None) -> tuple[dict[UUID, dict[str, str]], dict[int, int]]:
    """Lists per topic and bytes/s per broker, of all partitions in flight in a move with a throttle. Where two moves use the same broker, the lower
    rate counts, because it was chosen to protect producers. `without`: a move that is not counted."""
    leaders: dict[UUID, set[str]] = {}
    followers: dict[UUID, set[str]] = {}
    rates: dict[int, int] = {}
    parts = MovePartition.objects.filter(
        active=True, state__in=UNDER_WAY, move__throttle_bytes_per_s__isnull=False
    ).select_related("move")
    for p in parts.exclude(move=without) if without is not None else parts:
        rate = p.move.throttle_bytes_per_s
        assert rate is not None
        old, new = set(p.replicas_from), set(p.replicas_to)
        leaders.setdefault(p.topic_id, set()).update(f"{p.partition}:{b}" for b in old | new)
        followers.setdefault(p.topic_id, set()).update(f"{p.partition}:{b}" for b in old ^ new)
        for b in old | new:
            rates[b] = min(rate, rates.get(b, rate))
    lists = {t: {LEADER_REPLICAS: _joined(*leaders[t]), FOLLOWER_REPLICAS: _joined(*followers[t])} for t in leaders}
    return lists, rates


def in_force(topic_ids: Iterable[UUID], broker_ids: Iterable[int]) -> ThrottlesBefore:
    """Throttles of these topics and brokers in the metadata log, as last observed. The start of a move stores them."""
    topics = ObservedTopic.objects.filter(id__in=set(topic_ids)).values_list("name", "configs")
    brokers = Broker.objects.filter(broker_id__in=set(broker_ids)).values_list("broker_id", "configs")
    return ThrottlesBefore(
        topics={name: found for name, configs in topics if (found := _throttles(configs))},
        brokers={str(b): found for b, configs in brokers if (found := _throttles(configs))},
    )


def _throttles(configs: Mapping[str, str]) -> dict[str, str]:
    return {k: configs[k] for k in (*RATES, *LISTS) if k in configs}


def remaining_throttles(move: Move) -> str:
    """Throttles in the log, as last observed, on brokers and topics of this move that no other move needs; "" = none."""
    lists, rates = _desired_throttles(without=move)
    found = []
    topic_ids = list(move.parts.order_by().values_list("topic_id", flat=True).distinct())
    seen = ObservedTopic.objects.in_bulk(topic_ids)
    for topic in Topic.objects.filter(id__in=topic_ids, deleted_at__isnull=True):
        desired = _throttles(apply_overlay(topic.configs, lists.get(topic.id)))
        if topic.id in seen and _throttles(seen[topic.id].configs) != desired:
            found.append(sentence(THROTTLE_OF_TOPIC, topic=topic.name))
    brokers = Broker.objects.in_bulk()
    for row in AccessEntry.objects.filter(kind=BROKER):
        rate, broker = rates.get(int(row.key)), brokers.get(int(row.key))
        overlay = dict.fromkeys(RATES, str(rate)) if rate is not None else None
        if broker is not None and _throttles(broker.configs) != _throttles(apply_overlay(row.value or {}, overlay)):
            found.append(sentence(THROTTLE_OF_BROKER, broker=row.key))
    if not found:
        return ""
    named = joined(found[:NAMED_MAX], ", ")
    more = len(found) - NAMED_MAX
    return sentence(MORE_THROTTLES, throttles=named, count=more) if more > 0 else named


def check(bytes_per_s: int | None) -> None:
    """Raises Rejected for a rate outside the sensible range."""
    if bytes_per_s is not None and bytes_per_s < LEAST_BYTES_PER_S:
        raise Rejected(
            sentence(
                "A throttle of {bytes_per_s} bytes/s is too low; give at least {least}, or none. To stop the copies, pause the move.",
                bytes_per_s=bytes_per_s,
                least=LEAST_BYTES_PER_S,
            ),
            "throttle_bytes_per_s",
        )
