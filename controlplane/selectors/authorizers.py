"""The settings of the brokers that decide about permissions in addition to ACLs. They are read from the brokers, because only a broker knows its
properties file. The report names each broker that does not respond within a second. Does not contain: decisions about principals (`permissions`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from controlplane.clients.all_brokers import BrokerAddress, call_brokers
from controlplane.clients.broker_configs import describe_broker
from controlplane.clients.connection import KafkaConnection
from controlplane.domain.broker_config import ReportedConfig
from controlplane.models import Broker
from controlplane.selectors.permissions import AuthorizerOptions

AUTHORIZER, SUPER_USERS, ALLOW_IF_NO_ACL = (
    "authorizer.class.name",
    "super.users",
    "allow.everyone.if.no.acl.found",
)


class AuthorizerState(StrEnum):
    """Enforcement of ACLs by the brokers: all that answered, none of them, some of them, or no broker answered."""

    ENFORCED = "enforced"
    NONE = "none"
    DIFFERENT = "different"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class AuthorizerReport:
    """`enforcing`: brokers with an authorizer. `without`: brokers without one, which allow every operation. `silent`: brokers that did not respond. `super_users` and
    `allow_if_no_acl` have a value only if it is the same on all brokers with an authorizer."""

    state: AuthorizerState
    super_users: tuple[str, ...] = ()
    allow_if_no_acl: bool = False
    without: tuple[int, ...] = ()
    silent: tuple[int, ...] = ()
    enforcing: tuple[int, ...] = ()

    @property
    def is_missing(self) -> bool:
        """No broker that answered has an authorizer."""
        return self.state is AuthorizerState.NONE

    @property
    def is_different(self) -> bool:
        return self.state is AuthorizerState.DIFFERENT

    @property
    def is_unknown(self) -> bool:
        return self.state is AuthorizerState.UNKNOWN

    def options(self, requested: AuthorizerOptions) -> AuthorizerOptions:
        """The options of a query, completed by the settings of the brokers."""
        return AuthorizerOptions(
            super_users=tuple(dict.fromkeys((*requested.super_users, *self.super_users))),
            allow_if_no_acl=requested.allow_if_no_acl or self.allow_if_no_acl,
            enabled=not self.is_missing,
        )


def authorizer_report() -> AuthorizerReport:
    """Send a request to all registered brokers, which takes at most a second per 16 brokers."""
    brokers = [BrokerAddress(b.broker_id, b.host, b.port) for b in Broker.objects.order_by("pk")]
    ids = {(b.host, b.port): b.broker_id for b in brokers}

    def call(connection: KafkaConnection) -> dict[str, ReportedConfig]:
        return describe_broker(connection, ids[connection.host, connection.port])

    responses = call_brokers(brokers, call)
    return _report({a.broker_id: a.value for a in responses})


def _report(responses: Mapping[int, Mapping[str, ReportedConfig] | None]) -> AuthorizerReport:
    reported = {broker: values for broker, values in responses.items() if values is not None}
    enforcing = {broker: values for broker, values in reported.items() if _value(values, AUTHORIZER)}
    users = [_users(_value(values, SUPER_USERS)) for values in enforcing.values()]
    return AuthorizerReport(
        state=_state(len(reported), len(enforcing)),
        super_users=tuple(u for u in users[0] if all(u in other for other in users)) if users else (),
        allow_if_no_acl=bool(enforcing)
        and all(_value(v, ALLOW_IF_NO_ACL).lower() == "true" for v in enforcing.values()),
        without=tuple(broker for broker in reported if broker not in enforcing),
        silent=tuple(broker for broker, values in responses.items() if values is None),
        enforcing=tuple(enforcing),
    )


def _state(reported: int, enforcing: int) -> AuthorizerState:
    if not reported:
        return AuthorizerState.UNKNOWN
    if not enforcing:
        return AuthorizerState.NONE
    return AuthorizerState.ENFORCED if enforcing == reported else AuthorizerState.DIFFERENT


def _users(text: str) -> tuple[str, ...]:
    return tuple(u for u in (part.strip() for part in text.split(";")) if u)


def _value(values: Mapping[str, ReportedConfig], name: str) -> str:
    found = values.get(name)
    return "" if found is None else (found.value or "").strip()
