"""The meaning of a topic's config overrides, for checks and pages. Invariant: defaults come from `brokerd.cluster.configs` only."""

from __future__ import annotations

from collections.abc import Mapping

from brokerd.cluster.configs import ALL_BROKERS, TOPIC_CONFIGS, TopicConfig, broker_value, controller_defaults
from brokerd.cluster.metadata import BROKER


def min_insync(configs: Mapping[str, str], defaults: Mapping[str, str]) -> int:
    """`min.insync.replicas` as configured: the topic's override, else the cluster-wide default, else Kafka's default. The value that applies to a
    partition is `effective_min_insync`, which is never larger than its replication factor."""
    name = "min.insync.replicas"
    own = {name: configs[name]} if name in configs else {}
    try:
        return TopicConfig.from_overrides(own, defaults).min_insync_replicas
    except ValueError:
        return 1


def cluster_defaults() -> dict[str, str]:
    """The cluster-wide topic defaults of the controller, as stored in the database."""
    return controller_defaults({ALL_BROKERS: (0, _dynamic_configs())})


def dynamic_topic_defaults() -> dict[str, str]:
    """Values of topic configs without an override, from the dynamic configs of all brokers. Does not contain those of one broker and of settings files."""
    given = _dynamic_configs()
    values = ((d.name, broker_value(d, given)) for d in TOPIC_CONFIGS.values())
    return {name: value for name, value in values if value is not None}


def _dynamic_configs() -> Mapping[str, str]:
    from controlplane.models import AccessEntry

    row = AccessEntry.objects.filter(kind=BROKER, key=str(ALL_BROKERS)).values_list("value", flat=True).first()
    return row or {}
