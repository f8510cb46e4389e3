"""The client side of SASL: its login, and the frames of an authentication."""

from __future__ import annotations

import pytest

from brokerd.security.sasl_client import parse_login


def test_a_jaas_login_is_parsed_as_in_kafka_and_never_shown() -> None:
    login = parse_login(
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="bob" password="s\\"ecret";'
    )
    assert (login.user, login.password) == ("bob", 's"ecret')
    assert "ecret" not in repr(login) + str(login)
    for text in ("", 'x required username="bob";', 'x required username="b" password="c" user_b="c";'):
        with pytest.raises(ValueError) as e:
            parse_login(text)
        assert '"c"' not in str(e.value)
