"""Problems of clients that brokers reject: their names, their failed logins, the advice."""

from __future__ import annotations

from dataclasses import replace

from brokerd.cluster.rejection_reasons import RejectionReason
from controlplane.domain.alert import alerts
from controlplane.domain.alert_client_cases import (
    CLIENT_CHARS_MAX,
    LOGINS_MAX,
    clients_rejected,
    rejected_client_name,
    rejected_subject,
)
from controlplane.domain.alert_types import AlertFacts, ClientRejection, FailedLoginFacts, RejectedClientFacts

LOGIN_FAILS = RejectedClientFacts("10.0.0.9", RejectionReason.AUTHENTICATION_FAILED, 40, "10.0.0.9")


def text_of(client: RejectedClientFacts) -> str:
    (found,) = alerts(AlertFacts(rejected=(client,)))
    return found.text


def test_a_client_without_authentication_has_the_name_of_its_address() -> None:
    assert rejected_client_name("User:etl", "10.0.0.9") == "User:etl"
    assert rejected_client_name("", "10.0.0.9") == rejected_client_name("User:ANONYMOUS", "10.0.0.9") == "10.0.0.9"


def test_a_long_principal_is_shortened_in_the_subject_and_not_in_the_parts() -> None:
    name = "User:" + "n" * CLIENT_CHARS_MAX
    (case,) = clients_rejected(AlertFacts(rejected=(replace(LOGIN_FAILS, client=name),)))
    assert case.subject == rejected_subject(name, "authentication_failed") == f"{name[:250]} (authentication failed)"
    assert case.parts == ClientRejection(name, RejectionReason.AUTHENTICATION_FAILED)


def test_the_first_failed_logins_are_named_and_the_others_counted() -> None:
    logins = tuple(FailedLoginFacts(f"u{n}", "PLAIN", "wrong_password") for n in range(LOGINS_MAX + 2))
    text = text_of(replace(LOGIN_FAILS, logins=logins))
    assert "user u2 (PLAIN: wrong password)" in text and "u3" not in text and "and 2 more" in text


def test_an_operation_without_authorization_is_named() -> None:
    denied = replace(
        LOGIN_FAILS,
        client="User:etl",
        reason=RejectionReason.UNAUTHORIZED,
        client_id="app",
        operation="describe_configs",
        resource_type="topic",
        resource_name="flights",
    )
    assert "describe configs topic flights (client ID app, address 10.0.0.9)." in text_of(denied)


def test_an_address_that_is_the_name_of_the_client_is_shown_once() -> None:
    assert text_of(LOGIN_FAILS).count("10.0.0.9") == 1
    named = text_of(replace(LOGIN_FAILS, client_id="app"))
    assert named.count("10.0.0.9") == 1 and "(client ID app)" in named
    assert "(address 10.0.0.9)" in text_of(replace(LOGIN_FAILS, client="User:etl"))
