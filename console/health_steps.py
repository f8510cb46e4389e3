"""Pages where the next step of a failed health check is done, by check.

Invariant: a user has only links to pages that the user may open. Does not contain: the text of the step (`controlplane.domain.health`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from django.urls import reverse
from django.utils.http import urlencode

from console.address_access import may_be_shown
from console.texts import gettext_lazy
from controlplane.domain.alert_types import AlertKind
from controlplane.domain.balance_types import Goal
from controlplane.domain.health import RULE_OF, CheckName, CheckScope


@dataclass(frozen=True, slots=True)
class StepLink:
    label: str
    url: str


def _page(name: str, *args: str, **query: str) -> str:
    address = reverse(name, args=args)
    return f"{address}?{urlencode(query)}" if query else address


def _topics(_: str) -> str:
    return _page("topics", state="problems", internal="1")


Step = tuple[str, Callable[[str], str]]
"""(label, object -> address)."""

PROBLEMS: Step = (gettext_lazy("topics with problems"), _topics)
BROKER: Step = (gettext_lazy("broker"), lambda broker: _page("broker", broker))
GROUP: Step = (gettext_lazy("group"), lambda group: _page("group", group))

STEPS: dict[CheckName, Step] = {
    CheckName.CONTROLLER: (gettext_lazy("runbook"), lambda _: _page("runbook", AlertKind.NO_CONTROLLER)),
    CheckName.ZOOKEEPER: (gettext_lazy("ZooKeeper"), lambda _: _page("zookeeper")),
    CheckName.OFFLINE_PARTITIONS: PROBLEMS,
    CheckName.UNDER_MIN_ISR: PROBLEMS,
    CheckName.UNDER_REPLICATED: PROBLEMS,
    CheckName.PREFERRED_LEADERS: (gettext_lazy("leader elections"), lambda _: _page("leader-elections")),
    CheckName.DECLARED_STATE: (gettext_lazy("topics with drift"), lambda _: _page("topics", state="drift")),
    CheckName.BROKER_UP: BROKER,
    CheckName.BROKER_RESPONDS: BROKER,
    CheckName.LOG_DIRECTORIES: (gettext_lazy("log directories"), lambda broker: _page("log-directories", broker)),
    CheckName.DISK_FREE: (gettext_lazy("rebalance by disk"), lambda _: _page("rebalance", goal=Goal.DISK)),
    CheckName.DISK_SPEED: (gettext_lazy("log directories"), lambda broker: _page("log-directories", broker)),
    CheckName.LEADER_BALANCE: (gettext_lazy("leader elections"), lambda _: _page("leader-elections")),
    CheckName.REPLICA_BALANCE: (
        gettext_lazy("rebalance by replicas"),
        lambda _: _page("rebalance", goal=Goal.REPLICAS),
    ),
    CheckName.REPLICATION: (
        gettext_lazy("change the replication factor"),
        lambda topic: _page("move-new", kind="replication_factor", topic=topic),
    ),
    CheckName.FAULT_TOLERANCE: (
        gettext_lazy("edit min.insync.replicas"),
        lambda topic: _page("topic-alter", topic, config="min.insync.replicas"),
    ),
    CheckName.PARTITION_BALANCE: (
        gettext_lazy("largest partitions"),
        lambda topic: _page("topic", topic, sort="-size_bytes"),
    ),
    CheckName.GROUP_PROGRESS: GROUP,
    CheckName.GROUP_RETENTION: GROUP,
    CheckName.GROUP_LAG_KNOWN: GROUP,
}
OF_CLUSTER = frozenset(
    {
        *(check for check, rule in RULE_OF.items() if rule.scope is CheckScope.CLUSTER),
        CheckName.DISK_FREE,
        CheckName.LEADER_BALANCE,
        CheckName.REPLICA_BALANCE,
    }
)
"""Checks whose step is the same for all objects."""


def step_link(name: str, subject: str = "") -> StepLink | None:
    """The page of the step for an object of the check. `subject` "": for the whole check, which leads to the list of its failed objects if each has a page
    of its own."""
    check = CheckName(name)
    label, address = STEPS[check]
    if subject or check in OF_CLUSTER:
        url = address(subject)
    else:
        label, url = gettext_lazy("failed objects"), _page("health-check", name)
    return StepLink(label, url) if may_be_shown(url) else None
