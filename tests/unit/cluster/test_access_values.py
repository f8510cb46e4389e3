"""Typed readers of access entries: the field and the expected type in the error, and no credential in it."""

from __future__ import annotations

import pytest

from brokerd.cluster.access_values import InvalidAccessValue, configs_of, limits_of, number_of, text_of


def test_fields_have_their_type() -> None:
    assert text_of({"host": "*"}, "host") == "*"
    assert number_of({"iterations": 4096}, "iterations") == 4096
    assert limits_of({"producer_byte_rate": 1, "request_percentage": 0.5}) == {
        "producer_byte_rate": 1,
        "request_percentage": 0.5,
    }


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"host": 3}, "host: invalid value 3, expected a string"),
        ({}, "host: invalid value None, expected a string"),
        ({"host": "x" * 3, "n": "7"}, "n: invalid value '7', expected a number"),
        ({"host": "x", "n": True}, "n: invalid value True, expected a number"),
    ],
)
def test_another_value_is_rejected_with_the_field_and_the_expected_type(given: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidAccessValue, match=f"^{message}$") as error:
        _ = text_of(given, "host"), number_of(given, "n")
    assert error.value.field == message.partition(":")[0]


def test_an_invalid_limit_is_named() -> None:
    with pytest.raises(InvalidAccessValue, match="consumer_byte_rate: invalid value None, expected a number"):
        limits_of({"producer_byte_rate": 1, "consumer_byte_rate": None})


def test_a_credential_is_not_in_the_message() -> None:
    with pytest.raises(InvalidAccessValue, match=r"^salt: invalid value list, expected a string$"):
        text_of({"salt": ["hunter2"]}, "salt", is_secret=True)


def test_configs_are_strings() -> None:
    assert configs_of(None) == configs_of({}) == {}
    assert configs_of({"a": "b", "n": 5, "on": True}) == {"a": "b", "n": "5", "on": "true"}
