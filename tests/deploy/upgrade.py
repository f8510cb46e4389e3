"""`make deploy-rehearsal ARGS=--upgrade`: a cluster of an older version is upgraded machine by machine, by the steps of the guide, under load.

The older version is a commit of this repository: its wheel and the files of its own `weir configure`. Then a backup, the new files, brokers machine by machine, the
migration of the database, and the units of the control plane, the standby controller first. Measured from outside: seconds of each step, how long
the console answers nothing but errors, and acknowledged records that are lost, duplicated or out of order.
"""

from __future__ import annotations

import re
import subprocess
import threading
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.cluster.local import ROOT
from tests.deploy.machines import RehearsedMachine

OLD = "02f92cef67c6ccde8bd49ef00ad5cf747a114eef"
"""A commit whose `weir configure` exists and whose database has eight migrations less."""
OLD_VERSION = "0.0.9"
BROKER, ZOOKEEPER = "weir-broker.service", "weir-zookeeper.service"


def export_old_version(folder: Path) -> Path:
    """The source of the older version, whose wheel has OLD_VERSION. Raises CalledProcessError in a clone without that commit."""
    source = folder / "old-source"
    source.mkdir()
    archive = subprocess.run(["git", "archive", OLD], cwd=ROOT, check=True, capture_output=True)
    subprocess.run(["tar", "-x", "-C", str(source)], input=archive.stdout, check=True)
    project = source / "pyproject.toml"
    text, changed = re.subn(r'(?m)^version = ".*"$', f'version = "{OLD_VERSION}"', project.read_text())
    assert changed == 1
    project.write_text(text)
    return source


def old_configure(opt: Path, inventory: Path) -> Path:
    """The files of each machine, by `weir configure` of the older version."""
    out = inventory.parent / "out"
    python = opt / OLD_VERSION / "bin/python"
    subprocess.run([str(python), "-m", "weir", "configure", str(inventory), "--to", str(out)], check=True, cwd="/")
    return out


class Outage(threading.Thread):
    """How long no machine answers a request of the console, in seconds in a row."""

    def __init__(self, served: Callable[[], bool]) -> None:
        super().__init__(daemon=True)
        self._served, self._over = served, threading.Event()
        self.longest = 0.0

    def run(self) -> None:
        last = time.monotonic()
        while not self._over.wait(0.2):
            if self._served():
                self.longest = max(self.longest, time.monotonic() - last)
                last = time.monotonic()
        self.longest = max(self.longest, time.monotonic() - last)

    def stop(self) -> float:
        self._over.set()
        self.join(60)
        return self.longest


class Upgrade:
    """`rehearsal` has the running cluster of the older version, `out` the files of the new one."""

    def __init__(self, rehearsal: Any, out: Path) -> None:
        self.rehearsal, self.out = rehearsal, out
        self.version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
        self.machines: dict[str, RehearsedMachine] = rehearsal.machines
        self.unclean: list[str] = rehearsal.unclean

    def restart(self, machine: RehearsedMachine, name: str) -> None:
        code, seconds = machine.units[name].stop()
        print(f"  {seconds:7.1f} s  stop of {name}, exit code {code}", flush=True)
        if not machine.units[name].ended_cleanly(code):
            self.unclean.append(f"{machine.name} {name}: {code}")
        machine.reload_unit(name).start()

    def run(self) -> None:
        r, b = self.rehearsal, self.machines["b"]
        program = "/opt/weir/current/bin/weir"
        print(f"upgrade from {OLD_VERSION} (commit {OLD[:8]}) to {self.version}", flush=True)
        print(f"            {b.run(program, 'backup', '--to', '/var/lib/weir/backup').strip()}", flush=True)
        for name, machine in self.machines.items():
            machine.copy(self.out / name)
        for machine in self.machines.values():
            print(f"machine {machine.name}: its broker", flush=True)
            r.wait_and_print("all brokers ready, full ISR", r.all_in_sync)
            r.wait_and_print("an active controller", lambda: r.overview(b).get("controller_id"))
            machine.use(self.version)
            self.restart(machine, BROKER)
            r.wait_and_print("all brokers ready, full ISR", r.all_in_sync)
        print("the control plane", flush=True)
        active = r.active_controller()
        outage = Outage(
            lambda: any(
                r.status(f"https://{m.address}/api/v1/overview") in (200, 401, 403) for m in (b, self.machines["c"])
            )
        )
        outage.start()
        began = time.monotonic()
        b.run(program, "migrate", "-v", "0")
        print(f"  {time.monotonic() - began:7.1f} s  weir migrate", flush=True)
        standby = self.machines["c"] if active is b else b
        for machine in (standby, active):
            controllers = [n for n in machine.units if "controller" in n]
            for name in [*controllers, *(n for n in machine.units if n not in (BROKER, ZOOKEEPER, *controllers))]:
                self.restart(machine, name)
            r.wait_and_print(f"web process of {machine.name} ready", lambda m=machine: r.web_ready(m))
            r.wait_and_print("an active controller", lambda: r.overview(b).get("controller_id"))
        print(f"  {outage.stop():7.1f} s  the longest time without a response of a console", flush=True)
        r.wait_and_print("metrics younger than 5 s", lambda: (r.overview(b).get("sample_age_s") or 99) < 5)
        for words in (("--show",), ()):
            for line in b.run(program, "upgrade_metadata", *words).strip().splitlines():
                print(f"            {line}", flush=True)
        name = "made-after-the-upgrade"
        body = {"name": name, "partitions": 1, "replication_factor": 3, "comment": "rehearsal"}
        assert r.call(b, "POST", "topics", body) is not None
        r.wait_and_print("a new topic exists", lambda: r.topic_exists(b, name))
