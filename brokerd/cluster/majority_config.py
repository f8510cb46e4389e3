"""The topic config of majority acknowledgements and what it needs (decision 102). Pure. Does not contain: the config's definition (`configs`)."""

from __future__ import annotations

from collections.abc import Mapping

MAJORITY_ACKS = "weir.majority.acks.enable"
MAJORITY_REPLICAS_MIN = 3
"""With two replicas a majority is both of them, so that neither may fail."""


def has_majority_acks(configs: Mapping[str, str]) -> bool:
    return configs.get(MAJORITY_ACKS, "false").lower() == "true"


def majority_contradiction(configs: Mapping[str, str]) -> str | None:
    """Return the reason why valid configs of a topic contradict majority acknowledgements, or None."""
    if has_majority_acks(configs) and configs.get("remote.storage.enable", "false").lower() == "true":
        return f"{MAJORITY_ACKS}=true and remote.storage.enable=true cannot be combined"
    return None


def majority_transition_problem(before: Mapping[str, str], after: Mapping[str, str]) -> str | None:
    """Return the reason why the configs of a topic may not change from `before` to `after`, or None."""
    if has_majority_acks(before) != has_majority_acks(after):
        return f"{MAJORITY_ACKS} can be set only when the topic is created; create another topic and copy the records"
    return None


def replication_problem(configs: Mapping[str, str], replication_factor: int) -> str | None:
    """Return the reason why a topic with these configs cannot have this replication factor, or None."""
    if has_majority_acks(configs) and replication_factor < MAJORITY_REPLICAS_MIN:
        return f"{MAJORITY_ACKS}=true needs a replication factor of {MAJORITY_REPLICAS_MIN} or more, not {replication_factor}"
    return None
