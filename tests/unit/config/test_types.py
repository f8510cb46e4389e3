"""Definitions of settings: parsing, minimum, text form, Kafka's config types, and the settings file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from brokerd.config.types import (
    BOOLEAN,
    INT,
    LIST,
    LONG,
    PASSWORD,
    STRING,
    Setting,
    one_of,
    parse_bool,
    properties,
    split_items,
)


def test_a_value_below_the_minimum_is_rejected_with_the_minimum() -> None:
    setting = Setting("n", int, 5, "", low=1)
    assert setting.read("1") == 1
    with pytest.raises(ValueError, match="below the minimum 1"):
        setting.read("0")


@pytest.mark.parametrize(
    ("setting", "value", "text"),
    [
        (Setting("n", int, 5, ""), 7, "7"),
        (Setting("n", parse_bool, False, ""), True, "true"),
        (Setting("n", split_items, (), ""), ("a", "b"), "a,b"),
        (Setting("n", split_items, (), ""), (("TLS", "host", 9093),), "TLS://host:9093"),
        (Setting("n", split_items, (), ""), {"TLS": "SSL"}, "TLS:SSL"),
        (Setting("n", str, None, ""), None, None),
        (Setting("n", str, None, "", secret=True), "password", None),
    ],
)
def test_a_value_is_shown_as_text_and_a_secret_never(setting: Setting, value: Any, text: str | None) -> None:
    assert setting.show(value) == text


@pytest.mark.parametrize(
    ("setting", "kafka_type"),
    [
        (Setting("n", parse_bool, False, ""), BOOLEAN),
        (Setting("n", int, 5, ""), INT),
        (Setting("n", int, 2**31, ""), LONG),
        (Setting("n", split_items, (), ""), LIST),
        (Setting("n", str, "x", ""), STRING),
        (Setting("n", int, 5, "", secret=True), PASSWORD),
    ],
)
def test_each_setting_has_a_config_type_of_kafka(setting: Setting, kafka_type: int) -> None:
    assert setting.kafka_type == kafka_type


def test_booleans_and_words_are_read_in_any_case() -> None:
    assert parse_bool("TRUE") and not parse_bool("False")
    assert one_of("PEM", "")("pem") == "PEM"
    assert split_items(" a, b ,,") == ("a", "b")


@pytest.mark.parametrize("text", ["", "yes", "1"])
def test_a_boolean_is_true_or_false(text: str) -> None:
    with pytest.raises(ValueError, match="expected true or false"):
        parse_bool(text)


def test_an_unknown_word_is_rejected_with_the_accepted_words() -> None:
    with pytest.raises(ValueError, match=r"expected one of https, \(empty\)"):
        one_of("https", "")("http")


def test_a_settings_file_has_comments_empty_lines_and_values_with_an_equals_sign(tmp_path: Path) -> None:
    path = tmp_path / "broker.properties"
    path.write_text("# comment\n! comment\n\n a = b=c \nempty=\na.b=2\n")
    assert properties(path) == {"a": "b=c", "empty": "", "a.b": "2"}


def test_an_error_in_a_settings_file_names_the_line_and_not_the_value(tmp_path: Path) -> None:
    path = tmp_path / "broker.properties"
    path.write_text("a=b\nhunter2\n")
    with pytest.raises(ValueError, match=r"broker.properties:2: expected name=value") as rejected:
        properties(path)
    assert "hunter2" not in str(rejected.value)


def test_a_settings_file_that_cannot_be_read_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="No such file"):
        properties(tmp_path / "missing")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="not UTF-8"):
        properties(tmp_path / "binary")
