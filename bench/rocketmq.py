"""`python -m bench.rocketmq`: delayed messages of Weir beside those of Apache RocketMQ 5, in one run: rate in, lateness, memory and CPU of the broker.

One broker of each system runs, with one replica, and acknowledges from the page cache (RocketMQ: ASYNC_MASTER, ASYNC_FLUSH). Each system has its usual client:
librdkafka in Python, and RocketMQ's Java client. Each round, in turn: (1) `--pending` messages are written that are due in 2 to 3 hours; (2) `--due` messages
are due at times spread over `--window` seconds, and a consumer measures how late each arrives. RocketMQ's settings are its defaults, so its timer wheel has a
precision of one second (`timerPrecisionMs`); `--precision-ms` changes it. Its memory is printed with and without the pages of mapped files.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench import delays
from bench.delays import LEAD_S, Lateness
from bench.kernel import cpu_clock, rss_mb
from bench.peer.fetch import CACHE, copy_dependencies
from bench.peer.systems import System, Weir, wait_for
from weir_common.java import find_java

ROOT = Path(__file__).resolve().parents[1]
SOURCES = [ROOT / "bench" / "java" / f"{name}.java" for name in ("RocketDelays", "RocketHalves")]
VERSION = "5.4.0"
"""The newest version of which Maven Central has the broker, the name server and the client (26 November 2026)."""
HEAP = ("-Xms1g", "-Xmx1g")
"""That of Kafka's brokers in bench-peer. The script of RocketMQ uses 8 GB."""
OPENED = ("java.base/java.nio", "java.base/sun.nio.ch", "java.base/jdk.internal.ref", "java.base/java.lang")
FAR_MS, FAR_WINDOW_MS = 2 * 3_600_000, 3_600_000
RECEIVE_S_MAX = 300


class RocketMQ(System):
    """One broker and one name server. Raises Absent without Maven or without the jars."""

    name = f"rocketmq-{VERSION}"

    def __init__(self, folder: Path, precision_ms: int) -> None:
        super().__init__(folder, 4)  # a broker listens on its port, and on those beside it
        names = [f"org.apache.rocketmq:rocketmq-{part}:{VERSION}" for part in ("namesrv", "broker", "client")]
        self.jars = copy_dependencies(CACHE / f"rocketmq-{VERSION}", names)
        self.classes = CACHE / f"rocketmq-{VERSION}" / "classes"
        subprocess.run(
            ["javac", "-nowarn", "-cp", f"{self.jars}/*", "-d", str(self.classes), *map(str, SOURCES)], check=True
        )
        self.precision_ms = precision_ms
        self.name_server = f"127.0.0.1:{self.base + 1}"

    def java(self, main: str, *arguments: str, heap: tuple[str, ...] = HEAP) -> list[str]:
        opened = [part for name in OPENED for part in ("--add-opens", f"{name}=ALL-UNNAMED")]
        home = f"-Duser.home={self.folder}"  # its logs
        return [str(find_java()), *heap, *opened, home, "-cp", f"{self.classes}:{self.jars}/*", main, *arguments]

    def prepare(self) -> None:
        (self.folder / "namesrv.conf").write_text(f"listenPort={self.base + 1}\nrocketmqHome={self.folder}\n")
        settings = {
            "rocketmqHome": self.folder,
            "brokerClusterName": "bench",
            "brokerName": "broker",
            "brokerId": 0,
            "brokerRole": "ASYNC_MASTER",
            "flushDiskType": "ASYNC_FLUSH",
            "namesrvAddr": self.name_server,
            "brokerIP1": "127.0.0.1",
            "listenPort": self.base + 5,
            "storePathRootDir": self.folder / "store",
            "storePathCommitLog": self.folder / "store" / "commitlog",
            "timerPrecisionMs": self.precision_ms,
            "autoCreateTopicEnable": "true",
        }
        (self.folder / "broker.conf").write_text("".join(f"{k}={v}\n" for k, v in settings.items()))

    def start(self) -> None:
        self.prepare()
        home = {"ROCKETMQ_HOME": str(self.folder)}
        main = "org.apache.rocketmq.namesrv.NamesrvStartup"
        self.spawn("namesrv", self.java(main, "-c", str(self.folder / "namesrv.conf"), heap=("-Xmx256m",)), home)
        main = "org.apache.rocketmq.broker.BrokerStartup"
        self.spawn("broker-1", self.java(main, "-c", str(self.folder / "broker.conf")), home)
        wait_for(lambda: b"boot success" in (self.folder / "broker-1.log").read_bytes(), "RocketMQ's broker")

    def client(self, *arguments: str) -> list[str]:
        return self.java("RocketDelays", *arguments, heap=("-Xmx512m",))


@dataclass(frozen=True, slots=True)
class Measurements:
    """One round of one system. `cpu_us`: CPU of the broker per pending message in microseconds. `memory_mb`: resident set; `anonymous_mb`: without the pages
    of mapped files."""

    in_per_s: float
    cpu_us: float
    memory_mb: float
    anonymous_mb: float
    late: Lateness


