"""Security settings of a Kafka client, under Kafka's names: the file that Kafka's tools accept as `--command-config`.

An unknown name or an invalid value is rejected with a message that contains no secret. The options `kafka.*` of the pipeline's source
have the same names. Does not contain addresses or sockets.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from brokerd.config.listeners import PROTOCOLS
from brokerd.config.security import SSL_SETTINGS
from brokerd.config.types import Setting, one_of, properties
from brokerd.security.certificates import client_context
from brokerd.security.sasl_client import MECHANISMS, Login, SaslClientExchange, parse_login

SERVERS_ONLY = frozenset(("ssl.client.auth", "ssl.principal.mapping.rules", "ssl.enabled.protocols"))
"""Settings of brokers only. TLS versions are among them because librdkafka has no setting for them."""

CLIENT_SETTINGS: dict[str, Setting] = {
    s.name: s
    for s in (
        Setting("security.protocol", one_of(*PROTOCOLS), "PLAINTEXT", "Security protocol of the listener."),
        Setting("sasl.mechanism", one_of(*MECHANISMS), "SCRAM-SHA-512", "SASL mechanism."),
        Setting(
            "sasl.jaas.config",
            parse_login,
            None,
            'SASL login: ... required username="..." password="...";',
            secret=True,
        ),
        *(s for s in SSL_SETTINGS if s.name not in SERVERS_ONLY),
    )
}
_DEFAULTS = {s.name: s.default for s in (*SSL_SETTINGS, *CLIENT_SETTINGS.values())}

_LIBRDKAFKA = {
    "ssl.truststore.location": "ssl.ca.location",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
}


class ClientSettingsError(Exception):
    """Invalid client settings. The message names the file, the setting or line, and the cause."""


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """`texts` are the texts of the file, `values` the parsed values."""

    texts: Mapping[str, str] = field(default_factory=dict, repr=False)
    values: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @staticmethod
    def load(path: Path) -> ClientSettings:
        """Read a `.properties` file. Raises ClientSettingsError."""
        try:
            given = properties(path)
        except ValueError as e:
            raise ClientSettingsError(str(e)) from e
        return ClientSettings.parse(given, str(path))

    @staticmethod
    def parse(texts: Mapping[str, str], where: str = "settings") -> ClientSettings:
        values: dict[str, object] = {}
        for name, text in texts.items():
            setting = CLIENT_SETTINGS.get(name)
            if setting is None:
                raise ClientSettingsError(f"{where}: unknown setting {name}; known are {', '.join(CLIENT_SETTINGS)}")
            try:
                values[name] = setting.read(text)
            except ValueError as e:
                raise ClientSettingsError(f"{where}: {name}: {e}") from e
        settings = ClientSettings(dict(texts), values)
        if settings.protocol.startswith("SASL") and settings["sasl.jaas.config"] is None:
            raise ClientSettingsError(f"{where}: {settings.protocol} requires a login in sasl.jaas.config")
        return settings

    def __getitem__(self, name: str) -> Any:
        return self.values.get(name, _DEFAULTS[name])

    @property
    def protocol(self) -> str:
        return str(self["security.protocol"])

    def context(self) -> ssl.SSLContext | None:
        """A TLS context from the current content of the files. None without TLS. Raises CertificateError."""
        return client_context(self.__getitem__) if self.protocol.endswith("SSL") else None

    def sasl_exchange(self) -> SaslClientExchange | None:
        """The SASL exchange of a new connection. None without SASL."""
        if not self.protocol.startswith("SASL"):
            return None
        login: Login = self["sasl.jaas.config"]
        return SaslClientExchange(self["sasl.mechanism"], login)

    def librdkafka(self) -> dict[str, str]:
        return librdkafka({**self.texts, "ssl.keystore.type": "PEM", "ssl.truststore.type": "PEM"})


def librdkafka(texts: Mapping[str, str]) -> dict[str, str]:
    """The same settings under librdkafka's names. librdkafka's own names and settings outside security are unchanged. Raises ValueError.

    Without `ssl.keystore.type`, `ssl.keystore.location` has librdkafka's meaning: a PKCS#12 file.
    """
    out: dict[str, str] = {}
    for name, value in texts.items():
        match name:
            case "ssl.keystore.type" | "ssl.truststore.type":
                if value.upper() != "PEM":
                    raise ValueError(f"{name} must be PEM; convert the file, or remove {name} to use PKCS#12")
            case "ssl.keystore.location" if "ssl.keystore.type" in texts:
                out["ssl.certificate.location"] = out["ssl.key.location"] = value
            case "ssl.keystore.key" | "ssl.keystore.certificate.chain" | "ssl.truststore.certificates":
                out[_LIBRDKAFKA[name]] = value.replace("\\n", "\n")
            case "ssl.endpoint.identification.algorithm":
                out[name] = value or "none"
            case "sasl.jaas.config":
                login = parse_login(value)
                out["sasl.username"], out["sasl.password"] = login.user, login.password
            case _:
                out[_LIBRDKAFKA.get(name, name)] = value
    return out
