"""Config values with units."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.domain.config_units import hint, parse_value, parsed_all


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("retention.ms", "7 d", "604800000"),
        ("retention.ms", "1.5h", "5400000"),
        ("retention.ms", " 250 ms ", "250"),
        ("retention.ms", "unlimited", "-1"),
        ("flush.messages", "unlimited", "9223372036854775807"),
        ("max.compaction.lag.ms", "no limit", "9223372036854775807"),
        ("retention.ms", "-1", "-1"),
        ("segment.bytes", "1 GiB", "1073741824"),
        ("segment.bytes", "0.5 KiB", "512"),
        ("retention.bytes", "20 MB", "20000000"),
        ("retention.bytes", "1048576", "1048576"),
        ("cleanup.policy", "compact,delete", "compact,delete"),
        ("min.insync.replicas", "2", "2"),
        ("min.cleanable.dirty.ratio", "0.5", "0.5"),
    ],
)
def test_a_value_with_a_unit(name: str, text: str, value: str) -> None:
    assert parse_value(name, text) == value


@pytest.mark.parametrize(
    ("name", "text", "part"),
    [
        ("retention.ms", "7 parsecs", "is not a unit here"),
        ("retention.ms", "5 GiB", "is not a unit here"),
        ("segment.bytes", "1 d", "is not a unit here"),
        ("segment.bytes", "unlimited", "no value for"),
        ("retention.ms", "0.0001 s", "not a whole number of milliseconds"),
    ],
)
def test_an_unreadable_value_has_a_reason(name: str, text: str, part: str) -> None:
    with pytest.raises(ValueError, match=part):
        parse_value(name, text)


def test_all_problems_are_found_at_once() -> None:
    values, problems = parsed_all({"retention.ms": "1 x", "segment.bytes": "1 y", "flush.ms": "2 s"})
    assert (values, len(problems)) == ({"flush.ms": "2000"}, 2)


def test_only_configs_with_a_unit_have_a_hint() -> None:
    assert "7 d" in hint("retention.ms")
    assert "GiB" in hint("segment.bytes")
    assert hint("cleanup.policy") == ""


@given(st.text(max_size=40), st.sampled_from(["retention.ms", "segment.bytes", "cleanup.policy"]))
def test_any_text_is_a_value_or_a_reason(text: str, name: str) -> None:
    values, problems = parsed_all({name: text})
    assert len(values) + len(problems) == 1
    assert all(name in problem for problem in problems)