def weir_pass(system: Weir, given: argparse.Namespace, number: int) -> Measurements:
    """`number`: of messages in earlier rounds."""
    pid, value = system.broker_pids()[1], os.urandom(given.bytes)
    now_ms, before, began = int(time.time() * 1000), cpu_clock([pid]), time.monotonic()
    step = FAR_WINDOW_MS / given.pending
    delays.produce(system.bootstrap, (now_ms + FAR_MS + int(i * step) for i in range(given.pending)), value, number)
    seconds = time.monotonic() - began
    cpu = (cpu_clock([pid]) - before) / given.pending * 1e6
    starts, first = delays.ends(system.bootstrap), int((time.time() + LEAD_S) * 1000)
    delays.produce(system.bootstrap, delays.near_times(given.due, first, given.window), value, number + given.pending)
    late, _ = delays.consumed(system.bootstrap, starts, given.due, LEAD_S + given.window + RECEIVE_S_MAX)
    return Measurements(given.pending / seconds, cpu, rss_mb(pid), rss_mb(pid, "RssAnon"), late)


def rocket_pass(system: RocketMQ, given: argparse.Namespace, round_: int) -> Measurements:
    """Raises SystemExit when a message was not stored or not delivered."""
    pid = system.running["broker-1"].pid

    def sent(topic: str, count: int, first_ms: int, window_ms: int) -> float:
        command = system.client(
            "send", system.name_server, topic, str(count), str(first_ms), str(window_ms), str(given.bytes)
        )
        return results(command, "seconds")[0]

    before = cpu_clock([pid])
    seconds = sent("far", given.pending, int(time.time() * 1000) + FAR_MS, FAR_WINDOW_MS)
    cpu = (cpu_clock([pid]) - before) / given.pending * 1e6
    topic = f"near-{round_ + 1}"
    first = int((time.time() + LEAD_S) * 1000)
    sent(topic, given.due, first, int(given.window * 1000))
    longest = int(LEAD_S + given.window + RECEIVE_S_MAX)
    late = results(system.client("receive", system.name_server, topic, str(given.due), str(longest)), "late")
    return Measurements(given.pending / seconds, cpu, rss_mb(pid), rss_mb(pid, "RssAnon"), Lateness(late))


def results(command: list[str], name: str) -> list[float]:
    """The numbers on the lines of the client's output that begin with `name`. Raises SystemExit when the client fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"RocketMQ's client ended with {done.returncode}: {done.stderr[-2000:]}")
    return [float(line.split()[1]) for line in done.stdout.splitlines() if line.startswith(f"{name} ")]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.rocketmq", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pending", type=int, default=200_000, help="messages of a round that are due in hours")
    parser.add_argument("--due", type=int, default=20_000, help="messages whose lateness is measured")
    parser.add_argument("--window", type=float, default=20.0, help="seconds over which they are due")
    parser.add_argument("--bytes", type=int, default=100, help="bytes of a value")
    parser.add_argument("--precision-ms", type=int, default=1_000, help="timerPrecisionMs of RocketMQ")
    given = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "weir.settings")
    weir = Weir(Path(tempfile.mkdtemp(prefix="rocketmq-weir-")), 1)
    rocket = RocketMQ(Path(tempfile.mkdtemp(prefix="rocketmq-")), given.precision_ms)
    passes: dict[str, list[Measurements]] = {weir.name: [], rocket.name: []}
    try:
        rocket.start()
        weir.start()
        delays.make_topics(weir)
        for round_ in range(given.rounds):
            for system in (weir, rocket) if round_ % 2 else (rocket, weir):
                if isinstance(system, Weir):
                    found = weir_pass(system, given, round_ * (given.pending + given.due))
                else:
                    found = rocket_pass(system, given, round_)
                passes[system.name].append(found)
                print(
                    f"round {round_ + 1}, {system.name:<14} in {found.in_per_s:>7,.0f}/s, {found.cpu_us:>5.1f} us of broker CPU, memory "
                    f"{found.memory_mb:,.0f} MB ({found.anonymous_mb:,.0f} anonymous), {found.late.text()}  [load {os.getloadavg()[0]:.1f}]",
                    flush=True,
                )
    finally:
        rocket.close()
        weir.close()
    return report(passes[weir.name], passes[rocket.name])


def report(ours: list[Measurements], theirs: list[Measurements]) -> int:
    """Prints the medians of the ratios. Returns 1 if Weir delivered a message early."""
    pairs = list(zip(ours, theirs, strict=True))
    for title, ratios in (
        ("messages written per second", [a.in_per_s / b.in_per_s for a, b in pairs]),
        ("broker CPU per message", [a.cpu_us / b.cpu_us for a, b in pairs]),
        ("memory", [a.memory_mb / b.memory_mb for a, b in pairs]),
    ):
        print(f"weir / rocketmq, {title}: {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    return int(any(a.late.early for a in ours))


if __name__ == "__main__":
    sys.exit(main())
