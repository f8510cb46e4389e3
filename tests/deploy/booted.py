"""`make systemd-rehearsal`: one machine whose systemd runs the units of deploy/, in a container of systemd-nspawn with a Debian 12 tree.

The tree is made once, by debootstrap with the packages of the guide, and kept (`--tree`); a rehearsal changes a copy. The guide's steps are run in it:
`weir configure`, systemd-sysusers, systemd-tmpfiles, PostgreSQL, Redis, nginx, migrations, `systemctl enable`. Then the machine is booted a second time, so
that the units start by themselves, under their users, limits and protections. Measured from outside: each unit becomes active; a killed broker and stopped
processes are restarted by systemd; acknowledged records are there after each; every unit ends cleanly. The machine has no network beyond its own loopback
and one address. Requires root, debootstrap and systemd-nspawn, and for the first run a Debian mirror. Exits with 2 if it cannot run.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import secrets
import shutil
import signal
import ssl
import subprocess
import sys
import sysconfig
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster.local import ROOT, wait_for
from tests.deploy.machines import PIP, build_wheel, pins
from tests.faults.namespaces import network_of
from tests.pki import Authority
from weir.deployment import command
from weir.deployment.inventory import PLACEHOLDER, MachineRole

ADDRESS = "10.77.9.1"
SUITE = "bookworm"
PACKAGES = (
    "systemd",
    "python3-venv",
    "openjdk-17-jre-headless",
    "rsync",
    "postgresql",
    "redis-server",
    "nginx-light",
    "iproute2",
)
"""Those of docs/how-to/deploy-on-several-machines.md; nginx without its optional modules."""
DEPENDENCIES = "/opt/weir/dependencies"
"""The packages of this Python, read-only: the rehearsal tests units, not a package registry."""
TREE = Path("/var/cache/weir/debian-bookworm")
TOPIC = "booted"
RECORDS = 500
BOOT_SECONDS = 180
WATCHED = {"weir-controller@1.service": 30, "weir-worker.service": 60, "weir-monitor.service": 120}
"""Units with WatchdogSec, and its value in seconds."""
UNVERIFIED = ssl.create_default_context()
UNVERIFIED.check_hostname, UNVERIFIED.verify_mode = False, ssl.CERT_NONE


def problem() -> str:
    """Why the rehearsal cannot run; empty if it can."""
    if os.geteuid() != 0:
        return "systemd-nspawn requires root"
    packages = {
        "debootstrap": "debootstrap",
        "systemd-nspawn": "systemd-container",
        "nsenter": "util-linux",
        "ip": "iproute2",
    }
    missing = [package for program, package in packages.items() if shutil.which(program) is None]
    return f"not installed: {' '.join(missing)} (apt install {' '.join(missing)})" if missing else ""


def make_tree(tree: Path) -> None:
    """A minimal Debian with PACKAGES. A tree that was not completed is removed."""
    if tree.exists():
        return
    new = tree.with_name(f"{tree.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    new.parent.mkdir(parents=True, exist_ok=True)
    print(f"Debian {SUITE} by debootstrap in {tree}", flush=True)
    subprocess.run(
        ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE, str(new)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    new.rename(tree)


def inventory_text(password: str) -> str:
    """One machine with every role but Spark, from the settings of deploy/cluster.toml."""
    text = (ROOT / "deploy" / "cluster.toml").read_text()
    roles = ", ".join(f'"{r}"' for r in MachineRole if r is not MachineRole.SPARK_WORKER)
    machine = f'[machines.a]\nid = 1\naddress = "{ADDRESS}"\nroles = [{roles}]\n\n'
    text = machine + text[text.index("# Environment variables of the control plane") :]
    text = text.replace(f'WEIR_SECRET_KEY = "{PLACEHOLDER}"', f'WEIR_SECRET_KEY = "{secrets.token_urlsafe(48)}"')
    text = text.replace('factor" = "3"', 'factor" = "1"').replace('replicas" = "2"', 'replicas" = "1"')
    return text.replace(PLACEHOLDER, password).replace("10.0.0.1", ADDRESS)


class BootedMachine:
    """A copy of the tree, and the container that runs it."""

    def __init__(self, folder: Path, tree: Path) -> None:
        self.folder, self.root, self.password = folder, folder / "machine", secrets.token_urlsafe(20)
        self._nspawn: subprocess.Popen[bytes] | None = None
        self._leader = 0
        subprocess.run(["cp", "-a", "--reflink=auto", str(tree), str(self.root)], check=True)

    # -- the guide, step 1 and 2 -----------------------------------------------------------------------------------------
    def install(self) -> None:
        (self.folder / "cluster.toml").write_text(inventory_text(self.password))
        assert command.main([str(self.folder / "cluster.toml"), "--to", str(self.folder / "out")]) == 0
        subprocess.run(["cp", "-r", "--preserve=mode", f"{self.folder}/out/a/.", f"{self.root}/"], check=True)
        wheels = self.root / "root/wheels"
        _, version = build_wheel(wheels)
        subprocess.run([*PIP, "download", "--no-deps", "-d", str(wheels), *pins()], check=True)
        authority = Authority(self.folder / "authority")
        authority.issue("console")
        tls = self.root / "etc/weir/tls"
        tls.mkdir()
        shutil.copy(authority.folder / "console.key", tls / "console.key")
        shutil.copy(authority.folder / "console.crt", tls / "console.pem")
        (self.root / "etc/hostname").write_text("a\n")
        with (self.root / "etc/postgresql/15/main/pg_hba.conf").open("a") as file:
            file.write((self.root / "etc/weir/pg_hba.conf").read_text())
        with (self.root / "etc/redis/redis.conf").open("a") as file:
            file.write("include /etc/redis/weir.conf\n")
        self.offline("systemd-sysusers weir.conf && systemd-tmpfiles --create weir.conf")
        venv = f"/opt/weir/{version}"
        self.offline(
            f"python3 -m venv {venv} && {venv}/bin/pip install -q --no-index --no-deps /root/wheels/*.whl && "
            f"ln -sfn {version} /opt/weir/current && echo {DEPENDENCIES} > {venv}/lib/python3.11/site-packages/dependencies.pth"
        )
        self.offline(
            "chown -R root:weir /etc/weir && chown -R weir:weir /var/lib/weir && chown root:redis /etc/redis/weir.conf"
        )

    def offline(self, script: str) -> None:
        """A shell script in the tree, while the machine is off."""
        subprocess.run([*self._words("--pipe"), "sh", "-ec", script], check=True, capture_output=True)

    def _words(self, *more: str) -> list[str]:
        site = sysconfig.get_path("purelib")
        return [
            "systemd-nspawn",
            "--quiet",
            f"--directory={self.root}",
            "--machine=weir-rehearsal",
            "--private-network",
            "--register=no",
            "--keep-unit",
            f"--bind-ro={site}:{DEPENDENCIES}",
            *more,
        ]

    # -- the machine -----------------------------------------------------------------------------------------------------
    def boot(self) -> None:
        with (self.folder / "console.log").open("ab") as log:
            words = [*self._words("--boot", "--console=pipe", "--kill-signal=SIGRTMIN+3")]
            self._nspawn = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._leader = int(wait_for(self._found_leader, "the init process", 30))
        self.run("ip", "link", "set", "lo", "up")
        self.run("ip", "address", "add", f"{ADDRESS}/32", "dev", "lo")
        wait_for(lambda: self.state() in ("running", "degraded"), "the end of the boot", BOOT_SECONDS)

    def _found_leader(self) -> int:
        assert self._nspawn is not None
        assert self._nspawn.poll() is None, f"systemd-nspawn ended: {(self.folder / 'console.log').read_text()[-2000:]}"
        children = Path(f"/proc/{self._nspawn.pid}/task/{self._nspawn.pid}/children").read_text().split()
        for child in children:
            if Path(f"/proc/{child}/comm").read_text().strip() == "systemd":
                return int(child)
        return 0

    def power_off(self) -> float:
        """Seconds until the container has ended."""
        assert self._nspawn is not None
        began = time.monotonic()
        os.kill(self._leader, signal.SIGRTMIN + 4)
        self._nspawn.wait(300)
        self._nspawn = None
        return time.monotonic() - began

    def end(self) -> None:
        if self._nspawn is not None:
            self._nspawn.terminate()
            try:
                self._nspawn.wait(60)
            except subprocess.TimeoutExpired:
                self._nspawn.kill()
                self._nspawn.wait()

    def network(self) -> contextlib.AbstractContextManager[None]:
        """The network of the machine for this thread."""
        return network_of(self._leader)

    def run(self, *words: str, check: bool = True) -> str:
        """The output of a command in the running machine."""
        done = subprocess.run(
            [
                "nsenter",
                f"--target={self._leader}",
                "--all",
                "--",
                "env",
                "-i",
                "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
                *words,
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0 or not check, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def signal(self, pid: str, name: str) -> None:
        """`pid` as the machine sees it. The shell's own kill: a minimal Debian has no program of that name."""
        self.run("sh", "-c", f"kill -{name} {pid}")

    def state(self) -> str:
        return self.run("systemctl", "is-system-running", check=False)

    def show_property(self, unit: str, name: str) -> str:
        return self.run("systemctl", "show", "--value", f"--property={name}", unit)

    @property
    def units(self) -> list[str]:
        return (self.root / "etc/weir/units").read_text().split()


