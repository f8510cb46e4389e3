"""Links of a sentence to the partitions that it names.

Invariant: only the values of the sentence's phrase become links, so no name is searched in a text. Does not contain: translations (`console.vocabulary`).
"""

from __future__ import annotations

from django.urls import reverse
from django.utils.html import conditional_escape, format_html
from django.utils.safestring import SafeString

from console.vocabulary import translated
from weir_common.durations import Duration
from weir_common.phrases import Phrase, TranslatableText, Value

PARTITION = "partition"
"""Name of the values that are a partition: `TOPIC-INDEX`."""
MARK = "\0{}\0"
"""Stands for a partition while the sentence is translated and escaped."""


def partition_links(text: str) -> SafeString:
    """The sentence in the language of the user, with a link for each partition."""
    if not isinstance(text, TranslatableText):
        return conditional_escape(translated(text))
    names: list[str] = []
    marked = _with_marks(text.phrase, names)
    assert isinstance(marked, Phrase)
    html = conditional_escape(translated(TranslatableText.of(text, marked)))
    for number, name in enumerate(names):
        topic, __, index = name.rpartition("-")
        link = format_html('<a href="{}">{}</a>', reverse("partition", args=[topic, int(index)]), name)
        html = SafeString(html.replace(MARK.format(number), link))
    return html


def _with_marks(value: Value, names: list[str]) -> Value:
    """The value with a mark in place of each partition, whose name is appended to `names`."""
    if isinstance(value, Phrase):
        values: dict[str, Value] = {}
        for name, part in value.values.items():
            if name == PARTITION and isinstance(part, str):
                values[name] = MARK.format(len(names))
                names.append(part)
            else:
                values[name] = _with_marks(part, names)
        return Phrase(value.text, values, value.plural, value.count)
    return value if isinstance(value, str | Duration) else [_with_marks(part, names) for part in value]
