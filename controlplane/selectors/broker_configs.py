"""The settings of a broker, read from the broker, because only the broker knows its properties file. Without a response within a second there are no
settings."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from brokerd.cluster.configs import ALL_BROKERS, FOLLOWER_RATE, LEADER_RATE
from controlplane.clients.all_brokers import BrokerAddress, BrokerResponse, call_brokers
from controlplane.clients.broker_configs import describe_broker
from controlplane.clients.connection import KafkaConnection
from controlplane.domain.access import AccessRecordKind
from controlplane.domain.broker_config import BrokerConfigRow, BrokerConfigSource, ReportedConfig, compare_configs
from controlplane.models import AccessEntry, Broker
from controlplane.selectors.paging import ListOrder, Page, PageStart, computed_page
from controlplane.selectors.visibility import visible
from weir_common.phrases import sentence


class BrokerConfigChoice(StrEnum):
    """Filter of the list of settings: all settings, settings that are not the default, settings that differ between two brokers."""

    ALL = ""
    CHANGED = "changed"
    DIFFERENT = "different"


@dataclass(frozen=True, slots=True)
class BrokerConfigs:
    """`total`: settings before the filter. `problem`: why the broker did not respond; `other_problem` likewise for the compared broker."""

    broker_id: int
    other_id: int | None
    rows: list[BrokerConfigRow]
    total: int
    changed: int
    different: int
    problem: str
    other_problem: str


def broker_configs(
    broker_id: int, *, other_id: int | None = None, query: str = "", only: str = ""
) -> BrokerConfigs | None:
    """Return None for an unknown broker."""
    brokers = visible(Broker.objects.all()).in_bulk([i for i in (broker_id, other_id) if i is not None])
    if broker_id not in brokers:
        return None
    requested = [BrokerAddress(b.broker_id, b.host, b.port) for b in brokers.values()]
    responses = {a.broker_id: a for a in _call_all(requested)}
    own_response, other_response = responses[broker_id], responses.get(other_id) if other_id is not None else None
    rows = (
        compare_configs(own_response.value or {}, other_response.value if other_response is not None else None)
        if own_response.value is not None
        else []
    )
    changed = [r for r in rows if r.source != BrokerConfigSource.DEFAULT]
    different = [r for r in rows if r.differs]
    listed = {BrokerConfigChoice.CHANGED: changed, BrokerConfigChoice.DIFFERENT: different}.get(
        BrokerConfigChoice(only), rows
    )
    other_problem = "" if other_response is None else other_response.problem
    if other_id is not None and other_response is None:
        other_problem = sentence("There is no broker {broker_id}.", broker_id=other_id)
    return BrokerConfigs(
        broker_id=broker_id,
        other_id=other_id,
        rows=[r for r in listed if query.lower() in r.name],
        total=len(rows),
        changed=len(changed),
        different=len(different),
        problem=own_response.problem,
        other_problem=other_problem,
    )


def broker_config(broker_id: int, name: str) -> BrokerConfigRow | None:
    """One setting as the broker reports it. None: there is no such setting, or the broker does not respond."""
    found = broker_configs(broker_id, query=name)
    return next((r for r in found.rows if r.name == name), None) if found is not None else None


@dataclass(frozen=True, slots=True)
class BrokerConfigPage(Page[BrokerConfigRow]):
    """`total`: settings after the filter, `settings`: before it. `problem`: why the broker did not respond; `other_problem` likewise for the compared
    broker."""

    broker_id: int
    other_id: int | None
    rows: list[BrokerConfigRow]
    settings: int
    changed: int
    different: int
    problem: str
    other_problem: str


CONFIG_ORDER = ListOrder(unique=("name",), others=("source", "value"))


def broker_config_page(
    broker_id: int,
    *,
    other_id: int | None = None,
    query: str = "",
    only: str = "",
    sort: str = "",
    page: PageStart,
    per_page: int,
) -> BrokerConfigPage | None:
    """Return None for an unknown broker."""
    configs = broker_configs(broker_id, other_id=other_id, query=query, only=only)
    if configs is None:
        return None
    shown_page = computed_page(configs.rows, CONFIG_ORDER, sort=sort, page=page, per_page=per_page)
    return BrokerConfigPage(
        rows=shown_page.rows,
        total=shown_page.total,
        window=shown_page.window,
        sort=shown_page.sort,
        query=query,
        broker_id=broker_id,
        other_id=other_id,
        settings=configs.total,
        changed=configs.changed,
        different=configs.different,
        problem=configs.problem,
        other_problem=configs.other_problem,
    )


def desired_configs() -> dict[int, dict[str, str]]:
    """The dynamic settings of each known broker, and of ALL_BROKERS, as desired, without the throttles of moves. Reads the database only."""
    entries = {e.key: e for e in AccessEntry.objects.filter(kind=AccessRecordKind.BROKER)}
    logged = {ALL_BROKERS: ({}, 0), **{b.broker_id: (b.configs, b.config_generation) for b in Broker.objects.all()}}
    found: dict[int, dict[str, str]] = {}
    for broker_id, (configs, generation) in sorted(logged.items()):
        entry = entries.get(str(broker_id))
        if entry is not None and entry.generation >= generation:
            configs = entry.value or {}
        found[broker_id] = {n: v for n, v in configs.items() if n not in (LEADER_RATE, FOLLOWER_RATE)}
    return found


def _call_all(brokers: list[BrokerAddress]) -> list[BrokerResponse[dict[str, ReportedConfig]]]:
    ids = {(b.host, b.port): b.broker_id for b in brokers}

    def call(connection: KafkaConnection) -> dict[str, ReportedConfig]:
        return describe_broker(connection, ids[connection.host, connection.port])

    return call_brokers(brokers, call)
