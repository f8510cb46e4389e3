"""What a program needs to come in by a secured listener, under Kafka's names: the file that Kafka's own tools take as `--command-config`.

Law: a name that is not known, or a value that cannot be used, is refused with a sentence that repeats no secret. Called by the control
plane and by the pipeline's source, whose options `kafka.*` have the same names. Must not come in: addresses, sockets.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from brokerd.access.certificates import client_context
from brokerd.access.client import MECHANISMS, Introduction, Login, parse_login
from brokerd.access.settings import SSL_SETTINGS
from brokerd.listeners import PROTOCOLS
from brokerd.setting import Setting, one_of, properties

SERVERS_ONLY = frozenset(("ssl.client.auth", "ssl.principal.mapping.rules", "ssl.enabled.protocols"))
"""The versions of TLS are the brokers' to choose: librdkafka has no setting for them."""

CLIENT_SETTINGS: dict[str, Setting] = {
    s.name: s
    for s in (
        Setting("security.protocol", one_of(*PROTOCOLS), "PLAINTEXT", "That of the listener to come by."),
        Setting("sasl.mechanism", one_of(*MECHANISMS), "SCRAM-SHA-512", "How to prove who one is."),
        Setting("sasl.jaas.config", parse_login, None, 'As whom: ... required username="..." password="...";', secret=True),
        *(s for s in SSL_SETTINGS if s.name not in SERVERS_ONLY),
    )
}  # fmt: skip
_DEFAULTS = {s.name: s.default for s in (*SSL_SETTINGS, *CLIENT_SETTINGS.values())}

_LIBRDKAFKA = {
    "ssl.truststore.location": "ssl.ca.location",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
}


class ClientSettingsError(Exception):
    """A file that cannot be used; the text says which line and why."""


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """`given`: as they stand in the file, `values`: what they mean."""

    given: Mapping[str, str] = field(default_factory=dict, repr=False)
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
    def parse(given: Mapping[str, str], where: str = "settings") -> ClientSettings:
        values: dict[str, Any] = {}
        for name, text in given.items():
            setting = CLIENT_SETTINGS.get(name)
            if setting is None:
                raise ClientSettingsError(f"{where}: {name} is not known; known are {', '.join(CLIENT_SETTINGS)}")
            try:
                values[name] = setting.read(text)
            except ValueError as e:
                raise ClientSettingsError(f"{where}: {name}: {e}") from e
        settings = ClientSettings(dict(given), values)
        if settings.protocol.startswith("SASL") and settings["sasl.jaas.config"] is None:
            raise ClientSettingsError(f"{where}: {settings.protocol} needs sasl.jaas.config, which says as whom")
        return settings

    def __getitem__(self, name: str) -> Any:
        return self.values.get(name, _DEFAULTS[name])

    @property
    def protocol(self) -> str:
        return str(self["security.protocol"])

    def context(self) -> ssl.SSLContext | None:
        """Out of the files as they are now; None where there is no TLS. Raises CertificateError."""
        return client_context(self.__getitem__) if self.protocol.endswith("SSL") else None

    def introduction(self) -> Introduction | None:
        """None where nobody asks who we are."""
        if not self.protocol.startswith("SASL"):
            return None
        login: Login = self["sasl.jaas.config"]
        return Introduction(self["sasl.mechanism"], login)

    def librdkafka(self) -> dict[str, str]:
        return librdkafka({**self.given, "ssl.keystore.type": "PEM", "ssl.truststore.type": "PEM"})


def librdkafka(given: Mapping[str, str]) -> dict[str, str]:
    """The same under librdkafka's names. Names that it has itself, or that are not of security, stay as they are. Raises ValueError.

    Where no type is given, `ssl.keystore.location` means what librdkafka means by it: PKCS#12.
    """
    out: dict[str, str] = {}
    for name, value in given.items():
        match name:
            case "ssl.keystore.type" | "ssl.truststore.type":
                if value.upper() != "PEM":
                    raise ValueError(f"{name} may be PEM only; convert the file, or leave {name} out for PKCS#12")
            case "ssl.keystore.location" if "ssl.keystore.type" in given:
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