class BootRehearsal:
    def __init__(self, machine: BootedMachine) -> None:
        self.machine = machine
        self.acknowledged: set[bytes] = set()
        self.wrong: list[str] = []

    def wait_and_print(self, what: str, condition: Callable[[], Any], seconds: float = 180) -> None:
        began = time.monotonic()
        wait_for(condition, what, seconds)
        print(f"  {time.monotonic() - began:7.1f} s  {what}", flush=True)

    def status(self, url: str) -> int:
        try:
            request = urllib.request.Request(url, headers={"Host": "weir.example"})
            with urllib.request.urlopen(request, timeout=6, context=UNVERIFIED) as response:
                return int(response.status)
        except urllib.error.HTTPError as e:
            return e.code
        except OSError:
            return 0

    def ready(self) -> bool:
        return all(
            self.status(url) == 200 for url in (f"http://{ADDRESS}:9404/readyz", f"https://{ADDRESS}/readyz")
        ) and all(self.machine.show_property(u, "ActiveState") == "active" for u in self.machine.units)

    # -- steps -----------------------------------------------------------------------------------------------------------
    def first_boot(self) -> None:
        """The guide, step 2 and 3: the database, the tables, all units enabled."""
        run = self.machine.run
        self.wait_and_print(
            "PostgreSQL answers",
            lambda: run("runuser", "-u", "postgres", "--", "psql", "-tAc", "select 1", check=False) == "1",
        )
        statement = f"create role weir login password '{self.machine.password}'"
        run("runuser", "-u", "postgres", "--", "psql", "-c", statement)
        run("runuser", "-u", "postgres", "--", "createdb", "-O", "weir", "weir")
        prepare = "set -a; . /etc/weir/weir.env; set +a; cd /var/lib/weir; "
        run(
            "sh",
            "-ec",
            f"{prepare} runuser -u weir -- mkdir -p control; runuser -u weir -- /opt/weir/current/bin/weir migrate -v 0",
        )
        run("systemctl", "enable", "--quiet", *self.machine.units)
        print(f"  {self.machine.power_off():7.1f} s  power off", flush=True)

    def second_boot(self) -> None:
        """The units start by themselves."""
        with self.machine.network():
            self.wait_and_print("every unit active, broker and console ready", self.ready)
            self.create_topic()
            self.produce()
        for unit in self.machine.units:
            pid, user = self.machine.show_property(unit, "MainPID"), self.machine.show_property(unit, "User")
            status = self.machine.run("cat", f"/proc/{pid}/status")
            owner = self.machine.run("stat", "-c", "%U", f"/proc/{pid}")
            found = dict(re.findall(r"(?m)^(NoNewPrivs|Seccomp|CapEff):\s+(\S+)", status))
            if (owner, found["NoNewPrivs"], found["Seccomp"], int(found["CapEff"], 16)) != (user, "1", "2", 0):
                self.wrong.append(f"{unit}: user {owner}, {found}")
            print(
                f"            {unit}: user {owner}, restarts {self.machine.show_property(unit, 'NRestarts')}",
                flush=True,
            )

    def create_topic(self) -> None:
        admin = AdminClient({"bootstrap.servers": f"{ADDRESS}:9092", "log_level": 0})

        def is_created() -> bool:
            try:
                admin.create_topics([NewTopic(TOPIC, 3, 1)])[TOPIC].result(30)
            except KafkaException:
                return TOPIC in admin.list_topics(timeout=10).topics
            return True

        wait_for(is_created, "the topic")

    def produce(self) -> None:
        producer = Producer(
            {"bootstrap.servers": f"{ADDRESS}:9092", "acks": "all", "log_level": 0, "enable.idempotence": True}
        )
        begin = len(self.acknowledged)
        for i in range(begin, begin + RECORDS):
            producer.produce(
                TOPIC, str(i).encode(), on_delivery=lambda e, m: self.acknowledged.add(m.value()) if e is None else None
            )
            producer.poll(0)
        producer.flush(120)
        if len(self.acknowledged) != begin + RECORDS:
            self.wrong.append(f"{begin + RECORDS - len(self.acknowledged)} records were not acknowledged")

    def check_records(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": f"{ADDRESS}:9092",
                "group.id": secrets.token_hex(4),
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        consumer.subscribe([TOPIC])
        found: list[bytes] = []
        deadline = time.monotonic() + 120
        while not self.acknowledged <= set(found) and time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                found.append(message.value())
        consumer.close()
        lost, twice = len(self.acknowledged - set(found)), len(found) - len(set(found))
        print(
            f"            records: acknowledged {len(self.acknowledged)}, lost {lost}, duplicated {twice}", flush=True
        )
        if lost or twice:
            self.wrong.append(f"records: lost {lost}, duplicated {twice}")

    def kill_broker(self) -> None:
        pid = self.machine.show_property("weir-broker.service", "MainPID")
        self.machine.signal(pid, "KILL")
        with self.machine.network():
            self.wait_and_print(
                "broker killed: restarted and ready",
                lambda: self.machine.show_property("weir-broker.service", "MainPID") not in (pid, "0") and self.ready(),
            )
            self.check_records()
            self.produce()

    def stop_watched(self) -> None:
        """SIGSTOP: each process hangs. systemd ends it after WatchdogSec, and starts it again."""
        pids = {unit: self.machine.show_property(unit, "MainPID") for unit in WATCHED}
        for pid in pids.values():
            self.machine.signal(pid, "STOP")
        began = time.monotonic()
        for unit, limit in WATCHED.items():
            wait_for(
                lambda u=unit: self.machine.show_property(u, "MainPID") not in (pids[u], "0"),  # type: ignore[misc]
                f"a restart of {unit}",
                limit * 2 + 60,
            )
            print(f"  {time.monotonic() - began:7.1f} s  {unit} stopped: restarted (WatchdogSec={limit})", flush=True)
        with self.machine.network():
            self.wait_and_print("every unit active", self.ready)

    def stop_all(self) -> None:
        for unit in reversed(self.machine.units):
            began = time.monotonic()
            self.machine.run("systemctl", "stop", unit)
            result = self.machine.show_property(unit, "Result")
            print(f"  {time.monotonic() - began:7.1f} s  stop of {unit}: {result}", flush=True)
            if result != "success":
                self.wrong.append(f"stop of {unit}: {result}")

    def run(self) -> int:
        print("first boot", flush=True)
        self.machine.boot()
        self.first_boot()
        print("second boot", flush=True)
        self.machine.boot()
        self.second_boot()
        self.kill_broker()
        self.stop_watched()
        with self.machine.network():
            self.check_records()
        failed = self.machine.run("systemctl", "--failed", "--plain", "--no-legend")
        if failed:
            self.wrong.append(f"failed units: {failed}")
        self.stop_all()
        print(f"  {self.machine.power_off():7.1f} s  power off", flush=True)
        for text in self.wrong:
            print(f"wrong: {text}")
        print("FAILED" if self.wrong else "PASSED")
        return 1 if self.wrong else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.deploy.booted", description=__doc__)
    parser.add_argument(
        "--tree", type=Path, default=TREE, help=f"the Debian tree; made if it is missing (default: {TREE})"
    )
    parser.add_argument("--keep", action="store_true", help="keep the folder of the machine")
    options = parser.parse_args()
    if text := problem():
        print(f"the rehearsal cannot run: {text}", file=sys.stderr)
        return 2
    make_tree(options.tree)
    folder = Path(tempfile.mkdtemp(prefix="weir-booted-"))
    folder.chmod(0o755)
    machine = BootedMachine(folder, options.tree)
    passed = False
    try:
        machine.install()
        code = BootRehearsal(machine).run()
        passed = code == 0
        return code
    finally:
        machine.end()
        if passed and not options.keep:
            shutil.rmtree(folder)
        else:
            print(f"the machine: {machine.root}, its console: {folder / 'console.log'}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
