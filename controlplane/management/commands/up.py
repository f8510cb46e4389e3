"""`manage.py up`: start a local cluster. Checks first, then starts, then reports when all processes are ready."""

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
from typing import TYPE_CHECKING, TypedDict, Unpack

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser

from brokerd.cluster.model import STARTUP_TOPICS
from brokerd.config.kafka_client import ClientSettings
from controlplane.clients import supervisor as supervisor_client
from controlplane.devcluster import layout as layouts
from controlplane.devcluster import processes, provision, security, zookeeper
from weir_common.files import write_private

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

READY_SECONDS_MAX = 120
"""Time limit in seconds for the local cluster to be ready. After that `up` fails."""
DEMO_SECONDS_MAX = 20.0
"""Maximum number of seconds that `up` waits for the first record of the demo, after everything else is ready. A demo that fails does not make the cluster
fail."""


class UpOptions(TypedDict):
    brokers: int | None
    controllers: int | None
    data_dir: Path
    port_base: int | None
    no_demo: bool
    demo_speed: int
    demo_once: bool
    secure: bool
    detach: bool
    json: bool
    no_restart: bool


class Command(BaseCommand):
    help = "Start ZooKeeper, brokers, controllers, worker, console and the demo on this machine."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--brokers", type=int, help=f"default: as in the last start, else {layouts.BROKERS_DEFAULT}"
        )
        parser.add_argument(
            "--controllers", type=int, help=f"default: as in the last start, else {layouts.CONTROLLERS_DEFAULT}"
        )
        parser.add_argument("--data-dir", type=Path, default=settings.WEIR.data_dir)
        parser.add_argument(
            "--port-base",
            type=int,
            help=f"port of the console; ZooKeeper and the brokers use the next ports (default: as in the last start, else {layouts.PORT_BASE_DEFAULT})",
        )
        parser.add_argument("--no-demo", action="store_true", help="start without the demo")
        parser.add_argument("--demo-speed", type=int, default=2000, help="records per second of the demo")
        parser.add_argument(
            "--demo-once", action="store_true", help="stop the demo at the end of its data (default: loop)"
        )
        parser.add_argument(
            "--secure",
            action="store_true",
            help="TLS, SASL and ACLs for every listener and ZooKeeper, with generated certificates; also applies to later starts",
        )
        parser.add_argument(
            "--detach", action="store_true", help="return when all is ready; the local cluster keeps running"
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object instead of sentences")
        parser.add_argument("--no-restart", action="store_true", help="do not restart processes that died")

    def handle(self, *_args: str, **options: Unpack[UpOptions]) -> None:
        os.umask(0o077)  # the data directory contains passwords, tokens and records
        folder: Path = options["data_dir"].resolve()
        layout = layouts.planned_layout(
            folder, options["port_base"], options["brokers"], options["controllers"], options["secure"]
        )
        supervisor = supervisor_client.read_state(folder)["supervisor"]
        if supervisor is not None and supervisor["pid"] is not None:
            raise CommandError(
                f"A local cluster is running in {folder}: see `manage.py status --data-dir {folder}`, "
                f"stop it with `manage.py down --data-dir {folder}`."
            )
        if leftovers := processes.end_leftovers(folder):
            self._say(f"stopped processes of a dead supervisor: {', '.join(leftovers)}")
        try:
            layouts.check(layout)
        except layouts.CannotStart as e:
            raise CommandError(str(e)) from e
        if options["detach"]:
            self._run_detached(layout, options)
            return
        try:
            lock = layouts.lock(folder)
        except layouts.CannotStart as e:
            raise CommandError(str(e)) from e
        facts = provision.write_configuration(layout)
        demo = None if options["no_demo"] else ["--speed", str(options["demo_speed"])]
        if demo is not None and options["demo_once"]:
            demo.append("--once")
        with lock:
            self._run_in_foreground(layout, facts, demo, options)

    # -- in the foreground -------------------------------------------------------------------------------------------------
    def _run_in_foreground(
        self, layout: layouts.Layout, facts: layouts.ClusterFacts, demo: list[str] | None, options: UpOptions
    ) -> None:
        plan = processes.plan(layout, demo=demo, zookeeper_security=security.zookeeper_security(layout.folder, facts))
        supervisor = processes.Supervisor(layout, plan, restart=not options["no_restart"])
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: setattr(supervisor, "stopping", True))
        began = time.monotonic()
        # The database is migrated while ZooKeeper and the brokers start.
        waiting = {n: p for n, p in supervisor.processes.items() if not n.startswith(("zookeeper", "broker"))}
        for name in waiting:
            del supervisor.processes[name]
        supervisor.step()
        self._say("started ZooKeeper and the brokers; migrating the database")
        try:
            call_command("migrate", verbosity=0, interactive=False)
            os.environ["WEIR_PASSWORD"] = facts["password"]
            call_command("ensure_operator", username=facts["user"], token_out=str(layout.token))
            if layout.secure:
                security.ensure_users(facts)
            provision.ensure_topic_defaults(layout)
        except BaseException:
            supervisor.stop()
            raise
        finally:
            os.environ.pop("WEIR_PASSWORD", None)
        supervisor.processes.update(waiting)
        ready = False
        pending = ""
        records_due = 0.0
        while not supervisor.stopping:
            supervisor.step()
            if not ready:
                missing = self._missing(layout, facts)
                if not missing and demo is not None:
                    records_due = records_due or time.monotonic() + DEMO_SECONDS_MAX
                    if time.monotonic() < records_due and not has_records(layout, facts):
                        missing = "the first records of the demo"
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
    def _missing(layout: layouts.Layout, facts: layouts.ClusterFacts) -> str:
        """The component that is not ready yet, or ''."""
        if not zookeeper.ready(layout.zookeeper_port, security.zookeeper_security(layout.folder, facts)):
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

    def _print(self, layout: layouts.Layout, facts: layouts.ClusterFacts, options: UpOptions) -> None:
        cluster_info = {
            "bootstrap": layout.bootstrap,
            "console": layout.console,
            "user": facts["user"],
            "password": facts["password"],
            "token": layout.token.read_text().strip(),
            **({"client_config": facts["kafka_config"]} if layout.secure else {}),
        }
        write_private(layout.folder / "ready.json", json.dumps(cluster_info))
        if options["json"]:
            self.stdout.write(json.dumps(cluster_info))
        else:
            self.stdout.write(
                f"\n  bootstrap servers  {cluster_info['bootstrap']}\n  console            {cluster_info['console']}\n"
                f"  user               {cluster_info['user']}\n  password           {cluster_info['password']}\n"
                + (f"  Kafka clients      {facts['kafka_config']}\n" if layout.secure else "")
                + f"\nStop with {'' if options['detach'] else 'Ctrl-C, or '}`manage.py down --data-dir {layout.folder}`."
            )
        self.stdout.flush()

    # -- detached ----------------------------------------------------------------------------------------------------------
    def _run_detached(self, layout: layouts.Layout, options: UpOptions) -> None:
        ready = layout.folder / "ready.json"
        ready.unlink(missing_ok=True)
        layout.log("supervisor").parent.mkdir(exist_ok=True)
        command = [
            sys.executable,
            "-m",
            "weir",
            "up",
            "--data-dir",
            str(layout.folder),
            "--port-base",
            str(layout.port_base),
            "--brokers",
            str(layout.brokers),
            "--controllers",
            str(layout.controllers),
            "--demo-speed",
            str(options["demo_speed"]),
        ]
        command += [
            f"--{name.replace('_', '-')}" for name in ("no_demo", "demo_once", "no_restart", "secure") if options[name]
        ]
        log_path = layout.log("supervisor")
        position = log_path.stat().st_size if log_path.exists() else 0
        with open(log_path, "ab") as log:
            child = subprocess.Popen(
                command,
                cwd=processes.ROOT,
                stdout=subprocess.DEVNULL,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        deadline = time.monotonic() + READY_SECONDS_MAX
        with open(log_path, encoding="utf-8", errors="replace") as progress:
            progress.seek(position)
            while not ready.exists():
                if line := progress.readline():
                    self.stderr.write(line.rstrip("\n"))
                    continue
                if child.poll() is not None:
                    raise CommandError(f"The local cluster did not start; see {log_path}.")
                if time.monotonic() > deadline:
                    child.terminate()
                    raise CommandError(f"Not ready after {READY_SECONDS_MAX} s; see {layout.folder / 'logs'}.")
                time.sleep(0.1)
        self._print(layout, layouts.read_facts(layout.folder), options)


def _admin(layout: layouts.Layout, facts: layouts.ClusterFacts) -> AdminClient:
    from confluent_kafka.admin import AdminClient

    # Not from django.conf.settings, which were read before local-cluster.json was written.
    client = ClientSettings.load(Path(facts["kafka_config"])).librdkafka() if layout.secure else {}
    return AdminClient({"bootstrap.servers": layout.bootstrap, "log_level": 0, "socket.timeout.ms": 2000, **client})


def has_records(layout: layouts.Layout, facts: layouts.ClusterFacts) -> bool:
    """Return whether the topic of the demo has a record, so that the first command of a user shows data."""
    from confluent_kafka import KafkaException, TopicPartition
    from confluent_kafka.admin import OffsetSpec

    from controlplane.devcluster import demo

    latest = {TopicPartition(demo.TOPIC, p): OffsetSpec.latest() for p in range(demo.PARTITIONS)}
    admin = _admin(layout, facts)  # without a reference the client would end before its responses
    try:
        futures = admin.list_offsets(latest, request_timeout=2).values()
        return any(future.result(2).offset > 0 for future in futures)
    except (KafkaException, TimeoutError):
        return False


def _brokers_missing(layout: layouts.Layout, facts: layouts.ClusterFacts) -> str:
    from confluent_kafka import KafkaException

    admin = _admin(layout, facts)
    try:
        cluster = admin.list_topics(timeout=2)
    except KafkaException:
        return "the brokers"
    if len(cluster.brokers) < layout.brokers:
        return f"{layout.brokers - len(cluster.brokers)} of {layout.brokers} brokers"
    for name in STARTUP_TOPICS:
        topic = cluster.topics.get(name)
        if topic is None or any(p.leader < 0 for p in topic.partitions.values()):
            return f"the internal topic {name}"
    return ""
