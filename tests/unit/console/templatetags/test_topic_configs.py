"""The field of a config and the meaning of a value."""

from __future__ import annotations

from typing import Any

import pytest

from console.templatetags.topic_configs import config_field, with_meaning
from controlplane.selectors.topics import ConfigRow


def row(**values: Any) -> ConfigRow:
    given = {"name": "retention.ms", "value": "604800000", "default": "604800000", "source": "default", "applied": None}
    return ConfigRow(**{**given, "doc": "", "acts": True, "choices": [], **values})


def test_a_text_has_its_default_and_an_example() -> None:
    field = config_field(row(), {}, {})
    assert 'placeholder="7 d"' in field and "12 h" in field and 'value=""' in field


@pytest.mark.parametrize(
    ("name", "default", "example"),
    [
        ("segment.bytes", "1073741824", "1 GiB"),
        ("max.message.bytes", "1048588", "1048588"),
        ("retention.bytes", "-1", "unlimited"),
        ("flush.ms", "9223372036854775807", "unlimited"),
    ],
)
def test_the_example_of_a_field_is_read_as_exactly_the_default(name: str, default: str, example: str) -> None:
    assert f'placeholder="{example}"' in config_field(row(name=name, default=default), {}, {})


def test_an_override_has_its_meaning_and_an_error_its_mark() -> None:
    assert "1 d" in config_field(row(source="topic", value="86400000"), {}, {})
    field = config_field(row(), {"retention.ms": "<x>"}, {"retention.ms": "<wrong>"})
    assert "&lt;x&gt;" in field and "&lt;wrong&gt;" in field and 'aria-invalid="true"' in field


def test_an_enumeration_is_a_choice_with_the_default_first() -> None:
    field = config_field(row(name="compression.type", default="producer", choices=["producer", "zstd"]), {}, {})
    assert field.index('<option value="" selected>default (producer)') < field.index('<option value="zstd">')
    assert "<input" in config_field(row(choices=["a"]), {"retention.ms": "other"}, {}), "an invalid text stays visible"


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("retention.ms", "86400000", "86400000 (1 d)"),
        ("segment.bytes", 1 << 30, "1073741824 (1 GiB)"),
        ("partitions", 3, "3"),
    ],
)
def test_a_value_with_its_meaning(name: str, value: Any, text: str) -> None:
    assert with_meaning(name, value) == text
