"""The short form of changed values in lists: bounded, escaped, and only for users who may open the page of the change."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.utils import timezone, translation

from brokerd.cluster.model import NO_LEADER
from console import changed_values
from console.changed_values import NAME_CHARS_MAX, VALUE_CHARS_MAX, short_values, values_of_change
from controlplane.domain.changed_values import ChangedValue
from controlplane.selectors.changes import ChangeRow

CONFIGS = {"configs": {"retention.ms": "604800000", "cleanup.policy": "delete"}, "partitions": 3}
CHANGED = {"configs": {"retention.ms": "86400000", "cleanup.policy": "compact", "segment.ms": "1"}, "partitions": 6}


def change(before: object, after: object) -> ChangeRow:
    now = timezone.now()
    return ChangeRow(1, now, "ann", "topic.alter", "topic", "orders", "", before, after, "confirmed", "", now)


def words(html: str) -> str:
    return " ".join(re.sub("<[^>]+>", "", html).split())


@pytest.mark.parametrize(("language", "comma", "more"), [("en", ", ", "+2 more"), ("zh-hans", "、", "另有 2 项")])
def test_the_first_values_and_the_number_of_the_others(language: str, comma: str, more: str) -> None:
    with translation.override(language):
        text = words(values_of_change(change(CONFIGS, CHANGED)))
    assert text == comma.join(("cleanup.policy delete → compact", "retention.ms 604800000 → 86400000", more))


def test_a_value_without_a_name_a_new_value_and_no_value() -> None:
    assert words(values_of_change(change(5, 10))) == "5 → 10"
    assert words(values_of_change(change(None, {"alerts": True}))) == "alerts true"
    assert values_of_change(change(None, None)) == ""


def test_a_partition_without_a_leader_has_none() -> None:
    elected = words(values_of_change(change({"2": {"leader": NO_LEADER}}, {"2": {"leader": 1}})))
    assert elected == "partition 2: leader none → 1"
    lost = words(values_of_change(change({"2": {"leader": 1}}, {"2": {"leader": NO_LEADER}})))
    assert lost == "partition 2: leader 1 → none"


def test_long_values_are_cut_and_markup_is_escaped() -> None:
    html = short_values([ChangedValue("n" * 500, "<script>", "v" * 5000)], 0)
    name, before, _, after = words(html).split()
    assert (len(name), before, len(after)) == (NAME_CHARS_MAX, "&lt;script&gt;", VALUE_CHARS_MAX)


def test_a_user_who_may_not_open_the_change_sees_no_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changed_values, "may_open", lambda page: page != "change")
    assert values_of_change(change(CONFIGS, CHANGED)) == ""


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (5, "5"),
        ("a", "a"),
        (["0@1", "1@3"], '["0@1", "1@3"]'),
        ({"a": "名"}, '{"a": "名"}'),
        ("2026-11-30T10:29:38.742356+00:00", "2026-11-30 10:29:38"),
        ("2026-11-30T10:29:38+02:00", "2026-11-30T10:29:38+02:00"),
    ],
)
def test_a_value_is_shown_as_json_and_not_as_python(value: object, text: str) -> None:
    shown = unescape(short_values([ChangedValue("x", None, value)], 0))
    assert f">x {text}<" in shown
