"""Apache Kafka's jars from a Maven repository, stored under build/peers. They are downloaded only from the repositories in Maven's settings."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / "build" / "peers"
FETCH_SECONDS_MAX = 600

VERSIONS = {
    # The last version that runs with ZooKeeper.
    "3.9.2": "org.slf4j:slf4j-reload4j:1.7.36",
    # The newest version with resolvable dependencies: kafka_2.13:4.4.0 needs a kafka-tools-api:4.4.0 that Maven Central does not have (20 November 2026).
    "4.3.1": "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
}
"""Version -> the logger that its distribution contains in addition to the dependencies of kafka_2.13."""

POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>weir.bench</groupId><artifactId>peer</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
FIELDS = ("groupId", "artifactId", "version", "classifier")
NOTHING_ELSE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"


class Absent(Exception):
    """The peer is not available here; the text gives the reason."""


def jars(version: str, *more: str) -> Path:
    """Directory of the jars of Apache Kafka `version` and of its artifacts `more` (kafka-tools), downloaded once. Raises Absent."""
    kafka = (f"org.apache.kafka:{name}:{version}" for name in ("kafka_2.13", *more))
    return copy_dependencies(CACHE / "-".join(["kafka", version, *more]), [*kafka, VERSIONS[version]])


def dependency(name: str, alone: bool) -> str:
    """An element of a pom.xml. `alone`: without the dependencies of the artifact."""
    fields = "".join(f"<{field}>{value}</{field}>" for field, value in zip(FIELDS, name.split(":"), strict=False))
    return f"    <dependency>{fields}{NOTHING_ELSE if alone else ''}</dependency>"


def copy_dependencies(folder: Path, names: Sequence[str], alone: bool = False) -> Path:
    """Directory of these artifacts (group:artifact:version, optionally :classifier) and, without `alone`, of their run-time dependencies, downloaded
    once. Raises Absent."""
    complete = folder / "complete"
    dependencies = "\n".join(dependency(name, alone) for name in names)
    pom = POM.format(dependencies=dependencies)
    if complete.exists() and (folder / "pom.xml").read_text() == pom:
        return folder / "lib"
    maven = shutil.which("mvn")
    if maven is None:
        raise Absent("Maven (mvn) is not installed")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "pom.xml").write_text(pom)
    command = [
        maven,
        "-B",
        "-q",
        "-f",
        str(folder / "pom.xml"),
        "dependency:copy-dependencies",
        "-DincludeScope=runtime",
        f"-DoutputDirectory={folder / 'lib'}",
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS_MAX, check=False)
    except subprocess.TimeoutExpired:
        raise Absent(f"Maven did not respond within {FETCH_SECONDS_MAX} s") from None
    if done.returncode:
        errors = [line for line in done.stdout.splitlines() if "ERROR" in line]
        raise Absent(f"Maven could not fetch it: {errors[0] if errors else done.stderr[-300:]}")
    complete.touch()
    return folder / "lib"
