"""Dynamic broker settings (KIP-226): cluster-wide or for one broker, stored in the metadata log.

Precedence: the broker's own setting, the cluster-wide setting, the broker's file. An invalid value is rejected before it is written.
An invalid value that is already in the metadata log is ignored, with a log line. Does not contain authorization.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from brokerd.cluster.configs import (
    ALL_BROKERS,
    BROKER_SYNONYMS,
    LIST,
    TOPIC_CONFIGS,
    contradiction,
    topic_config_problem,
)
from brokerd.cluster.cordons import SET_ASIDE
from brokerd.cluster.requests import AlterConfigOp, OpType
from brokerd.config.types import Setting

log = logging.getLogger(__name__)

CLUSTER_WIDE = ALL_BROKERS
TEXT_CHARACTERS_MAX = 24 * 1024
"""Maximum length of all dynamic settings of one broker. They are stored in one record of the metadata log."""
BY_THE_CONTROLLER = ("unclean.leader.election.enable",)
"""The controller decides by these settings and reads them from topic settings only. A broker default would apply to brokers but not to the controller."""
FIXED = {
    "broker.id": "it identifies the broker",
    "log.dirs": "the directories are locked and read at startup",
    "zookeeper.connect": "it identifies the cluster",
    "listeners": "the sockets are bound at startup",
    "weir.metrics.listener": "the socket is bound at startup",
    "advertised.listeners": "it is part of the broker registration",
    "broker.rack": "it is part of the broker registration",
    "failure.domain": "it is part of the broker registration",
    "transaction.version": "it is a feature: `kafka-features upgrade --feature transaction.version=2`",
}
"""The reason why some settings need a restart. Other read-only settings configure objects at startup; security settings are read only from the file."""
ONE_BROKERS = ("ssl.keystore.location", "ssl.truststore.location")
"""Settings that are never cluster-wide, as in Kafka: each broker has its own files."""


def topic_default(name: str) -> str | None:
    """The topic setting for which this broker setting is the default. Finest unit only: `log.retention.ms`, not `log.retention.hours`."""
    topic = BROKER_SYNONYMS.get(name)
    return topic if topic is not None and TOPIC_CONFIGS[topic].broker_synonym == name else None


def problem(settings: Mapping[str, Setting], name: str, value: str, broker_id: int) -> str | None:
    """Return the reason why the dynamic setting `name=value` is not possible for this broker (CLUSTER_WIDE: for all), or None. The client receives the text."""
    topic = topic_default(name)
    if name in BY_THE_CONTROLLER:
        return f"{name} can be set on topics only: the controller does not read broker defaults"
    if topic is not None:
        if broker_id != CLUSTER_WIDE:
            return f"{name} is a default for topics: set it cluster-wide (empty broker name) or on a topic"
        return topic_config_problem(topic, value)
    setting = settings.get(name)
    if setting is None and name in BROKER_SYNONYMS:
        return f"{name} cannot be changed dynamically: set {TOPIC_CONFIGS[BROKER_SYNONYMS[name]].broker_synonym}"
    if setting is None:
        return f"Unknown broker config name: {name}"
    if not setting.live:
        return f"Cannot update {name} while the broker runs: {FIXED.get(name, 'change the settings file and restart the broker')}"
    if name in ONE_BROKERS and broker_id == CLUSTER_WIDE:
        return f"{name} cannot be set cluster-wide: each broker has its own files"
    if name in SET_ASIDE and broker_id == CLUSTER_WIDE:
        return f"{name} cannot be set cluster-wide: no broker would remain"
    try:
        setting.read(value)
    except ValueError as e:
        return f"Invalid value {value} for configuration {name}: {e}"
    return None


def apply_operations(
    settings: Mapping[str, Setting], before: Mapping[str, str], operations: Iterable[AlterConfigOp], broker_id: int
) -> tuple[dict[str, str], str | None]:
    """The settings after incremental operations (KIP-339), and why the operations are not possible or None."""
    settings_after = dict(before)
    for op in operations:
        name, value, kind = op.name, op.value, op.op
        if kind is OpType.DELETE:
            settings_after.pop(name, None)
            continue
        if kind in (OpType.APPEND, OpType.SUBTRACT):
            topic = topic_default(name)
            if topic is None or TOPIC_CONFIGS[topic].kafka_type != LIST:
                return settings_after, f"{name} is not a list: append and subtract are not possible"
            items = [v for v in settings_after.get(name, TOPIC_CONFIGS[topic].default_text).split(",") if v]
            operands = [v for v in (value or "").split(",") if v]
            appended = [*items, *(v for v in operands if v not in items)]
            value = ",".join(appended if kind is OpType.APPEND else [v for v in items if v not in operands])
        elif kind is not OpType.SET:
            return settings_after, f"unknown operation on {name}: expected set, delete, append or subtract"
        if value is None:
            return settings_after, f"{name} requires a value"
        rejected = problem(settings, name, value, broker_id)
        if rejected is not None:
            return settings_after, rejected
        settings_after[name] = value
    if sum(len(k) + len(v) for k, v in settings_after.items()) > TEXT_CHARACTERS_MAX:
        return settings_after, f"dynamic settings are longer than {TEXT_CHARACTERS_MAX} characters in total"
    return settings_after, contradiction(
        {t: v for k, v in settings_after.items() if (t := topic_default(k)) is not None}
    )


@dataclass(slots=True)
class Live:
    """Dynamic settings of this broker from the metadata log. `values` are parsed, `topic_defaults` are texts. Both override the file."""

    cluster: Mapping[str, str] = field(default_factory=dict)
    of_broker: Mapping[str, str] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    topic_defaults: dict[str, str] = field(default_factory=dict)

    def follow(
        self,
        settings: Mapping[str, Setting],
        cluster: Mapping[str, str],
        broker_values: Mapping[str, str],
        broker_id: int,
    ) -> set[str]:
        """Apply the settings of the metadata log. Returns the names of the settings whose value changed."""
        values: dict[str, object] = {}
        defaults: dict[str, str] = {}
        for given, scope in ((cluster, CLUSTER_WIDE), (broker_values, broker_id)):
            for name, text in given.items():
                invalid = problem(settings, name, text, scope)
                if invalid is not None:
                    shown = text if name in settings and not settings[name].secret else "..."
                    log.error("dynamic setting ignored: name=%s value=%s reason=%s", name, shown, invalid)
                elif topic_default(name) is not None:
                    defaults[name] = text
                else:
                    values[name] = settings[name].read(text)
        changed = _differing(self.values, values) | _differing(self.topic_defaults, defaults)
        self.cluster, self.of_broker, self.values, self.topic_defaults = (
            dict(cluster),
            dict(broker_values),
            values,
            defaults,
        )
        return changed


def _differing(before: Mapping[str, object], after: Mapping[str, object]) -> set[str]:
    return {name for name in {*before, *after} if before.get(name) != after.get(name)}
