"""Problems of clients that brokers reject, with their names, and the values for the placeholders of the texts. Pure.

Does not contain: the texts, and the severity of the kind (`alert`); the rates from which a client is a problem (`services.rejected_clients`).
"""

from __future__ import annotations

from brokerd.cluster.rejection_reasons import RejectionReason
from controlplane.domain.alert_cases import about, names_of
from controlplane.domain.alert_phrases import REJECTED, AlertPhrase
from controlplane.domain.alert_types import (
    AlertCase,
    AlertFacts,
    ClientRejection,
    FailedLoginFacts,
    RejectedClientFacts,
)
from controlplane.domain.login_advice import LOGIN_ADVICE
from controlplane.domain.text import leading_digit
from weir_common.phrases import Phrase

ANONYMOUS = "User:ANONYMOUS"


def rejected_client_name(principal: str, host: str) -> str:
    """The name of a rejected client: its principal, or its address if it is not authenticated."""
    return principal if principal not in ("", ANONYMOUS) else host


LOGINS_MAX = 3
"""Maximum number of failed logins in the text of an alert."""

CLIENT_CHARS_MAX = 250
"""Maximum number of characters of a principal in the subject of an alert: a certificate may have a longer name."""


def rejected_subject(client: str, reason: str) -> str:
    """Identifies the alert in silences and for receivers of notifications. The row has the parts in columns."""
    return f"{client[:CLIENT_CHARS_MAX]} ({reason.replace('_', ' ')})"


def _login(x: FailedLoginFacts) -> Phrase:
    failure = Phrase(x.failure.replace("_", " "))
    values = {"user": x.user, "mechanism": x.mechanism or Phrase(AlertPhrase.NO_MECHANISM), "failure": failure}
    return Phrase(AlertPhrase.LOGIN if x.user else AlertPhrase.LOGIN_WITHOUT_USER, values)


def _rejection_text(f: RejectedClientFacts) -> Phrase:
    if not f.logins:
        return Phrase(REJECTED[f.reason])
    shown = [_login(x) for x in f.logins[:LOGINS_MAX]]
    return Phrase(AlertPhrase.LOGINS_FAIL, {"logins": names_of(shown, len(f.logins))})


def _rejected_advice(f: RejectedClientFacts) -> Phrase:
    """For failed logins: that for the most frequent one with a known reason."""
    if f.reason is RejectionReason.UNAUTHORIZED:
        return Phrase(AlertPhrase.CHECK_PERMISSION)
    known = (LOGIN_ADVICE[x.failure] for x in f.logins if x.failure in LOGIN_ADVICE)
    return Phrase(next(known, AlertPhrase.CORRECT_CLIENT))


def _source(f: RejectedClientFacts) -> Phrase | str:
    """The client ID and the address, without what is the name of the client already."""
    if f.client == f.host:
        return Phrase(AlertPhrase.CLIENT, {"client": f.client_id}) if f.client_id else ""
    if f.client_id:
        return Phrase(AlertPhrase.CLIENT_AND_ADDRESS, {"client": f.client_id, "address": f.host})
    return Phrase(AlertPhrase.ADDRESS, {"address": f.host})


def clients_rejected(facts: AlertFacts) -> list[AlertCase]:
    return [
        AlertCase(
            rejected_subject(f.client, f.reason),
            {
                "who": f.client,
                "rate": about(f.per_min, AlertPhrase.PER_MINUTE, leading_digit),
                "why": _rejection_text(f),
                "advice": _rejected_advice(f),
                "operation": Phrase(
                    AlertPhrase.OPERATION,
                    {
                        "operation": f.operation.replace("_", " "),
                        "resource": f"{f.resource_type.replace('_', ' ')} {f.resource_name}",
                    },
                )
                if f.operation
                else "",
                "source": _source(f),
            },
            parts=ClientRejection(f.client, f.reason),
        )
        for f in facts.rejected
        if f.reason in REJECTED
    ]
