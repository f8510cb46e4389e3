"""Advice for failed logins, by reason. Constant texts, which the console translates. Does not contain: who may see them."""

from __future__ import annotations

from brokerd.cluster.sasl_failures import SaslFailure

LOGIN_ADVICE: dict[str, str] = {
    SaslFailure.UNKNOWN_USER: "Create the user on the page Users, or correct the user name in the client.",
    SaslFailure.WRONG_PASSWORD: "Correct the password in the client, or change it on the page of the user.",
    SaslFailure.OTHER_MECHANISM: "Change the mechanism in the client, or add a credential for this mechanism to the user.",
    SaslFailure.CREDENTIALS_OUTDATED: "Check the connection of the broker to ZooKeeper: a new user or password may not have arrived.",
    SaslFailure.MECHANISM_NOT_ENABLED: "Use a mechanism of sasl.enabled.mechanisms of the listener, or add this mechanism there.",
    SaslFailure.REAUTHENTICATION_CHANGED: "Open a new connection in the client for another user or mechanism.",
    SaslFailure.INVALID_TOKEN: "Check issuer, audience and expiry of the token. The log of the broker has the details.",
    SaslFailure.MALFORMED: "Check the SASL settings of the client: its messages are not of this mechanism.",
}
"""An unknown reason, of a newer broker, has no advice."""
