"""Kafka Connect: states of connectors and tasks, and their configs without secrets. Pure.

Invariants: a hidden config has no password, token or key, neither as a value nor inside an address. A hidden value that is returned unchanged is replaced by
the stored one, so that an operator edits a config without seeing its secrets. Does not contain: requests to workers (`controlplane.clients.connect`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

MASK = "********"
"""Text that replaces a secret in pages and responses."""

SECRET_CHARS_MIN = 4
"""Minimum length of a secret that is searched in other texts. A shorter secret would hide parts of ordinary words."""

GROUP_CONFIG = "consumer.override.group.id"


class ConnectorState(StrEnum):
    """States of connectors and of tasks, as workers name them. UNKNOWN: the worker reports none, for example right after the creation."""

    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"
    FAILED = "FAILED"
    UNASSIGNED = "UNASSIGNED"
    RESTARTING = "RESTARTING"
    DESTROYED = "DESTROYED"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class ConnectorFailure:
    """A connector that needs a restart. `has_failed`: the connector itself. `tasks`: the number of its tasks, `failed_tasks`: the ids of the failed ones."""

    name: str
    has_failed: bool
    tasks: int
    failed_tasks: list[int]


class ConfigType(StrEnum):
    """Kafka Connect's types of configs, as far as Weir distinguishes them."""

    BOOLEAN = "BOOLEAN"
    PASSWORD = "PASSWORD"


class ConfigImportance(StrEnum):
    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class ConnectorType(StrEnum):
    SOURCE = "source"
    SINK = "sink"
    UNKNOWN = "unknown"


ATTENTION = (
    ConnectorState.FAILED,
    ConnectorState.UNASSIGNED,
    ConnectorState.RESTARTING,
    ConnectorState.UNKNOWN,
    ConnectorState.DESTROYED,
    ConnectorState.STOPPED,
    ConnectorState.PAUSED,
    ConnectorState.RUNNING,
)
"""States in the order in which an operator should check them."""

SECRET_NAME = re.compile(
    r"passw(or)?d|passphrase|\bpwd\b|secret|token|credential|sasl\.jaas\.config|authorization"
    r"|(private|api|access|account|storage|encryption|sas|ssl|keystore)[._-]?key",
    re.IGNORECASE,
)
"""Names of configs with secrets. In addition, configs of the type PASSWORD in a plugin's definition are secrets."""

REFERENCE = re.compile(r"(\$\{[^${}:]+:[^{}]*\})+")
"""References to a config provider are no secrets: the worker replaces them."""

LOGIN_IN_ADDRESS = re.compile(r"(://[^\s/@:]*:)([^\s@/]+)(?=@)")
SECRET_IN_TEXT = re.compile(
    r"((?:^|[?&;,\s])[\w.-]*(?:passw(?:or)?d|passphrase|pwd|secret|token|credential|api[._-]?key|access[._-]?key)[\w.-]*\s*=\s*)"
    r"(\"[^\"]*\"|'[^']*'|[^&;,\s]+)",
    re.IGNORECASE,
)
"""Parameters of addresses and of property lists inside a value."""


def type_of(text: object) -> ConnectorType:
    return ConnectorType(str(text)) if text in tuple(ConnectorType) else ConnectorType.UNKNOWN


def state_of(text: object) -> ConnectorState:
    return ConnectorState(str(text)) if text in tuple(ConnectorState) else ConnectorState.UNKNOWN


def group_of(name: str, config: Mapping[str, str]) -> str:
    """The consumer group of a sink connector."""
    return config.get(GROUP_CONFIG) or f"connect-{name}"


def is_secret(name: str, secret_names: Collection[str] = ()) -> bool:
    """`secret_names`: configs that the plugin declares as passwords."""
    return name in secret_names or SECRET_NAME.search(name) is not None


def hidden_value(name: str, value: str, secret_names: Collection[str] = ()) -> str:
    if not value or REFERENCE.fullmatch(value):
        return value
    if is_secret(name, secret_names):
        return MASK
    return SECRET_IN_TEXT.sub(rf"\g<1>{MASK}", LOGIN_IN_ADDRESS.sub(rf"\g<1>{MASK}", value))


def hide_secrets(config: Mapping[str, str], secret_names: Collection[str] = ()) -> dict[str, str]:
    """The config for display, sorted by name."""
    return {name: hidden_value(name, config[name], secret_names) for name in sorted(config)}


def restore_secrets(
    edited: Mapping[str, str], stored: Mapping[str, str], secret_names: Collection[str] = ()
) -> tuple[dict[str, str], list[str]]:
    """(config with the stored secrets, names of configs whose hidden value is not the one that was shown)."""
    found, unknown = {}, []
    for name, value in edited.items():
        found[name] = value
        if MASK not in value:
            continue
        if name in stored and hidden_value(name, stored[name], secret_names) == value:
            found[name] = stored[name]
        else:
            unknown.append(name)
    return found, unknown


def without_secrets(text: str, config: Mapping[str, str], secret_names: Collection[str] = ()) -> str:
    """A text of a worker, for example the trace of a task, without the secrets of this config. A text without secrets keeps its phrase."""
    found = [secret for secret in _secrets(config, secret_names) if secret in text]
    for secret in sorted(found, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


def _secrets(config: Mapping[str, str], secret_names: Collection[str]) -> set[str]:
    found: set[str] = set()
    for name, value in config.items():
        if REFERENCE.fullmatch(value):
            continue
        if is_secret(name, secret_names):
            found.add(value)
        found.update(m[2].strip("\"'") for p in (LOGIN_IN_ADDRESS, SECRET_IN_TEXT) for m in p.finditer(value))
    return {s for s in found if len(s) >= SECRET_CHARS_MIN}
