"""The forms of a bulk operation: config lines with units, all errors at once, the confirmation of a deletion."""

from __future__ import annotations

import pytest

from console.bulk_forms import BulkApplyForm, BulkTopicForm
from console.forms import config_lines
from controlplane.services.bulk_topics import BulkChange, BulkOperation


def test_lines_of_configs() -> None:
    found, problems = config_lines("retention.ms = 7 d\n\nflush.ms=\nno equals\na=b=c")
    assert found == {"retention.ms": "7 d", "flush.ms": "", "a": "b=c"}
    assert problems == ["“no equals” has no '='. Enter name=value."]


def test_a_line_without_a_value_removes_the_override() -> None:
    form = BulkTopicForm({"operation": "configs", "configs": "retention.ms=1 d\nflush.ms=", "comment": "x"})
    assert form.is_valid(), form.errors
    assert form.cleaned_data["change"] == BulkChange(BulkOperation.CONFIGS, {"retention.ms": "86400000"}, ("flush.ms",))


def test_every_wrong_line_has_its_error() -> None:
    form = BulkTopicForm({"operation": "configs", "configs": "retention.ms=1 x\nsegment.bytes=2 y\nz", "comment": ""})
    assert len(form.errors["configs"]) == 3
    assert "comment" in form.errors
    assert BulkTopicForm({"operation": "configs", "configs": "", "comment": "x"}).errors["configs"]
    assert "operation" in BulkTopicForm({"operation": "explode", "comment": "x"}).errors


@pytest.mark.parametrize(("typed", "valid"), [("2", True), (" 2 ", True), ("3", False), ("", False)])
def test_a_deletion_is_confirmed_by_the_number_of_topics(typed: str, valid: bool) -> None:
    sent = {"operation": "delete", "comment": "x", "topics": '{"a": 1, "b": 3}', "confirm_count": typed}
    assert BulkApplyForm(sent).is_valid() is valid
