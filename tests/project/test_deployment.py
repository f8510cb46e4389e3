"""The files in `deploy/`: units that name existing programs, known variables and settings, and that systemd accepts. Starts no process of the cluster."""

from __future__ import annotations

import importlib
import re
import shlex
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from django.core.management import get_commands, load_command_class

from brokerd.cluster.configs import BROKER_SYNONYMS
from brokerd.config.broker import SETTINGS, BrokerConfig
from tests.cluster.local import ROOT
from weir.celery import POLLS
from weir.cli.command_names import COMMANDS
from weir.deployment.command import template
from weir.deployment.files import UNITS, files_of
from weir.deployment.inventory import PLACEHOLDER, Inventory, parse
from weir.variables import variables

FOLDER = ROOT / "deploy"
UNIT_FILES = sorted((FOLDER / "systemd").glob("*.service"))
BIN = "/opt/weir/current/bin/"
EXPOSURE_MAX = 3.0
"""Limit of the exposure by `systemd-analyze security`, in its points from 0 (closed) to 10 (open). A unit without hardening has 9.2."""


def entries(path: Path) -> list[tuple[str, str]]:
    """(name, value) of each line of a unit."""
    lines = [line for line in path.read_text().splitlines() if line and line[0] not in "#["]
    assert all("=" in line for line in lines), path.name
    return [(n, v) for n, _, v in (line.partition("=") for line in lines)]


def value(path: Path, name: str) -> str:
    (found,) = [v for n, v in entries(path) if n == name]
    return found


def command(path: Path) -> list[str]:
    return shlex.split(value(path, "ExecStart"))


def inventory() -> Inventory:
    return parse(tomllib.loads((FOLDER / "cluster.toml").read_text().replace(PLACEHOLDER, "secret")))


def test_each_role_has_its_unit() -> None:
    assert {p.name for p in UNIT_FILES} == {unit for units in UNITS.values() for unit in units}


@pytest.mark.parametrize("path", UNIT_FILES, ids=lambda p: p.name)
def test_a_unit_starts_an_entry_point_of_the_installed_packages(path: Path) -> None:
    program, *arguments = command(path)
    assert program.startswith(BIN)
    name = program.removeprefix(BIN)
    scripts = {e.name: e.load for e in metadata.entry_points(group="console_scripts")}
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    if name in ours:
        module, _, function = ours[name].partition(":")
        assert callable(getattr(importlib.import_module(module), function))
    else:
        assert callable(scripts[name]())
    if name == "weir":
        assert arguments[0] not in COMMANDS, "a command of the REST API has this name"
        parser = load_command_class(get_commands()[arguments[0]], arguments[0]).create_parser("weir", arguments[0])
        parser.parse_args([a.replace("%i", "1") for a in arguments[1:]])
    if name in ("celery", "uvicorn"):
        (application,) = [a for a in arguments if a.startswith("weir.")]
        module, _, attribute = application.partition(":")
        assert (ROOT / f"{module.replace('.', '/')}.py").exists()
        assert re.search(rf"^(async def )?{attribute}\b", (ROOT / f"{module.replace('.', '/')}.py").read_text(), re.M)
    if name == "celery":
        assert arguments[arguments.index("-Q") + 1] in POLLS


def test_the_workers_together_read_all_queues() -> None:
    lines = [command(p) for p in UNIT_FILES if command(p)[0] == f"{BIN}celery"]
    assert sorted(line[line.index("-Q") + 1] for line in lines) == sorted(POLLS)


@pytest.mark.parametrize("path", UNIT_FILES, ids=lambda p: p.name)
def test_a_unit_reads_files_that_its_machine_has_and_writes_its_state_only(path: Path) -> None:
    machines = {m.name: {f"/{f.path}" for f in files_of(inventory(), m, template)} for m in inventory().machines}
    named = {a for a in command(path) if a.startswith("/etc/")}
    named |= {v for n, v in entries(path) if n == "EnvironmentFile" and not v.startswith("-")}
    assert named
    having = [found for found in machines.values() if f"/etc/systemd/system/{path.name}" in found]
    assert having and all(named <= found for found in having)
    assert value(path, "ProtectSystem") == "strict" and value(path, "User") == "weir"
    state = f"/var/lib/{value(path, 'StateDirectory')}"
    assert all(v.startswith(state) for n, v in entries(path) if n == "WorkingDirectory")


@pytest.mark.parametrize("path", UNIT_FILES, ids=lambda p: p.name)
def test_a_unit_gives_a_clean_shutdown_time_and_starts_again(path: Path) -> None:
    assert value(path, "KillSignal") == "SIGTERM" and value(path, "Restart") == "always"
    assert int(value(path, "LimitNOFILE")) >= 65536 and value(path, "StartLimitIntervalSec") == "0"
    seconds = int(value(path, "TimeoutStopSec"))
    if path.name == "weir-broker.service":
        waits = {s.name: s.default for s in SETTINGS}["controlled.shutdown.timeout.ms"]
        assert isinstance(waits, int) and seconds >= 2 * waits / 1000
    graceful = [
        int(a) for b, a in zip(command(path), command(path)[1:], strict=False) if b.endswith("graceful-shutdown")
    ]
    assert all(seconds > s for s in graceful)


def test_variables_and_settings_of_the_example_are_known() -> None:
    found = inventory()
    assert set(found.settings) <= {v.name for v in variables().values()}
    for path in UNIT_FILES:
        own = {v.partition("=")[0] for n, v in entries(path) if n == "Environment"}
        assert own <= {"SPARK_LOCAL_DIRS", "PYTHONFAULTHANDLER"} | {v.name for v in variables().values()}
    for machine in found.machines:
        (text,) = [f.text for f in files_of(found, machine, template) if f.path == "etc/weir/broker.properties"]
        lines = [line.partition("=") for line in text.splitlines() if not line.startswith("#")]
        config = BrokerConfig.parse({n: v for n, _, v in lines}, BROKER_SYNONYMS.__contains__)
        assert config.broker_id == machine.id


def test_every_file_of_the_folder_reaches_a_machine_or_is_an_example() -> None:
    texts = {f.text for m in inventory().machines for f in files_of(inventory(), m, template)}
    examples = {"cluster.toml", "broker.properties", "prometheus.yml"}
    for path in (p for p in FOLDER.rglob("*") if p.is_file() and "kubernetes" not in p.parts):
        begin = path.read_text().partition("@")[0]
        assert path.name in examples or any(text.startswith(begin) for text in texts), path


@pytest.fixture(scope="module")
def units(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The units with programs and files of this machine, as systemd looks for them."""
    folder = tmp_path_factory.mktemp("units")
    out = []
    for path in UNIT_FILES:
        text = re.sub(rf"{BIN}\w+", sys.executable, path.read_text())
        out.append(folder / path.name.replace("@.", "@1."))
        out[-1].write_text(text)
    return out


def test_systemd_accepts_the_units(units: list[Path]) -> None:
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *map(str, units)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    ours = [line for line in (done.stdout + done.stderr).splitlines() if "weir" in line]
    assert (done.returncode, ours) == (0, [])


def test_the_units_are_closed_as_systemd_measures_it(units: list[Path]) -> None:
    for path in units:
        done = subprocess.run(
            [
                "systemd-analyze",
                "security",
                "--offline=true",
                f"--threshold={int(EXPOSURE_MAX * 10)}",
                "--no-pager",
                str(path),
            ],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-400:] + done.stderr
