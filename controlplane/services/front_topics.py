"""Front topics of delayed and half messages, and topics for retries, have the same partitions and some of the same configs as their topic, and are
deleted with it.

NAME.delay has the delayed messages of topic NAME. NAME.half has its half messages; NAME.half.check and NAME.half.expired belong to that. NAME.retry and
NAME.dead have records that consumers could not process; NAME.retry has delayed messages itself, in NAME.retry.delay.
Does not contain: the rows (`topics`), the delivery (`brokerd/delivery`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from brokerd.cluster.configs import (
    DELAY_ENABLE,
    DELAY_TOPIC,
    HALF_ENABLE,
    HALF_SOURCE,
    HALF_TOPIC,
    RETRY_ENABLE,
    RETRY_SOURCE,
    check_topic_name,
    dead_topic_name,
    delay_topic_name,
    expired_topic_name,
    half_topic_name,
    retry_topic_name,
)
from controlplane.models import Topic
from controlplane.services.common import Rejected
from weir_common.phrases import sentence

FOLLOWED = ("max.message.bytes", "min.insync.replicas", "compression.type")
"""Configs of the topic that its front topics have too."""
DELAY_SEGMENT_BYTES = 16 * 1024 * 1024
"""Segment size of NAME.delay. A new leader reads the active segment record by record, and a closed one from its index."""
CHECK_RETENTION_MS = 3_600_000
"""Retention of NAME.half.check: a check that was not answered after eight minutes is of no use."""
ENABLED_BY = {DELAY_TOPIC: DELAY_ENABLE, HALF_TOPIC: HALF_ENABLE, HALF_SOURCE: HALF_ENABLE, RETRY_SOURCE: RETRY_ENABLE}
"""{read-only config that names the topic: config of that topic that creates the front topic}"""


@dataclass(frozen=True, slots=True)
class FrontTopic:
    """`marker`: the config that names the topic it belongs to. `initial`: configs that operators may change later."""

    name: str
    marker: str
    partitions: int
    configs: dict[str, str]
    initial: dict[str, str] = field(default_factory=dict)


def _names(name: str) -> list[tuple[str, str, dict[str, str]]]:
    """(name, marker, initial configs) of every front topic that a topic can have."""
    half = half_topic_name(name)
    return [
        (delay_topic_name(name), DELAY_TOPIC, {"segment.bytes": str(DELAY_SEGMENT_BYTES)}),
        (half, HALF_TOPIC, {}),
        (check_topic_name(half), HALF_SOURCE, {"retention.ms": str(CHECK_RETENTION_MS)}),
        (expired_topic_name(half), HALF_SOURCE, {}),
        (retry_topic_name(name), RETRY_SOURCE, {DELAY_ENABLE: "true"}),
        (dead_topic_name(name), RETRY_SOURCE, {}),
    ]


def desired_front_topics(row: Topic) -> list[FrontTopic]:
    """The front topics that this topic requires. A front topic with waiting records stays when the config is removed."""
    followed = {name: row.configs[name] for name in FOLLOWED if name in row.configs}
    return [
        FrontTopic(name, marker, row.partitions, {**followed, marker: row.name}, initial)
        for name, marker, initial in _names(row.name)
        if row.configs.get(ENABLED_BY[marker], "").lower() == "true"
    ]


def fronts_of(row: Topic) -> list[Topic]:
    """The rows of the topic's front topics."""
    markers = {name: marker for name, marker, _ in _names(row.name)}
    found = Topic.objects.filter(name__in=markers, deleted_at__isnull=True).order_by("name")
    return [front for front in found if front.configs.get(markers[front.name]) == row.name]


def check_creation(configs: Mapping[str, str]) -> None:
    """Raises Rejected for configs that only front topics have."""
    for marker in ENABLED_BY:
        if marker in configs:
            raise Rejected(_read_only(marker), f"configs.{marker}")


def check_alteration(
    row: Topic, partitions: int | None, set_configs: Mapping[str, str], delete_configs: Sequence[str]
) -> None:
    """Raises Rejected for an alteration of a front topic that would separate it from its topic."""
    for marker in ENABLED_BY:
        target = row.configs.get(marker)
        if set_configs.get(marker, target) != target or (target is not None and marker in delete_configs):
            raise Rejected(_read_only(marker), f"configs.{marker}")
        if target is None:
            continue
        if partitions is not None and partitions != row.partitions:
            raise Rejected(
                sentence(
                    "{name} has as many partitions as {target}; add partitions to {target}.",
                    name=repr(row.name),
                    target=repr(target),
                ),
                "partitions",
            )
        for enable in (DELAY_ENABLE, HALF_ENABLE, RETRY_ENABLE):
            desired = str(set_configs.get(enable, "")).lower()
            if desired == "true" and row.configs.get(enable) != "true":
                raise Rejected(
                    sentence("{name} is a front topic; it cannot have one itself.", name=repr(row.name)),
                    f"configs.{enable}",
                )


def _read_only(marker: str) -> str:
    return sentence(
        "{marker} is read-only: set {config}=true on the topic, and its front topic is created.",
        marker=marker,
        config=ENABLED_BY[marker],
    )
