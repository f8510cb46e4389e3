"""Links of a sentence to the partitions that it names."""

from __future__ import annotations

from console.partition_links import partition_links
from controlplane.domain.restart import blocker
from controlplane.domain.restart_phrases import NOT_SAFE
from weir_common.phrases import joined, sentence


def test_each_partition_of_the_reasons_is_a_link() -> None:
    blockers = [blocker(1, "led<ger", 0, [1], 1), blocker(1, "b-led", 12, [1, 2], 2)]
    html = partition_links(sentence(NOT_SAFE, reasons=joined(blockers)))
    assert html.startswith("Not safe to restart yet: <a ")
    assert '<a href="/topics/b-led/12/">b-led-12</a>: without this broker, 1 replica is in sync' in html
    assert "led&lt;ger-0</a>: no other replica is in sync." in html and html.count("<a ") == 2


def test_a_text_without_a_phrase_is_escaped() -> None:
    assert partition_links("a <b>") == "a &lt;b&gt;"
