"""The SASL authenticator that a broker builds from its settings."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from brokerd.authz.sasl_server import Authenticator
from brokerd.cluster.metadata import AccessKind
from brokerd.cluster.sasl_failures import SaslFailure
from brokerd.config.broker import BrokerConfig
from brokerd.runtime.sasl_authentication import build_authenticator
from brokerd.security import scram

MECHANISM = "SCRAM-SHA-256"
SALT = b"0123456789abcdef"


def build(protocol: str, stored: dict[str, Any], *, up_to_date: bool = True) -> Authenticator | None:
    """The authenticator of a broker with one listener. `stored`: credentials of the metadata log, by "mechanism:user"."""

    def access_to(kind: AccessKind, name: str) -> tuple[int, Any]:
        assert kind is AccessKind.SCRAM
        return 0, stored.get(name)

    config = BrokerConfig.parse(
        {
            "broker.id": "1",
            "log.dirs": "/x",
            "listeners": "MAIN://127.0.0.1:0",
            "listener.security.protocol.map": f"MAIN:{protocol}",
            "inter.broker.listener.name": "MAIN",
            "sasl.enabled.mechanisms": MECHANISM,
            "sasl.mechanism.inter.broker.protocol": MECHANISM,
        }
    )
    image: Any = SimpleNamespace(access_to=access_to)
    loop: Any = SimpleNamespace(now=SimpleNamespace(mono_ms=0), call_later=lambda *arguments: None)
    jobs: Any = SimpleNamespace(lane=lambda name, threads: SimpleNamespace())
    return build_authenticator(config, lambda: image, loop, jobs, lambda: up_to_date)


def test_a_broker_without_a_sasl_listener_has_no_authenticator() -> None:
    assert build("PLAINTEXT", {}) is None


def test_credentials_are_those_of_the_metadata_log() -> None:
    credential = scram.credential(MECHANISM, scram.salt_password(MECHANISM, "secret", SALT, 4096), SALT, 4096)
    authenticator = build("SASL_PLAINTEXT", {f"{MECHANISM}:alice": credential.to_json()})
    assert authenticator is not None
    assert authenticator.know(MECHANISM, "alice") == credential
    assert authenticator.know(MECHANISM, "bob") is None
    assert authenticator.failure(MECHANISM, "bob") is SaslFailure.UNKNOWN_USER


def test_a_broker_that_does_not_follow_the_metadata_log_reports_outdated_credentials() -> None:
    authenticator = build("SASL_PLAINTEXT", {}, up_to_date=False)
    assert authenticator is not None
    assert authenticator.failure(MECHANISM, "bob") is SaslFailure.CREDENTIALS_OUTDATED
