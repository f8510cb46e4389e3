"""Django's settings of the mail server and of the database, from their URLs."""

from __future__ import annotations

import logging

import pytest
from django.core.exceptions import ImproperlyConfigured

from weir.settings import DATABASE_WAITS, database, mail_server


@pytest.mark.parametrize(
    ("url", "port", "tls", "ssl"),
    [
        ("smtp://mail.example", 25, False, False),
        ("smtp://mail.example:2525", 2525, False, False),
        ("smtp+starttls://mail.example", 587, True, False),
        ("smtps://mail.example", 465, False, True),
    ],
)
def test_the_scheme_chooses_tls_and_the_port(url: str, port: int, tls: bool, ssl: bool) -> None:
    found = mail_server(url)
    assert (found["host"], found["port"], found["use_tls"], found["use_ssl"]) == ("mail.example", port, tls, ssl)


def test_the_login_is_decoded() -> None:
    found = mail_server("smtps://on%40call:p%2Fw@mail.example")
    assert (found["user"], found["password"]) == ("on@call", "p/w")


def test_a_database_url_may_have_tls_and_several_hosts() -> None:
    found = database(
        "postgres://weir:p%40ss@10.0.0.1,10.0.0.2:5432/weir?sslmode=require&target_session_attrs=read-write"
    )
    assert (found["HOST"], found["PORT"], found["PASSWORD"]) == ("10.0.0.1,10.0.0.2", "5432", "p@ss")
    assert found["OPTIONS"] == {**DATABASE_WAITS, "sslmode": "require", "target_session_attrs": "read-write"}


def test_an_unknown_parameter_of_a_database_url_is_rejected() -> None:
    with pytest.raises(ImproperlyConfigured, match=r"unknown parameter sslmod; allowed: sslmode"):
        database("postgres://weir@10.0.0.1/weir?sslmod=require")


def test_changes_of_a_zookeeper_connection_are_not_logged() -> None:
    """Each management command with a connection printed "Connecting to ..." between its own lines."""
    client, protocol = logging.getLogger("kazoo.client"), logging.getLogger("kazoo.protocol.connection")
    assert not client.isEnabledFor(logging.INFO) and not protocol.isEnabledFor(logging.INFO)
    assert client.isEnabledFor(logging.WARNING)
