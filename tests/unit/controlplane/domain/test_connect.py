"""Configs of connectors without secrets, and back."""

from __future__ import annotations

import pytest

from controlplane.domain import connect
from controlplane.domain.connect import MASK, ConnectorState, ConnectorType


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "connection.password",
        "ssl.keystore.password",
        "database.passwd",
        "consumer.override.sasl.jaas.config",
        "client.secret",
        "aws.secret.access.key",
        "api_key",
        "apiKey",
        "snowflake.private.key.passphrase",
        "ssl.keystore.key",
        "github.token",
        "http.headers.authorization",
    ],
)
def test_values_of_secret_configs_are_hidden(name: str) -> None:
    assert connect.hide_secrets({name: "hunter2"}) == {name: MASK}
    assert connect.hide_secrets({name: ""}) == {name: ""}


@pytest.mark.parametrize("name", ["key.converter", "topics", "tasks.max", "message.key.columns", "compass.direction"])
def test_other_values_are_shown(name: str) -> None:
    assert connect.hide_secrets({name: "a"}) == {name: "a"}


def test_configs_of_the_type_password_are_hidden_whatever_their_name() -> None:
    assert connect.hide_secrets({"connection.auth": "x"}, {"connection.auth"}) == {"connection.auth": MASK}


def test_secrets_inside_of_addresses_and_properties_are_hidden() -> None:
    hidden = connect.hidden_value
    assert hidden("url", "jdbc:postgresql://shop:s3c:r3t@db:5432/x") == f"jdbc:postgresql://shop:{MASK}@db:5432/x"
    assert hidden("url", "jdbc:mysql://db/x?user=shop&password=s3cr3t&ssl=true") == (
        f"jdbc:mysql://db/x?user=shop&password={MASK}&ssl=true"
    )
    assert hidden("options", 'user="a", ssl.key.password="b c"') == f'user="a", ssl.key.password={MASK}'
    assert hidden("file", "http://db:80/a@b") == "http://db:80/a@b"


def test_a_reference_to_a_config_provider_is_no_secret() -> None:
    reference = "${file:/etc/secrets.properties:password}"
    assert connect.hidden_value("connection.password", reference) == reference
    assert connect.hidden_value("connection.password", "${env:A}-tail") == MASK
    assert connect.without_secrets(f"failed: {reference}", {"connection.password": reference}) == f"failed: {reference}"


def test_an_unchanged_hidden_value_is_the_stored_one() -> None:
    stored = {"a.password": "one", "url": "http://u:two@h/", "topics": "t"}
    shown = connect.hide_secrets(stored)
    assert connect.restore_secrets({**shown, "topics": "other"}, stored) == ({**stored, "topics": "other"}, [])
    assert connect.restore_secrets({"a.password": "new"}, stored) == ({"a.password": "new"}, [])
    changed = {"url": f"http://u:{MASK}@elsewhere/", "b.password": MASK}
    assert connect.restore_secrets(changed, stored)[1] == ["url", "b.password"], (
        "the secret of another address is unknown"
    )


def test_traces_have_no_secrets_of_the_config() -> None:
    config = {"a.password": "hunter2", "url": "http://u:tw0-two@h/", "b.password": "abc", "connection.auth": "typed!"}
    text = "cannot log in with hunter2 at http://u:tw0-two@h/, typed!, abc"
    assert connect.without_secrets(text, config, {"connection.auth"}) == (
        f"cannot log in with {MASK} at http://u:{MASK}@h/, {MASK}, abc"
    )


def test_unknown_states_and_types_are_unknown() -> None:
    assert connect.state_of("FAILED") is ConnectorState.FAILED and connect.state_of(None) is ConnectorState.UNKNOWN
    assert connect.type_of("sink") is ConnectorType.SINK and connect.type_of("header") is ConnectorType.UNKNOWN
    assert set(connect.ATTENTION) == set(ConnectorState)


def test_the_group_of_a_sink_may_be_overridden() -> None:
    assert connect.group_of("a", {}) == "connect-a"
    assert connect.group_of("a", {"consumer.override.group.id": "billing"}) == "billing"
