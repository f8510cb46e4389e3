"""Every text has the same placeholders in both forms, and a sentence made of it is English until it is translated."""

from __future__ import annotations

import re

from controlplane.domain import page_phrases
from weir_common.phrases import counted, render, sentence

PLACEHOLDER = re.compile(r"{(\w+)}")


def test_both_forms_of_a_text_have_the_same_placeholders() -> None:
    found = list(page_phrases.texts())
    assert ("The broker is down.", "") in found and page_phrases.ASSIGNMENT in found
    for text, plural in found:
        assert not plural or sorted(PLACEHOLDER.findall(text)) == sorted(PLACEHOLDER.findall(plural)), text
        assert text.format(**dict.fromkeys(PLACEHOLDER.findall(text), "x"))


def test_a_sentence_keeps_its_values_for_a_translation() -> None:
    one, two = (counted(n, *page_phrases.ASSIGNMENT) for n in (1, 2))
    assert (one, two) == ("1 partition, manual assignment", "2 partitions, manual assignment")
    title = sentence(page_phrases.DRAIN_BROKER, broker="3")
    assert title == "Drain broker 3"
    assert render(title.phrase, lambda text, plural, count: "{broker} leeren") == "3 leeren"
