"""`manage.py up`: one command brings up a living cluster. Law: checks first, starts then, says when all is ready."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser

from brokerd.access.client_settings import ClientSettings
from brokerd.cluster.model import INTERNAL_TOPICS
from controlplane.house import layout as houses
from controlplane.house import processes, security, zookeeper
from controlplane.house.files import write_private

READY_SECONDS_MAX = 120
"""Seconds for the whole house to answer; past it `up` says what does not, rather than wait for ever."""


class Command(BaseCommand):
    help = "Start ZooKeeper, brokers, controllers, worker, console and the demo's data, all on this machine."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--brokers", type=int, help="default: as before in this folder, else 3")
        parser.add_argument("--controllers", type=int, help="default: as before in this folder, else 2")
        parser.add_argument("--data-dir", type=Path, default=Path("data"))
        parser.add_argument(
            "--port-base",
            type=int,
            help=f"console; ZooKeeper and the brokers follow (default: as before, else {houses.PORT_BASE_DEFAULT})",
        )
        parser.add_argument("--no-demo", action="store_true", help="start without the demo's data")
        parser.add_argument("--demo-speed", type=int, default=2000, help="records per second of the demo")
        parser.add_argument(
            "--demo-once", action="store_true", help="stop the demo at the end of its data (default: loop)"
        )
        parser.add_argument(
            "--secure",
            action="store_true",
            help="TLS, passwords and ACLs on every listener and at ZooKeeper, with certificates of the house's own; it stays so",
        )
        parser.add_argument("--detach", action="store_true", help="return when all is ready, leaving the house running")
        parser.add_argument("--json", action="store_true", help="print one JSON object instead of sentences")
        parser.add_argument("--no-restart", action="store_true", help="do not start again what dies")

    def handle(self, *args: Any, **options: Any) -> None:
        os.umask(0o077)  # the folder holds passwords, tokens and everybody's records
        folder: Path = options["data_dir"].resolve()
        layout = houses.wanted(
            folder, options["port_base"], options["brokers"], options["controllers"], options["secure"]
        )
        supervisor = processes.read_state(folder)["supervisor"]
        if supervisor is not None and supervisor["pid"] is not None:
            raise CommandError(
                f"A house is running in {folder}: see `manage.py status --data-dir {folder}`, "
                f"stop it with `manage.py down --data-dir {folder}`."
            )
        if leftovers := processes.end_leftovers(folder):
            self._say(f"ended what a supervisor that died had left running: {', '.join(leftovers)}")
        try:
            houses.check(layout)
        except houses.CannotStart as e:
            raise CommandError(str(e)) from e
        if options["detach"]:
            self._detached(layout, options)
            return
        try:
            lock = houses.lock(folder)
        except houses.CannotStart as e:
            raise CommandError(str(e)) from e
        facts = houses.settle(layout)
        demo = None if options["no_demo"] else ["--speed", str(options["demo_speed"])]
        if demo is not None and options["demo_once"]:
            demo.append("--once")
        with lock:
            self._here(layout, facts, demo, options)

    # -- in the foreground -------------------------------------------------------------------------------------------------
    def _here(
        self, layout: houses.Layout, facts: dict[str, Any], demo: list[str] | None, options: dict[str, Any]
    ) -> None:
        plan = processes.plan(layout, demo=demo, guard=security.guard(layout.folder, facts))
        supervisor = processes.Supervisor(layout, plan, restart=not options["no_restart"])
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: setattr(supervisor, "stopping", True))
        began = time.monotonic()
        # ZooKeeper and the brokers take their time to start: the database is brought up to date meanwhile.
        waiting = {n: p for n, p in supervisor.processes.items() if not n.startswith(("zookeeper", "broker"))}
        for name in waiting:
            del supervisor.processes[name]
        supervisor.step()
        self._say("started ZooKeeper and the brokers; bringing the database up to date")
        try:
            call_command("migrate", verbosity=0, interactive=False)
            os.environ["WEIR_PASSWORD"] = facts["password"]
            call_command("ensure_operator", username=facts["user"], token_out=str(layout.token))
            if layout.secure:
                security.ensure_users(facts)
        except BaseException:
            supervisor.stop()
            raise
        finally:
            os.environ.pop("WEIR_PASSWORD", None)
        supervisor.processes.update(waiting)
        ready = False
        pending = ""
        while not supervisor.stopping:
            supervisor.step()
            if not ready:
                missing = self._missing(layout, facts)
                if not missing:
                    ready = True
                    self._say(f"all ready after {time.monotonic() - began:.1f} s")
                    self._print(layout, facts, options)
                elif missing != pending:
                    pending = missing
                    self._say(f"waiting for {missing}")
            time.sleep(0.2)
        self._say("stopping")
        supervisor.stop()

    @staticmethod
    def _missing(layout: houses.Layout, facts: dict[str, Any]) -> str:
        """What is not ready yet, or ''."""
        if not zookeeper.ready(layout.zookeeper_port, security.guard(layout.folder, facts)):
            return "ZooKeeper"
        problem = _brokers_missing(layout, facts)
        if problem:
            return problem
        try:
            with urllib.request.urlopen(f"{layout.console}login/", timeout=2) as page:
                page.read(1)
        except urllib.error.HTTPError as e:
            return "" if e.code < 500 else "the console"
        except OSError:
            return "the console"
        return ""

    def _say(self, text: str) -> None:
        self.stderr.write(f"weir: {text}")

    def _print(self, layout: houses.Layout, facts: dict[str, Any], options: dict[str, Any]) -> None:
        answer = {
            "bootstrap": layout.bootstrap,
            "console": layout.console,
            "user": facts["user"],
            "password": facts["password"],
            "token": layout.token.read_text().strip(),
            **({"client_config": facts["kafka_config"]} if layout.secure else {}),
        }
        write_private(layout.folder / "ready.json", json.dumps(answer))
        if options["json"]:
            self.stdout.write(json.dumps(answer))
        else:
            self.stdout.write(
                f"\n  bootstrap servers  {answer['bootstrap']}\n  console            {answer['console']}\n"
                f"  user               {answer['user']}\n  password           {answer['password']}\n"
                + (f"  Kafka clients      {facts['kafka_config']}\n" if layout.secure else "")
                + f"\nStop with {'' if options['detach'] else 'Ctrl-C, or '}`manage.py down --data-dir {layout.folder}`."
            )
        self.stdout.flush()

    # -- detached ----------------------------------------------------------------------------------------------------------
    def _detached(self, layout: houses.Layout, options: dict[str, Any]) -> None:
        ready = layout.folder / "ready.json"
        ready.unlink(missing_ok=True)
        layout.log("supervisor").parent.mkdir(exist_ok=True)
        command = [
            sys.executable, str(processes.ROOT / "manage.py"), "up", "--data-dir", str(layout.folder),
            "--port-base", str(layout.port_base), "--brokers", str(layout.brokers), "--controllers", str(layout.controllers),
            "--demo-speed", str(options["demo_speed"]),
        ]  # fmt: skip
        command += [
            f"--{name.replace('_', '-')}" for name in ("no_demo", "demo_once", "no_restart", "secure") if options[name]
        ]
        log_path = layout.log("supervisor")
        position = log_path.stat().st_size if log_path.exists() else 0
        with open(log_path, "ab") as log:
            child = subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )
        deadline = time.monotonic() + READY_SECONDS_MAX
        with open(log_path, encoding="utf-8", errors="replace") as progress:
            progress.seek(position)
            while not ready.exists():
                if line := progress.readline():
                    self.stderr.write(line.rstrip("\n"))
                    continue
                if child.poll() is not None:
                    raise CommandError(f"The house did not start; see {log_path}.")
                if time.monotonic() > deadline:
                    child.terminate()
                    raise CommandError(f"Not ready after {READY_SECONDS_MAX} s; see {layout.folder / 'logs'}.")
                time.sleep(0.1)
        self._print(layout, houses.read_facts(layout.folder), options)


def _brokers_missing(layout: houses.Layout, facts: dict[str, Any]) -> str:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    # Not by way of the settings: they were read before this house had its facts.
    client = ClientSettings.load(Path(facts["kafka_config"])).librdkafka() if layout.secure else {}
    admin = AdminClient({"bootstrap.servers": layout.bootstrap, "log_level": 0, "socket.timeout.ms": 2000, **client})
    try:
        cluster = admin.list_topics(timeout=2)
    except KafkaException:
        return "the brokers"
    if len(cluster.brokers) < layout.brokers:
        return f"{layout.brokers - len(cluster.brokers)} of {layout.brokers} brokers"
    for name in sorted(INTERNAL_TOPICS):
        topic = cluster.topics.get(name)
        if topic is None or any(p.leader < 0 for p in topic.partitions.values()):
            return f"the internal topic {name}"
    return ""
