"""The inventory of a production cluster: the example, and each problem with its place."""

from __future__ import annotations

import copy
import tomllib
from typing import Any

import pytest

from tests.cluster.local import ROOT
from weir.deployment.inventory import PLACEHOLDER, InvalidInventory, MachineRole, parse

EXAMPLE = (ROOT / "deploy" / "cluster.toml").read_text()


@pytest.fixture
def tables() -> dict[str, Any]:
    return tomllib.loads(EXAMPLE.replace(PLACEHOLDER, "secret"))


def problems(tables: dict[str, Any]) -> str:
    with pytest.raises(InvalidInventory) as rejection:
        parse(tables)
    return str(rejection.value)


def test_the_example_has_three_machines_and_needs_its_secrets(tables: dict[str, Any]) -> None:
    found = parse(tables)
    assert [(m.name, m.id, m.address) for m in found.machines] == [
        ("a", 1, "10.0.0.1"),
        ("b", 2, "10.0.0.2"),
        ("c", 3, "10.0.0.3"),
    ]
    for role, count in (
        (MachineRole.ZOOKEEPER, 3),
        (MachineRole.BROKER, 3),
        (MachineRole.CONTROLLER, 2),
        (MachineRole.WEB, 2),
        (MachineRole.WORKER, 2),
    ):
        assert len(found.machines_with(role)) == count
    assert problems(tomllib.loads(EXAMPLE)).count("replace it") == 4


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        (("other",), {}, "unknown table [other]; allowed: machines, settings, broker, zookeeper, security"),
        (("machines",), {}, "[machines] is missing"),
        (("machines", "a"), "10.0.0.1", "[machines.a] is not a table"),
        (("machines", "A_1"), {}, "[machines.A_1] is no machine's name"),
        (("machines", "a", "id"), 0, "[machines.a] id is not a number from 1 to 255"),
        (("machines", "a", "id"), 2, "two machines have the id 2"),
        (("machines", "a", "address"), "a.example", "[machines.a] address is not an IPv4 address"),
        (("machines", "a", "address"), "10.0.0.2", "two machines have the address 10.0.0.2"),
        (("machines", "a", "rack"), "a b", "[machines.a] rack is not a text of letters"),
        (("machines", "a", "roles"), ["brokers"], "[machines.a] roles is not a list of: postgresql, redis"),
        (("machines", "a", "port"), 1, "[machines.a] has the unknown key port"),
        (("machines", "a", "roles"), ["broker"], "2 ZooKeeper servers survive no more failures than 1"),
        (
            ("machines", "c", "roles"),
            ["zookeeper", "spark-worker", "broker"],
            "several machines have the role spark-worker (b, c), but the lake is a folder of each machine",
        ),
        (("machines", "b", "roles"), ["zookeeper", "broker", "controller", "worker"], "machine has the role"),
        (("settings",), [], "[settings] is not a table"),
        (("settings", "WEIR_DEBUG"), True, "[settings] WEIR_DEBUG is not a text"),
        (
            ("settings", "WEIR_DEBUG"),
            "on\nX=1",
            "[settings] WEIR_DEBUG has a quotation mark, a backslash or a control character",
        ),
        (("settings", "WEIR_DEBUG"), "it's", "[settings] WEIR_DEBUG has a quotation mark"),
        (("machines", "b", "broker"), {"log.dirs": 1}, "[machines.b.broker] log.dirs is not a text"),
    ],
)
def test_a_problem_is_reported_with_its_place(
    where: tuple[str, ...], value: object, message: str, tables: dict[str, Any]
) -> None:
    changed = copy.deepcopy(tables)
    table = changed
    for name in where[:-1]:
        table = table[name]
    table[where[-1]] = value
    if where[1:2] == ("b",) and where[2:] == ("roles",):
        changed["machines"]["c"]["roles"] = ["zookeeper", "broker"]
    assert message in problems(changed)


def test_settings_of_a_broker_need_a_broker(tables: dict[str, Any]) -> None:
    tables["machines"]["a"] |= {"roles": ["zookeeper"], "broker": {"log.dirs": "/disk1"}}
    assert problems(tables) == "machine a has settings of a broker but not the role"
