"""The SASL authenticator of a broker, built from its listeners. Its credentials are in the metadata log."""

from __future__ import annotations

from collections.abc import Callable

from brokerd.authz.sasl_server import Authenticator
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import AccessKind
from brokerd.config.broker import BrokerConfig
from brokerd.net.loop import Loop
from brokerd.security.scram import Credential
from brokerd.storage.jobs import Jobs


def build_authenticator(
    config: BrokerConfig,
    image: Callable[[], Image],
    loop: Loop,
    jobs: Jobs,
    up_to_date: Callable[[], bool],
) -> Authenticator | None:
    """None if no listener uses SASL. Passwords are checked in threads of `jobs`. `up_to_date` returns whether the broker has applied the newest entries of the
    metadata log."""
    sasl_listeners = [d for d in config.listeners if d.sasl]
    if not sasl_listeners:
        return None
    assert config.inter_broker is not None

    def credential(mechanism: str, user: str) -> Credential | None:
        _, value = image().access_to(AccessKind.SCRAM, f"{mechanism}:{user}")
        return Credential.from_json(value) if value is not None else None

    return Authenticator(
        config.values,
        frozenset(m for d in sasl_listeners for m in config.for_listener(d, "sasl.enabled.mechanisms")),
        credential,
        jobs.lane,
        lambda: loop.now,
        loop.call_later,
        config.inter_broker.name,
        up_to_date=up_to_date,
    )
