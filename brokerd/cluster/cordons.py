"""Cordoned and demoted brokers: two broker settings that the controller applies. Pure functions.

A cordoned broker gets no new replicas and keeps its replicas. A demoted broker gives up leadership of each partition that has another
in-sync replica, and keeps the others. Both settings are in the metadata log (`BrokerConfigChanged`), so they survive restarts.
"""

from __future__ import annotations

from collections.abc import Mapping

CORDONED = "cordoned.log.dirs"
"""Kafka's name (KIP-1066). Only `*` (all log directories) and empty are supported."""
LEADERSHIP = "leader.eligible"
"""Setting of a demoted broker. If it is false, the broker leads only partitions without another candidate. Kafka has no such setting."""
SET_ASIDE = (CORDONED, LEADERSHIP)
ALL_DIRECTORIES = "*"


def is_cordoned(configs: Mapping[str, str]) -> bool:
    """Return whether the settings forbid new replicas on the broker."""
    return configs.get(CORDONED) == ALL_DIRECTORIES


def leadership_disabled(configs: Mapping[str, str]) -> bool:
    """Return whether the settings demote the broker."""
    return configs.get(LEADERSHIP) == "false"
