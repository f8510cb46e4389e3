"""Front topics of delayed messages: NAME.delay follows topic NAME in its partitions and some configs, and is deleted with it.

Does not contain: the rows (`topics`), the delivery (`brokerd/delivery`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from brokerd.cluster.configs import DELAY_ENABLE, DELAY_TOPIC, delay_topic_name
from controlplane.models import Topic
from controlplane.services.common import Rejected

FOLLOWED = ("max.message.bytes", "min.insync.replicas", "compression.type")
"""Configs of the topic that its front topic has too."""
READ_ONLY = f"{DELAY_TOPIC} is read-only: set {DELAY_ENABLE}=true on the topic, and its front topic is created."


@dataclass(frozen=True, slots=True)
class FrontTopic:
    name: str
    partitions: int
    configs: dict[str, str]


def wanted(row: Topic) -> FrontTopic | None:
    """The front topic that this topic requires. None: it requires none. A front topic with waiting records stays when the config is removed."""
    if row.configs.get(DELAY_ENABLE, "").lower() != "true":
        return None
    configs = {name: row.configs[name] for name in FOLLOWED if name in row.configs}
    return FrontTopic(delay_topic_name(row.name), row.partitions, {**configs, DELAY_TOPIC: row.name})


def front_of(row: Topic) -> Topic | None:
    """The row of the topic's front topic."""
    found = Topic.objects.filter(name=delay_topic_name(row.name), deleted_at__isnull=True).first()
    return found if found is not None and found.configs.get(DELAY_TOPIC) == row.name else None


def check_alteration(
    row: Topic, partitions: int | None, set_configs: Mapping[str, str], delete_configs: Sequence[str]
) -> None:
    """Raises Rejected for an alteration of a front topic that would separate it from its topic."""
    target = row.configs.get(DELAY_TOPIC)
    if set_configs.get(DELAY_TOPIC, target) != target or (target is not None and DELAY_TOPIC in delete_configs):
        raise Rejected(READ_ONLY, f"configs.{DELAY_TOPIC}")
    if target is None:
        return
    if partitions is not None and partitions != row.partitions:
        raise Rejected(
            f"{row.name!r} has as many partitions as {target!r}; add partitions to {target!r}.", "partitions"
        )
    if str(set_configs.get(DELAY_ENABLE, "")).lower() == "true":
        raise Rejected(f"{row.name!r} is a front topic; it cannot have one itself.", f"configs.{DELAY_ENABLE}")
