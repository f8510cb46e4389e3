"""Broker settings as brokers report them: sources, units, and the difference between two brokers. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from brokerd.cluster.cordons import CORDONED, LEADERSHIP


class BrokerConfigSource(StrEnum):
    """Source of a value, the strongest first."""

    DYNAMIC_BROKER = "dynamic_broker"
    DYNAMIC_CLUSTER = "dynamic_cluster"
    FILE = "file"
    DEFAULT = "default"
    UNKNOWN = "unknown"


class BrokerConfigUnit(StrEnum):
    MILLISECONDS = "ms"
    SECONDS = "s"
    MINUTES = "min"
    HOURS = "h"
    BYTES = "bytes"
    BYTES_PER_S = "bytes/s"
    NONE = ""


OTHER_ACTIONS = {
    CORDONED: "Use Cordon or Uncordon on the page of the broker.",
    LEADERSHIP: "Use Demote or Restore leadership on the page of the broker.",
}
"""Dynamic settings that have their own action in the console, with the name of the action."""
_UNITS = (
    (".ms", BrokerConfigUnit.MILLISECONDS),
    (".seconds", BrokerConfigUnit.SECONDS),
    (".minutes", BrokerConfigUnit.MINUTES),
    (".hours", BrokerConfigUnit.HOURS),
    (".bytes", BrokerConfigUnit.BYTES),
    ("throttled.rate", BrokerConfigUnit.BYTES_PER_S),
)


@dataclass(frozen=True, slots=True)
class ReportedConfig:
    """One setting of one broker. `value` None: sensitive, or not set. `default` None: there is none."""

    name: str
    value: str | None
    source: BrokerConfigSource
    default: str | None
    read_only: bool
    sensitive: bool
    doc: str


@dataclass(frozen=True, slots=True)
class BrokerConfigRow:
    """One setting of a broker, and of a second broker if two are compared. `value` is null if the setting is not set or is `sensitive`: then the value is never
    shown. `differs`: the other broker has another value, or a sensitive one from another source."""

    name: str
    value: str | None
    source: str
    default: str | None
    unit: str
    editable: bool
    sensitive: bool
    doc: str
    other_value: str | None
    other_source: str | None
    differs: bool


def unit_of(name: str) -> BrokerConfigUnit:
    return next((unit for ending, unit in _UNITS if name.endswith(ending)), BrokerConfigUnit.NONE)


def compare_configs(
    configs: Mapping[str, ReportedConfig], other: Mapping[str, ReportedConfig] | None
) -> list[BrokerConfigRow]:
    """The settings of a broker by name, with the settings of the second broker. A setting that only one of them has counts as different."""
    rows = []
    for name in sorted({*configs, *(other or {})}):
        here, there = configs.get(name), None if other is None else other.get(name)
        known = here or there
        assert known is not None
        rows.append(
            BrokerConfigRow(
                name=name,
                value=here.value if here is not None else None,
                source=here.source if here is not None else BrokerConfigSource.UNKNOWN,
                default=None if known.sensitive else known.default,
                unit=unit_of(name),
                editable=here is not None and not here.read_only,
                sensitive=known.sensitive,
                doc=known.doc,
                other_value=there.value if there is not None else None,
                other_source=there.source if there is not None else None,
                differs=other is not None and _differ(here, there),
            )
        )
    return rows


def _differ(here: ReportedConfig | None, there: ReportedConfig | None) -> bool:
    if here is None or there is None:
        return True
    return here.source != there.source if here.sensitive else here.value != there.value
