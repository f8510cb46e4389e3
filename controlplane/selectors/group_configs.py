"""The configs of a group, as one of the alive brokers reports them: it knows the values of the group and its own defaults. Without a response within a second
there are no configs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from brokerd.cluster.metadata import GROUP
from controlplane.clients.all_brokers import call_brokers
from controlplane.clients.group_configs import describe_group
from controlplane.domain.group_config import GroupConfigKind, GroupConfigRow
from controlplane.models import AccessEntry
from controlplane.selectors.transactions import living_brokers


class GroupConfigChoice(StrEnum):
    """Filter of the list of configs: all, those of one kind of group, those for which the group has a value of its own."""

    ALL = ""
    CONSUMER = GroupConfigKind.CONSUMER
    SHARE = GroupConfigKind.SHARE
    STREAMS = GroupConfigKind.STREAMS
    OWN = "own"

    @property
    def is_consumer(self) -> bool:
        """True if the page of the group is that of consumer groups and streams groups."""
        return self in (GroupConfigChoice.CONSUMER, GroupConfigChoice.STREAMS)

    @property
    def is_share(self) -> bool:
        return self is GroupConfigChoice.SHARE


@dataclass(frozen=True, slots=True)
class GroupConfigList:
    """`problem`: why no broker answered; `configs` is empty then. `own`: number of configs with a value of the group."""

    group_id: str
    configs: list[GroupConfigRow]
    own: int
    problem: str


def group_configs(group_id: str) -> GroupConfigList:
    """The configs of a group, which need not exist."""
    responses = call_brokers(living_brokers().values(), lambda connection: describe_group(connection, group_id))
    rows = next((a.value for a in responses if a.value is not None), None)
    problem = "" if rows is not None else "; ".join(f"{a.broker_id}: {a.problem}" for a in responses)
    found = rows or []
    return GroupConfigList(group_id, found, sum(r.own for r in found), problem)


def filter_configs(configs: list[GroupConfigRow], only: GroupConfigChoice, query: str = "") -> list[GroupConfigRow]:
    listed = [r for r in configs if query.lower() in r.name]
    if only is GroupConfigChoice.OWN:
        return [r for r in listed if r.own]
    return [r for r in listed if not only or r.kind.value == only.value]


def desired_group_configs(group_id: str) -> dict[str, str]:
    """The values of the group as desired. Reads the database only."""
    row = AccessEntry.objects.filter(kind=GROUP, key=group_id).first()
    return {name: str(value) for name, value in ((row.value if row is not None else None) or {}).items()}
