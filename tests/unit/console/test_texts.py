"""Lazy texts, counted nouns, known languages."""

from __future__ import annotations

import pytest
from django.utils import translation

from console.texts import counted, gettext_lazy, known_language


def test_a_lazy_text_has_the_language_of_its_use() -> None:
    text, with_value = (
        gettext_lazy("Overview"),
        gettext_lazy("Copies of the record, at most {count_max:,}.", count_max=1_000),
    )
    assert f"{text} {with_value}" == "Overview Copies of the record, at most 1,000."
    with translation.override("zh-hans"):
        assert f"{text} {with_value}" == "概览 消息的份数，最多 1,000。"


def test_a_counted_noun_has_the_plural_of_the_language() -> None:
    assert (counted(1, "replica"), counted(2_000, "replica")) == ("1 replica", "2,000 replicas")
    with translation.override("zh-hans"):
        assert counted(2_000, "replica") == "2,000 个副本"
    with pytest.raises(ValueError, match="no texts"):
        counted(1, "nothing")


def test_an_unknown_language_is_english() -> None:
    assert [known_language(c) for c in ("zh-hans", "en", "xx", None, ["en"])] == ["zh-hans", "en", "en", "en", "en"]
