"""How a program comes to a ZooKeeper that is protected, under Kafka's names where it has them. Kafka takes the login of SASL from a JAAS file of
its JVM; here it is a setting.

Called by `config` (a broker's file) and the control plane (`WEIR_ZOOKEEPER_CONFIG`). Must not come in: znodes, sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from brokerd.access.certificates import client_context
from brokerd.access.client import parse_login
from brokerd.access.settings import SSL_SETTINGS
from brokerd.cluster.protection import Protection
from brokerd.setting import Setting, one_of, parse_bool, properties, words

PREFIX = "zookeeper."
ZOOKEEPER_SETTINGS: tuple[Setting, ...] = (
    Setting("zookeeper.ssl.client.enable", parse_bool, False, "Whether to speak TLS to ZooKeeper (its secureClientPort)."),
    Setting("zookeeper.ssl.truststore.type", one_of("PEM"), "PEM", "The form of trusted certificates: PEM."),
    Setting("zookeeper.ssl.truststore.location", Path, None, "PEM file with the certificates trusted to sign ZooKeeper's. Read at each connection."),
    Setting("zookeeper.ssl.keystore.type", one_of("PEM"), "PEM", "The form of the key and certificate: PEM."),
    Setting("zookeeper.ssl.keystore.location", Path, None, "PEM file with the private key and certificate chain shown to ZooKeeper. Read at each connection."),
    Setting("zookeeper.ssl.keystore.password", str, None, "Opens an encrypted private key.", secret=True),
    Setting("zookeeper.ssl.cipher.suites", words, (), "Cipher suites of TLS 1.2, in OpenSSL's names; empty: OpenSSL's choice."),
    Setting("zookeeper.ssl.endpoint.identification.algorithm", one_of("https", ""), "https", "Whether the names in ZooKeeper's certificates are checked; empty: not."),
    Setting("zookeeper.sasl.jaas.config", parse_login, None, 'As whom to come to ZooKeeper (SASL, DIGEST-MD5): ... required username="..." password="...";', secret=True),
    Setting("zookeeper.set.acl", parse_bool, False, "Whether the nodes made there are this user's alone; needs zookeeper.sasl.jaas.config."),
)  # fmt: skip
_NAMES = {s.name: s for s in ZOOKEEPER_SETTINGS}
_DEFAULTS = {s.name: s.default for s in SSL_SETTINGS}


def protection(values: Mapping[str, Any]) -> Protection:
    """Out of parsed settings. Raises ValueError where they do not fit together, CertificateError for files that cannot be used."""
    login = values["zookeeper.sasl.jaas.config"]
    if values["zookeeper.set.acl"] and login is None:
        raise ValueError("zookeeper.set.acl needs zookeeper.sasl.jaas.config: the nodes would be nobody's")
    context = None
    if values["zookeeper.ssl.client.enable"]:
        context = partial(client_context, _tls(values))
        context()  # a file that cannot be used is told at the start
    return Protection(context, login.user if login else None, login.password if login else None, values["zookeeper.set.acl"])  # fmt: skip


def _tls(values: Mapping[str, Any]) -> Callable[[str], Any]:
    def get(name: str) -> Any:
        ours = PREFIX + ("ssl.keystore.password" if name == "ssl.key.password" else name)
        return values[ours] if ours in values else _DEFAULTS[name]

    return get


def load(path: Path) -> Protection:
    """Out of a file with these settings alone. Raises ValueError, CertificateError."""
    values: dict[str, Any] = {s.name: s.default for s in ZOOKEEPER_SETTINGS}
    for name, text in properties(path).items():
        if name not in _NAMES:
            raise ValueError(f"{path}: {name} is not known; known are {', '.join(_NAMES)}")
        try:
            values[name] = _NAMES[name].read(text)
        except ValueError as e:
            raise ValueError(f"{path}: {name}: {e}") from e
    return protection(values)
