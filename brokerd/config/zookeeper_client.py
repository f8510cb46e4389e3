"""Security settings of the ZooKeeper connection, under Kafka's names where Kafka has them.

They are read from the broker's file and from the control plane's file (`WEIR_ZOOKEEPER_CONFIG`). Kafka reads the SASL login from a
JAAS file of its JVM; here it is a setting. Does not contain znodes or sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from brokerd.cluster.protection import Protection
from brokerd.config.security import SSL_SETTINGS
from brokerd.config.types import Setting, one_of, parse_bool, properties, split_items
from brokerd.security.certificates import client_context
from brokerd.security.sasl_client import parse_login

PREFIX = "zookeeper."
ZOOKEEPER_SETTINGS: tuple[Setting, ...] = (
    Setting("zookeeper.ssl.client.enable", parse_bool, False, "Connect to ZooKeeper over TLS (secureClientPort)."),
    Setting("zookeeper.ssl.truststore.type", one_of("PEM"), "PEM", "Format of the trust store: PEM."),
    Setting(
        "zookeeper.ssl.truststore.location",
        Path,
        None,
        "PEM file with the CA certificates that sign ZooKeeper's certificates. Read at each connection.",
    ),
    Setting("zookeeper.ssl.keystore.type", one_of("PEM"), "PEM", "Format of the key store: PEM."),
    Setting(
        "zookeeper.ssl.keystore.location",
        Path,
        None,
        "PEM file with the private key and certificate chain for client authentication at ZooKeeper. Read at each connection.",
    ),
    Setting("zookeeper.ssl.keystore.password", str, None, "Password of the private key.", secret=True),
    Setting(
        "zookeeper.ssl.cipher.suites",
        split_items,
        (),
        "TLS 1.2 cipher suites, in OpenSSL's names. Empty: OpenSSL's default.",
    ),
    Setting(
        "zookeeper.ssl.endpoint.identification.algorithm",
        one_of("https", ""),
        "https",
        "https: verify the host name in ZooKeeper's certificates. Empty: do not verify.",
    ),
    Setting(
        "zookeeper.sasl.jaas.config",
        parse_login,
        None,
        'SASL login at ZooKeeper (DIGEST-MD5): ... required username="..." password="...";',
        secret=True,
    ),
    Setting(
        "zookeeper.set.acl",
        parse_bool,
        False,
        "Create znodes with an ACL for this user only. Requires zookeeper.sasl.jaas.config.",
    ),
)
_NAMES = {s.name: s for s in ZOOKEEPER_SETTINGS}
_DEFAULTS = {s.name: s.default for s in SSL_SETTINGS}


def protection(values: Mapping[str, Any]) -> Protection:
    """The protection from parsed settings. Raises ValueError for contradictory settings, CertificateError for unusable files."""
    login = values["zookeeper.sasl.jaas.config"]
    if values["zookeeper.set.acl"] and login is None:
        raise ValueError("zookeeper.set.acl requires zookeeper.sasl.jaas.config: znodes need an owner")
    context = None
    if values["zookeeper.ssl.client.enable"]:
        context = partial(client_context, _tls(values))
        context()  # report an unusable file at start-up
    return Protection(
        context, login.user if login else None, login.password if login else None, values["zookeeper.set.acl"]
    )


def _tls(values: Mapping[str, object]) -> Callable[[str], object]:
    def get(name: str) -> object:
        ours = PREFIX + ("ssl.keystore.password" if name == "ssl.key.password" else name)
        return values[ours] if ours in values else _DEFAULTS[name]

    return get


def load(path: Path) -> Protection:
    """The protection from a file that contains only these settings. Raises ValueError, CertificateError."""
    values: dict[str, object] = {s.name: s.default for s in ZOOKEEPER_SETTINGS}
    for name, text in properties(path).items():
        if name not in _NAMES:
            raise ValueError(f"{path}: unknown setting {name}; known are {', '.join(_NAMES)}")
        try:
            values[name] = _NAMES[name].read(text)
        except ValueError as e:
            raise ValueError(f"{path}: {name}: {e}") from e
    return protection(values)
