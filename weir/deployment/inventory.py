"""The machines of a production cluster and their roles, from the tables of `cluster.toml` (deploy/cluster.toml is the example).

Invariants: an Inventory is consistent: ids and addresses are unique, the number of ZooKeeper servers is odd, and each role that only one machine may
have is on one machine. All problems are reported together. Does not contain: files of machines (`files`), reading and writing (`command`).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

ID_MAX = 255
"""The largest server number of ZooKeeper. The ids of the machines are used as server numbers."""
PLACEHOLDER = "CHANGE-ME"
"""Text in place of each secret in the example."""


class MachineRole(StrEnum):
    """The services of a machine. The order is the order of starting."""

    POSTGRESQL = "postgresql"
    REDIS = "redis"
    ZOOKEEPER = "zookeeper"
    CONTROLLER = "controller"
    BROKER = "broker"
    WORKER = "worker"
    SPARK_WORKER = "spark-worker"
    MONITOR = "monitor"
    WEB = "web"


CONTROL_PLANE = frozenset(
    {MachineRole.CONTROLLER, MachineRole.WORKER, MachineRole.SPARK_WORKER, MachineRole.MONITOR, MachineRole.WEB}
)
"""Roles that read /etc/weir/weir.env."""
AT_LEAST_ONE = (
    MachineRole.ZOOKEEPER,
    MachineRole.BROKER,
    MachineRole.CONTROLLER,
    MachineRole.WORKER,
    MachineRole.WEB,
    MachineRole.MONITOR,
)
AT_MOST_ONE = (MachineRole.POSTGRESQL, MachineRole.REDIS)
"""Roles of at most one machine of the inventory. The servers may also run on machines outside of the inventory."""
SHARED_LAKE = ("WEIR_LAKE_DIR", "WEIR_LAKE_WAREHOUSE")
"""Settings that say where the lake is. Without them it is a folder of the machine with the Spark worker, and another one would start with an empty lake."""


class InvalidInventory(Exception):
    """One line per problem: where, what, and what is allowed."""


@dataclass(frozen=True, slots=True)
class Machine:
    """`broker`: settings of its broker only."""

    name: str
    id: int
    address: str
    rack: str
    roles: frozenset[MachineRole]
    broker: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Inventory:
    """`settings`: environment variables of the control plane. `broker`, `zookeeper`: settings of all brokers and of all ZooKeeper servers."""

    machines: tuple[Machine, ...]
    settings: Mapping[str, str]
    broker: Mapping[str, str]
    zookeeper: Mapping[str, str]
    security: Mapping[str, str]
    """Empty: connections are not encrypted and not authenticated."""

    def machines_with(self, role: MachineRole) -> tuple[Machine, ...]:
        return tuple(m for m in self.machines if role in m.roles)


def parse(tables: Mapping[str, object]) -> Inventory:
    """The inventory of these tables. Raises InvalidInventory with all problems."""
    problems = [f"unknown table [{name}]; allowed: {', '.join(TABLES)}" for name in tables if name not in TABLES]
    texts = {name: _texts(tables.get(name, {}), name, problems) for name in TABLES[1:]}
    machines = tuple(
        m for name, row in _parse_table(tables, "machines", problems).items() if (m := _machine(name, row, problems))
    )
    found = Inventory(machines, **texts)
    if not problems:
        problems += _problems(found)
    if problems:
        raise InvalidInventory("\n".join(problems))
    return found


TABLES = ("machines", "settings", "broker", "zookeeper", "security")
SECURITY = {"zookeeper_password": r"[\w.~+/=-]{16,}", "certificates": "generated|own"}
"""The keys of [security] and their forms."""


def _parse_table(tables: Mapping[str, object], name: str, problems: list[str]) -> Mapping[str, object]:
    value = tables.get(name)
    if not isinstance(value, Mapping) or not value:
        problems.append(f"[{name}] is missing: a cluster has at least one machine, as a table [machines.NAME]")
        return {}
    return value


def _texts(value: object, where: str, problems: list[str]) -> dict[str, str]:
    """Names and texts. A character that would end a line or a quotation in the written file is a problem."""
    if not isinstance(value, Mapping):
        problems.append(f"[{where}] is not a table")
        return {}
    for name, text in value.items():
        if not isinstance(text, str):
            problems.append(f"[{where}] {name} is not a text: write it in quotation marks")
        elif PLACEHOLDER in text:
            problems.append(f"[{where}] {name} has still the value {PLACEHOLDER}: replace it")
        elif re.search(r"['\\\x00-\x1f]", text):
            problems.append(f"[{where}] {name} has a quotation mark, a backslash or a control character")
    return {name: text for name, text in value.items() if isinstance(text, str)}


def _machine(name: str, row: object, problems: list[str]) -> Machine | None:
    where, before = f"machines.{name}", len(problems)
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,62}", name):
        problems.append(f"[{where}] is no machine's name: lower-case letters, digits and hyphens")
    if not isinstance(row, Mapping):
        problems.append(f"[{where}] is not a table")
        return None
    number, address, rack, roles = row.get("id"), row.get("address"), row.get("rack", ""), row.get("roles")
    if unknown := sorted(set(row) - {"id", "address", "rack", "roles", "broker"}):
        problems.append(f"[{where}] has the unknown key {unknown[0]}; allowed: id, address, rack, roles, broker")
    if not isinstance(number, int) or not 1 <= number <= ID_MAX:
        problems.append(f"[{where}] id is not a number from 1 to {ID_MAX}")
    try:
        ipaddress.IPv4Address(address)
    except ValueError:
        problems.append(f"[{where}] address is not an IPv4 address")
    if not isinstance(rack, str) or not re.fullmatch(r"[\w.-]*", rack):
        problems.append(f"[{where}] rack is not a text of letters, digits, dots and hyphens")
    if not isinstance(roles, list) or not roles or not set(roles) <= set(MachineRole):
        problems.append(f"[{where}] roles is not a list of: {', '.join(MachineRole)}")
    broker = _texts(row.get("broker", {}), f"{where}.broker", problems)
    if len(problems) > before:
        return None
    return Machine(name, int(number or 0), str(address), rack, frozenset(MachineRole(r) for r in roles or ()), broker)


def _problems(inventory: Inventory) -> list[str]:
    problems = []
    for what in ("id", "address"):
        values = [getattr(m, what) for m in inventory.machines]
        problems += [f"two machines have the {what} {v}" for v in sorted({v for v in values if values.count(v) > 1})]
    problems += [f"no machine has the role {role}" for role in AT_LEAST_ONE if not inventory.machines_with(role)]
    problems += [
        f"more than one machine has the role {role}: {', '.join(m.name for m in inventory.machines_with(role))}"
        for role in AT_MOST_ONE
        if len(inventory.machines_with(role)) > 1
    ]
    spark = inventory.machines_with(MachineRole.SPARK_WORKER)
    if len(spark) > 1 and not any(inventory.settings.get(name) for name in SHARED_LAKE):
        problems.append(
            f"several machines have the role {MachineRole.SPARK_WORKER} ({', '.join(m.name for m in spark)}), but the lake is a folder of each machine: set "
            f"[settings] {' or '.join(SHARED_LAKE)} to storage that all of them reach"
        )
    if inventory.security:
        problems += [
            f"[security] has the unknown key {n}; allowed: {', '.join(SECURITY)}"
            for n in inventory.security
            if n not in SECURITY
        ]
        problems += [
            f"[security] {n} is missing or not of the form {form}"
            for n, form in SECURITY.items()
            if not re.fullmatch(form, inventory.security.get(n, ""))
        ]
    servers = len(inventory.machines_with(MachineRole.ZOOKEEPER))
    if servers and servers % 2 == 0:
        problems.append(f"{servers} ZooKeeper servers survive no more failures than {servers - 1}: use an odd number")
    problems += [
        f"machine {m.name} has settings of a broker but not the role"
        for m in inventory.machines
        if m.broker and MachineRole.BROKER not in m.roles
    ]
    return problems
