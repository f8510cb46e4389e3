"""Apache ZooKeeper from the jars of the pyspark package: command line, settings, readiness.

Those of a local cluster: loopback only, bounded heap (docs/safety.md section 2). `server_command` also runs a server of an ensemble (the command
`zookeeper_server`). Does not contain: other processes.
"""

from __future__ import annotations

import importlib.util
import os
import socket
import ssl
from dataclasses import dataclass, field
from pathlib import Path

from weir_common.files import write_private
from weir_common.java import JavaMissing, find_java

JARS = (
    "netty-",
    "zookeeper-3",
    "zookeeper-jute",
    "slf4j-api",
    "metrics-core",
    "snappy-java",
    "log4j-api",
    "log4j-core",
    "log4j-slf4j2-impl",
)
HEAP = "-Xmx256m"
MAIN_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
"""It runs a server of an ensemble, or a standalone server if the settings name no other one."""

PLAINTEXT_CONFIG = """\
clientPort={port}
clientPortAddress=127.0.0.1
"""
SECURED_CONFIG = """\
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
COMMON_CONFIG = """\
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
class ZooKeeperSecurity:
    """One TLS port and one user with a password. `pem`: key and certificate, `ca`: the certificate of its authority."""

    pem: Path
    ca: Path
    user: str
    password: str = field(repr=False)


def jars() -> list[Path]:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise JavaMissing("the pyspark package, which contains the ZooKeeper jars, is not installed: run `make setup`")
    folder = Path(spec.origin).parent / "jars"
    return sorted(jar for jar in folder.iterdir() if jar.name.startswith(JARS))


def open_settings(port: int, data: Path) -> str:
    """zoo.cfg of a server without authentication, on loopback."""
    return PLAINTEXT_CONFIG.format(port=port) + COMMON_CONFIG.format(data=data)


def prepare(folder: Path, port: int, zookeeper_security: ZooKeeperSecurity | None = None) -> list[str]:
    """Write the settings into `folder` and return the command line that runs ZooKeeper there."""
    data = folder / "data"
    data.mkdir(parents=True, exist_ok=True)
    settings, more = folder / "zoo.cfg", []
    if zookeeper_security is None:
        settings.write_text(open_settings(port, data))
    else:
        settings.write_text(
            SECURED_CONFIG.format(port=port, pem=zookeeper_security.pem, ca=zookeeper_security.ca)
            + COMMON_CONFIG.format(data=data)
        )
        jaas = folder / "jaas.conf"
        write_private(jaas, JAAS.format(user=zookeeper_security.user, password=zookeeper_security.password))
        # In FIPS mode, the default, ZooKeeper has no DIGEST-MD5.
        more = [f"-Djava.security.auth.login.config={jaas}", "-Dzookeeper.fips-mode=false"]
    (folder / "log4j2.properties").write_text(LOGGING)
    return server_command(
        settings,
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Xshare:auto",
        "-Dzookeeper.preAllocSize=1024",
        *more,
    )


def server_command(settings: Path, *options: str, heap: str = HEAP) -> list[str]:
    """The command line of a ZooKeeper server. Its logging is configured by `log4j2.properties` next to `settings`. `options`: of the JVM."""
    return [
        str(find_java()),
        heap,
        f"-Dlog4j2.configurationFile={settings.parent / 'log4j2.properties'}",
        *options,
        "-cp",
        os.pathsep.join(str(j) for j in jars()),
        MAIN_CLASS,
        str(settings),
    ]


def ready(port: int, zookeeper_security: ZooKeeperSecurity | None = None) -> bool:
    """True as soon as the server answers `srvr` with a mode (it answers `ruok` before it serves requests)."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as plain:
            if zookeeper_security is None:
                return _serves(plain)
            context = ssl.create_default_context(cafile=str(zookeeper_security.ca))
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
