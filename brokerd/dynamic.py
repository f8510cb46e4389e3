"""The broker's settings that change while it runs: cluster-wide or for one broker, carried by the metadata log (KIP-226).

Laws: one broker's own word beats the cluster's, and that its file's; a value that cannot be used is refused before it is written, and passed over, with a word in the
log, where it was written by somebody who could. Called by `config` (what is in force) and `apis/configs` (what may be asked). Must not come in: who asks.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from brokerd.cluster.configs import (
    BROKER_SYNONYMS,
    LIST,
    TOPIC_CONFIGS,
    contradiction,
    topic_config_problem,
)
from brokerd.cluster.cordons import SET_ASIDE
from brokerd.setting import Setting

log = logging.getLogger(__name__)

CLUSTER_WIDE = -1
"""The broker id under which the metadata log keeps what holds for all of them; Kafka's empty name."""
TEXT_CHARACTERS_MAX = 24 * 1024
"""Of all settings of one broker: they stand in one record of the metadata log."""
BY_THE_CONTROLLER = ("min.insync.replicas", "unclean.leader.election.enable")
"""The controller elects by them, from topics' own settings alone: a default that only brokers knew would part the two."""
FIXED = {
    "broker.id": "it is who the broker is",
    "log.dirs": "the folders are locked and read at the start",
    "zookeeper.connect": "it is where the cluster is",
    "listeners": "the sockets are taken at the start",
    "advertised.listeners": "it stands in the broker's registration",
    "broker.rack": "it stands in the broker's registration",
    "failure.domain": "it stands in the broker's registration",
    "transaction.version": "it is a feature: `kafka-features upgrade --feature transaction.version=2`",
}
"""Why some settings want a restart; of the others the parts are built with them, and of security only the file decides."""
ONE_BROKERS = ("ssl.keystore.location", "ssl.truststore.location")
"""Never of all together, as in Kafka: each broker has files of its own."""


def topic_default(name: str) -> str | None:
    """The topic setting whose default this broker setting is, under its finest unit alone (`log.retention.ms`, not `.hours`)."""
    topic = BROKER_SYNONYMS.get(name)
    return topic if topic is not None and TOPIC_CONFIGS[topic].broker_synonym == name else None


def problem(settings: Mapping[str, Setting], name: str, value: str, broker_id: int) -> str | None:
    """Why `name=value` cannot be set for this broker (CLUSTER_WIDE: for all) while it runs, or None. The text goes to the client."""
    topic = topic_default(name)
    if name in BY_THE_CONTROLLER:
        return f"{name} can be set on topics only: the controller elects by it"
    if topic is not None:
        if broker_id != CLUSTER_WIDE:
            return f"{name} is a default for topics: set it for all brokers (the empty name), or on a topic"
        return topic_config_problem(topic, value)
    setting = settings.get(name)
    if setting is None and name in BROKER_SYNONYMS:
        return (
            f"{name} can be changed under its finest unit only: {TOPIC_CONFIGS[BROKER_SYNONYMS[name]].broker_synonym}"
        )
    if setting is None:
        return f"Unknown broker config name: {name}"
    if not setting.live:
        return (
            f"Cannot update {name} while the broker runs: {FIXED.get(name, 'set it in the broker’s file and restart')}"
        )
    if name in ONE_BROKERS and broker_id == CLUSTER_WIDE:
        return f"{name} can be set for one broker only: each has files of its own"
    if name in SET_ASIDE and broker_id == CLUSTER_WIDE:
        return f"{name} is of one broker: set for all, no broker would be left"
    try:
        setting.read(value)
    except ValueError as e:
        return f"Invalid value {value} for configuration {name}: {e}"
    return None


def altered(
    settings: Mapping[str, Setting], before: Mapping[str, str], operations: Iterable[Mapping[str, Any]], broker_id: int
) -> tuple[dict[str, str], str | None]:
    """What is set after incremental operations, or why they cannot be done."""
    out = dict(before)
    for op in operations:
        name, value, kind = op["name"], op.get("value"), op["op"]
        if kind == "delete":
            out.pop(name, None)
            continue
        if kind in ("append", "subtract"):
            topic = topic_default(name)
            if topic is None or TOPIC_CONFIGS[topic].kafka_type != LIST:
                return out, f"{name} is not a list; append and subtract do not apply"
            items = [v for v in out.get(name, TOPIC_CONFIGS[topic].default_text).split(",") if v]
            given = [v for v in (value or "").split(",") if v]
            more = [*items, *(v for v in given if v not in items)]
            value = ",".join(more if kind == "append" else [v for v in items if v not in given])
        elif kind != "set":
            return out, f"unknown operation on {name}"
        if value is None:
            return out, f"{name} needs a value"
        told = problem(settings, name, value, broker_id)
        if told is not None:
            return out, told
        out[name] = value
    if sum(len(k) + len(v) for k, v in out.items()) > TEXT_CHARACTERS_MAX:
        return out, f"all settings together may have {TEXT_CHARACTERS_MAX} characters"
    return out, contradiction({t: v for k, v in out.items() if (t := topic_default(k)) is not None})


@dataclass(slots=True)
class Live:
    """What the metadata log says of this broker's settings. `values` are read, `topic_defaults` are texts, both over the file's."""

    cluster: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[str, str] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    topic_defaults: dict[str, str] = field(default_factory=dict)

    def follow(
        self, settings: Mapping[str, Setting], cluster: Mapping[str, str], own: Mapping[str, str], broker_id: int
    ) -> set[str]:
        """Take over what the log says. The names whose value is another one now."""
        values: dict[str, Any] = {}
        defaults: dict[str, str] = {}
        for given, whose in ((cluster, CLUSTER_WIDE), (own, broker_id)):
            for name, text in given.items():
                told = problem(settings, name, text, whose)
                if told is not None:
                    shown = text if name in settings and not settings[name].secret else "..."
                    log.error("%s=%s in the metadata log is passed over: %s", name, shown, told)
                elif topic_default(name) is not None:
                    defaults[name] = text
                else:
                    values[name] = settings[name].read(text)
        changed = _differing(self.values, values) | _differing(self.topic_defaults, defaults)
        self.cluster, self.own, self.values, self.topic_defaults = dict(cluster), dict(own), values, defaults
        return changed


def _differing(before: Mapping[str, Any], after: Mapping[str, Any]) -> set[str]:
    return {name for name in {*before, *after} if before.get(name) != after.get(name)}
