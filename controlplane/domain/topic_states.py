"""States of topics and of their configs, as lists, pages and REST show them. Values only."""

from __future__ import annotations

from enum import StrEnum


class TopicRowState(StrEnum):
    """`DRIFT`: the cluster has a topic that the database does not have, or an older or a newer version of it."""

    ACTIVE = "active"
    CREATING = "creating"
    CHANGING = "changing"
    DELETING = "deleting"
    DRIFT = "drift"


UNAPPLIED = (TopicRowState.CREATING, TopicRowState.CHANGING, TopicRowState.DELETING)
"""The controller has an order to carry out."""


class TopicHealth(StrEnum):
    """The worst condition of a topic's partitions."""

    HEALTHY = "healthy"
    UNDER_REPLICATED = "under_replicated"
    UNDER_MIN_ISR = "under_min_isr"
    OFFLINE = "offline"


class TopicSubset(StrEnum):
    """The topics that a list is limited to. `PROBLEMS`: with partitions that are offline or have missing replicas."""

    PROBLEMS = "problems"
    MOVING = "moving"
    DRIFT = "drift"


class DriftKind(StrEnum):
    """Drift of a topic. `NO_ROW`: it is only in the cluster. `BEHIND`: its row is older than the metadata log. `MISSING`: its row was applied, but the
    cluster does not have the topic. The cluster's state of the first two can be adopted."""

    NO_ROW = "no_row"
    BEHIND = "behind"
    MISSING = "missing"


class ConfigSource(StrEnum):
    """Origin of the value of a topic config. `MOVE`: a move has set it for the time of its throttle. `CLUSTER`: the dynamic configs of all brokers."""

    TOPIC = "topic"
    MOVE = "move"
    CLUSTER = "cluster"
    DEFAULT = "default"
