"""The tested clients: version, installation and command of each. Everything fetched or built is in `build/clients`; a client that is not available
raises Absent with the reason.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from bench.peer.fetch import Absent, copy_dependencies
from weir_common.java import find_java

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
BUILT = ROOT / "build" / "clients"
BUILD_SECONDS_MAX = 900


@dataclass(frozen=True, slots=True)
class StartableProgram:
    """A program that can be started; the features are added to the command."""

    version: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    prepare: Callable[[], StartableProgram]
    spark: bool = False


def run(command: Sequence[str], cwd: Path) -> str:
    """Raises Absent if the command fails."""
    program = shutil.which(command[0])
    if program is None:
        raise Absent(f"{command[0]} is not installed")
    try:
        done = subprocess.run(
            [program, *command[1:]], cwd=cwd, capture_output=True, text=True, timeout=BUILD_SECONDS_MAX, check=False
        )
    except subprocess.TimeoutExpired:
        raise Absent(f"{command[0]} did not end within {BUILD_SECONDS_MAX} s") from None
    if done.returncode:
        raise Absent(f"{' '.join(command[:3])}: {(done.stderr or done.stdout).strip()[-400:]}")
    return done.stdout


# -- Python ----------------------------------------------------------------------------------------------------------------
def module(name: str, version: str) -> StartableProgram:
    return StartableProgram(version, [sys.executable, "-m", f"tests.foreign.{name}.client"])


def distribution(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        raise Absent(f"{name} is not installed") from None


def confluent() -> StartableProgram:
    import confluent_kafka

    return module("confluent", f"{distribution('confluent-kafka')} (librdkafka {confluent_kafka.libversion()[0]})")


def kafka_python() -> StartableProgram:
    return module("kafka_python", distribution("kafka-python"))


def aiokafka() -> StartableProgram:
    return module("aiokafka", distribution("aiokafka"))


def kcat() -> StartableProgram:
    reported = run(["kcat", "-V"], ROOT)
    found = re.search(r"Version (\S+) .*librdkafka (\S+)", reported)
    if found is None:
        raise Absent("kcat does not print its version")
    return module("kcat", f"{found[1]} (librdkafka {found[2]})")


# -- Java ------------------------------------------------------------------------------------------------------------------
JAVA_VERSIONS = ("3.9.2", "4.3.1")
JOSE4J = "org.bitbucket.b_c:jose4j:0.9.6"
"""A dependency of the client's OAUTHBEARER that it does not include (4.x does not start without it)."""


def java(version: str) -> Callable[[], StartableProgram]:
    def prepare() -> StartableProgram:
        folder = BUILT / f"java-{version}"
        wanted = [f"org.apache.kafka:kafka-clients:{version}", f"org.apache.kafka:kafka-streams:{version}", JOSE4J]
        lib = copy_dependencies(folder, wanted)
        classes = folder / "classes"
        shutil.rmtree(classes, ignore_errors=True)
        folders = ["java", "java4"] if int(version.partition(".")[0]) >= 4 else ["java"]
        sources = sorted(str(p) for f in folders for p in (HERE / f).glob("*.java"))
        run(["javac", "-nowarn", "-cp", f"{lib}/*", "-d", str(classes), *sources], ROOT)
        flags = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        return StartableProgram(version, [str(find_java()), *flags, "-cp", f"{classes}:{lib}/*", "Client"])

    return prepare


# -- Node ------------------------------------------------------------------------------------------------------------------
def node(folder: str, package: str) -> Callable[[], StartableProgram]:
    def prepare() -> StartableProgram:
        there = BUILT / folder
        complete = there / "complete"
        lock = (HERE / folder / "package-lock.json").read_text()
        if not complete.exists() or complete.read_text() != lock:  # node-rdkafka builds librdkafka: minutes
            there.mkdir(parents=True, exist_ok=True)
            for name in ("package.json", "package-lock.json"):
                shutil.copy(HERE / folder / name, there / name)
            run(["npm", "ci", "--no-audit", "--no-fund"], there)
            run(["node", "-e", f"require({package!r})"], there)  # npm may be configured to run no build scripts
            complete.write_text(lock)
        version = json.loads((there / "node_modules" / package / "package.json").read_text())["version"]
        runtime = run(["node", "--version"], there).strip()
        program = shutil.which("node")
        assert program is not None
        return StartableProgram(
            f"{version} (Node {runtime})",
            [program, str(HERE / folder / "client.js")],
            {"NODE_PATH": str(there / "node_modules")},
        )

    return prepare


# -- Go --------------------------------------------------------------------------------------------------------------------
def go(folder: str, package: str) -> Callable[[], StartableProgram]:
    def prepare() -> StartableProgram:
        binary = BUILT / folder
        BUILT.mkdir(parents=True, exist_ok=True)
        run(["go", "build", "-o", str(binary), "."], HERE / folder)
        version = run(["go", "list", "-m", "-f", "{{.Version}}", package], HERE / folder).strip()
        return StartableProgram(f"{version} ({run(['go', 'env', 'GOVERSION'], ROOT).strip()})", [str(binary)])

    return prepare


# -- Spark -----------------------------------------------------------------------------------------------------------------
SPARK_SOURCE = "4.1.2"
"""Version of Spark and its kafka source: the newest source on Maven Central, none yet for the PySpark of the pipeline (21 November 2026)."""
SPARK_PYTHON = (f"pyspark=={SPARK_SOURCE}", "py4j==0.10.9.9")
SPARK_JARS = (
    f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SPARK_SOURCE}",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",  # for delegation tokens, which are not used here
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.0",
)


def spark() -> StartableProgram:
    lib = copy_dependencies(BUILT / "spark", SPARK_JARS, alone=True)  # the rest is among PySpark's own jars
    site = BUILT / f"pyspark-{SPARK_SOURCE}"
    if not (site / "complete").exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade", "--target", str(site)]
        run([*pip, *SPARK_PYTHON], ROOT)
        (site / "complete").touch()
    ready = module("spark", f"{SPARK_SOURCE}, PySpark and kafka source (kafka-clients 3.9.1)")
    environment = {"SPARK_JARS": ",".join(str(p) for p in sorted(lib.glob("*.jar"))), "PYTHONPATH": f"{site}:{ROOT}"}
    return StartableProgram(ready.version, ready.command, environment)


COLUMNS: tuple[Column, ...] = (
    Column("confluent-kafka", confluent),
    Column("kafka-python", kafka_python),
    Column("aiokafka", aiokafka),
    Column("kcat", kcat),
    *(Column(f"java-{v}", java(v)) for v in JAVA_VERSIONS),
    Column("kafkajs", node("kafkajs", "kafkajs")),
    Column("node-rdkafka", node("node_rdkafka", "node-rdkafka")),
    Column("franz-go", go("franz", "github.com/twmb/franz-go")),
    Column("sarama", go("sarama", "github.com/IBM/sarama")),
    Column("spark", spark, spark=True),
)
