"""Throttles of moves, in Kafka's own dynamic configs: rates on brokers, lists of replicas on topics.

Law: a move's throttle is never written over anybody's own wish: it is an overlay, worked out anew from the moves that copy now, and the
metadata log gets both together. So the end of a move, or a kill at any moment, leaves exactly what was there before. Called by
`services.moves`, `services.advancing`, the controller's database thread. Must not come in: how fast is fast enough (`pace`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from django.db.models import F
from django.utils import timezone

from brokerd.cluster.configs import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    VALUE_CHARACTERS_MAX,
)
from brokerd.cluster.metadata import BROKER
from controlplane.models import AccessEntry, Broker, Move, MovePartition, ObservedTopic, Topic
from controlplane.moves import UNDER_WAY
from controlplane.services.common import Refused

RATES, LISTS = (LEADER_RATE, FOLLOWER_RATE), (LEADER_REPLICAS, FOLLOWER_REPLICAS)
LEAST_BYTES_PER_S = 1_000
"""A throttle below this is a slip of the finger: one batch would take minutes."""
NAMED_MAX = 5
"""Topics and brokers named in a sentence; the rest is counted."""


def effective(configs: Mapping[str, str], overlay: Mapping[str, str] | None) -> dict[str, str]:
    """What the log is to hold: rates of the overlay come first, lists are joined."""
    out = dict(configs)
    for name, value in (overlay or {}).items():
        out[name] = _joined(out.get(name, ""), value) if name in LISTS else value
    return out


def _joined(*texts: str) -> str:
    items = sorted({i.strip() for t in texts for i in t.split(",") if i.strip()})
    text = "*" if "*" in items else ",".join(items)
    return text if len(text) <= VALUE_CHARACTERS_MAX else "*"


def refresh() -> None:
    """Make the overlays what the moves that copy now want, in the caller's transaction. Changes nothing where they are so already."""
    lists, rates = _wanted()
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
            held = dict(broker.configs) if broker is not None else {}
            row = AccessEntry.objects.create(
                kind=BROKER, key=key, value=held, generation=0, waiting=False, changed_by="moves"
            )
        if overlay != row.overlay:
            # Above the log's generation too: this database may be younger than the log.
            above = max(row.generation, broker.config_generation if broker is not None else 0)
            AccessEntry.objects.filter(pk=row.pk, generation=row.generation).update(
                overlay=overlay, generation=above + 1, waiting=True, changed_by="moves", changed_at=timezone.now()
            )


def _wanted(without: Move | None = None) -> tuple[dict[UUID, dict[str, str]], dict[int, int]]:
    """Lists per topic and bytes/s per broker, of all parts that are under way in a move with a throttle. Where two moves meet on a broker,
    the slower one counts: it was chosen to protect somebody. `without` this move, as if it had ended."""
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


def in_force(topic_ids: Iterable[UUID], broker_ids: Iterable[int]) -> dict[str, dict[str, dict[str, str]]]:
    """Throttles that the metadata log holds for these, as last seen: what a move finds before it begins."""
    topics = ObservedTopic.objects.filter(id__in=set(topic_ids)).values_list("name", "configs")
    brokers = Broker.objects.filter(broker_id__in=set(broker_ids)).values_list("broker_id", "configs")
    return {
        "topics": {name: held for name, configs in topics if (held := _throttles(configs))},
        "brokers": {str(b): held for b, configs in brokers if (held := _throttles(configs))},
    }


def _throttles(configs: Mapping[str, str]) -> dict[str, str]:
    return {k: configs[k] for k in (*RATES, *LISTS) if k in configs}


def left(move: Move) -> str:
    """What the log, as last seen, holds of throttles beyond what others want where this move worked; "" = nothing."""
    lists, rates = _wanted(without=move)
    found = []
    topic_ids = list(move.parts.order_by().values_list("topic_id", flat=True).distinct())
    seen = ObservedTopic.objects.in_bulk(topic_ids)
    for topic in Topic.objects.filter(id__in=topic_ids, deleted_at__isnull=True):
        wanted = _throttles(effective(topic.configs, lists.get(topic.id)))
        if topic.id in seen and _throttles(seen[topic.id].configs) != wanted:
            found.append(f"topic {topic.name}")
    brokers = Broker.objects.in_bulk()
    for row in AccessEntry.objects.filter(kind=BROKER):
        rate, broker = rates.get(int(row.key)), brokers.get(int(row.key))
        overlay = dict.fromkeys(RATES, str(rate)) if rate is not None else None
        if broker is not None and _throttles(broker.configs) != _throttles(effective(row.value or {}, overlay)):
            found.append(f"broker {row.key}")
    more = f" and {len(found) - NAMED_MAX} more" if len(found) > NAMED_MAX else ""
    return ", ".join(found[:NAMED_MAX]) + more


def check(bytes_per_s: int | None) -> None:
    """Raises Refused for a rate that nobody can have meant."""
    if bytes_per_s is not None and bytes_per_s < LEAST_BYTES_PER_S:
        raise Refused(
            f"A throttle of {bytes_per_s} bytes/s is too low; give at least {LEAST_BYTES_PER_S}, or none. To stop, pause.",
            "throttle_bytes_per_s",
        )
