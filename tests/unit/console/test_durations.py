"""Durations on pages, in the language of the request."""

from __future__ import annotations

import json

import pytest
from django.utils.translation import override

from console import durations, fragments
from console.vocabulary import phrase_text
from controlplane.domain.text import coarse_duration, duration
from weir_common.durations import Duration, DurationUnit
from weir_common.phrases import Phrase, from_json, to_json

CHINESE = "zh-hans"


@pytest.mark.parametrize(
    ("value", "english", "chinese"),
    [
        (duration(42), "42 s", "42 秒"),
        (duration(4_380), "1 h 13 min", "1 小时 13 分钟"),
        (Duration.of("1,234.5", DurationUnit.SECOND), "1,234.5 s", "1,234.5 秒"),
        (duration(604_800), "7 d", "7 天"),
        (Duration.of("1", DurationUnit.YEAR), "1 y", "1 年"),
    ],
)
def test_a_duration_has_the_units_of_the_language(value: Duration, english: str, chinese: str) -> None:
    assert durations.localized(value) == english == str(value)
    with override(CHINESE):
        assert durations.localized(value) == chinese


def test_a_duration_in_a_stored_phrase_has_the_units_of_the_language() -> None:
    phrase = from_json(json.loads(json.dumps(to_json(Phrase("in {time}", {"time": coarse_duration(600)})))))
    assert isinstance(phrase, Phrase)
    assert phrase_text(phrase) == "in 10 min"
    with override(CHINESE):
        assert "10 分钟" in phrase_text(phrase)


@pytest.mark.parametrize("name", ["5 s", "1 h 13 min", "7 d"])
def test_a_name_that_reads_as_a_duration_does_not_change(name: str) -> None:
    """Every string was searched for durations, so a topic with such a name got another one on Chinese pages. It is also the form of durations that a version
    before this one stored."""
    for language in ("en", CHINESE):
        with override(language):
            assert name in phrase_text(Phrase("in {time}", {"time": name}))
            assert name in phrase_text(Phrase("in {time}", {"time": [name, Phrase("{name}", {"name": name})]}))


@pytest.mark.parametrize(
    ("ms", "at_least", "text", "exact"),
    [
        (400, False, "0.4 s", ""),
        (42_900, False, "42 s", ""),
        (120_000, False, "2 min", "120 s"),
        (5_025_000, False, "1 h 23 min", "5,025 s"),
        (0, True, "&gt; 0.0 s", ""),
        (0, False, ">0<", ""),
    ],
)
def test_a_lag_in_time_is_a_duration_with_its_seconds_as_title(ms: int, at_least: bool, text: str, exact: str) -> None:
    shown = fragments.lag_time(ms, at_least)
    assert text in shown
    assert (f'title="{exact}"' in shown) is bool(exact)
    assert ("lower bound" in shown) is at_least


def test_a_default_that_a_form_reads_has_english_units() -> None:
    with override(CHINESE):
        assert fragments.config_text("retention.ms", "604800000") == "7 天"
        assert fragments.exact_text("retention.ms", "604800000") == "7 d"
