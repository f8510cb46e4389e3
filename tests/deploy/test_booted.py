"""The rehearsal with a booted systemd agrees with the guide, the units and the inventory. Boots nothing."""

from __future__ import annotations

import re
import tomllib

from tests.cluster.local import ROOT
from tests.deploy import booted
from tests.deploy.units import parse as parse_unit
from weir.deployment.inventory import MachineRole, parse


def test_the_inventory_is_valid_and_has_one_machine_with_every_role_but_spark() -> None:
    (machine,) = parse(tomllib.loads(booted.inventory_text("a-password"))).machines
    assert machine.roles == frozenset(MachineRole) - {MachineRole.SPARK_WORKER}
    assert machine.address == booted.ADDRESS


def test_the_watched_units_and_their_limits_are_those_of_the_files() -> None:
    for name, seconds in booted.WATCHED.items():
        file = ROOT / "deploy" / "systemd" / re.sub(r"@\d+", "@", name)
        assert parse_unit(file).watchdog_seconds == seconds


def test_the_tree_has_the_packages_of_the_guide() -> None:
    guide = (ROOT / "docs/how-to/deploy-on-several-machines.md").read_text()
    named = {word for line in re.findall(r"apt install ([\w. -]+)", guide) for word in line.split()}
    assert {"python3-venv", "postgresql", "redis-server", "nginx"} <= named
    assert named <= {p.removesuffix("-light") for p in booted.PACKAGES}
