"""Django's settings of the mail server, from WEIR_SMTP_URL."""

from __future__ import annotations

import pytest

from weir.settings import mail_server


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
