"""Forms of dead letters: filters, target and reason, the edit of one."""

from __future__ import annotations

import pytest

from console.dead_letter_forms import DeadLetterForm, EditForm, SendForm
from controlplane.domain.dead_letters import DeadLetterKind, ResendTarget
from controlplane.domain.produce import NewRecord
from controlplane.domain.record_query import StartPosition
from controlplane.services import Rejected

RETRY = DeadLetterKind.RETRY
LETTER = NewRecord(b"\xffkey", b"value", (("trace", b"7"), ("raw", b"\xff")))


def test_filters_become_a_query() -> None:
    form = DeadLetterForm(
        {"group": "billing", "since": "2026-11-25", "until": "2026-11-25 10:00:00", "partitions": "1-2"}
    )
    assert form.is_valid(), form.errors
    query = form.query("t.dead")
    assert (query.start, query.partitions) == (StartPosition.TIMESTAMP, (1, 2))
    assert (query.until_ms or 0) - (query.timestamp_ms or 0) == 36_000_999
    assert query.filters.group == "billing"  # type: ignore[attr-defined]
    assert set(form.body()) == {"group", "partitions", "from_ms", "until_ms"}
    form = DeadLetterForm({"partitions": "x"})
    assert form.is_valid()
    with pytest.raises(Rejected) as rejection:
        form.query("t.dead")
    form.reject(rejection.value)
    form.reject(Rejected("The end is before the start.", "until_ms"))
    assert set(form.errors) == {"partitions", "until"}


def test_a_sending_needs_a_target_and_a_reason() -> None:
    form = SendForm("orders", RETRY, {"target": "topic", "comment": "fixed"})
    assert form.is_valid() and form.target is ResendTarget.TOPIC
    form = SendForm("orders", RETRY, {"target": "other"})
    assert not form.is_valid() and set(form.errors) == {"target", "comment"}
    form = SendForm("dlq.tasks", DeadLetterKind.SHARE_GROUP, {"target": "retry", "comment": "fixed"})
    assert form.is_valid() and form.target is ResendTarget.RETRY


def test_an_unchanged_edit_is_the_dead_letter() -> None:
    shown = EditForm("orders", RETRY, LETTER, 3)
    assert (shown["key"].value(), shown["key_format"].value()) == ("ff6b6579", "hex")
    assert "raw" in shown.fields["headers"].help_text
    data = {name: shown[name].value() for name in ("key", "key_format", "value", "value_format", "headers")}
    form = EditForm("orders", RETRY, LETTER, 3, {**data, "target": "retry", "comment": "x"})
    assert form.is_valid(), form.errors
    assert form.record() == NewRecord(b"\xffkey", b"value", (("trace", b"7"), ("raw", b"\xff")), 3)


def test_an_edited_key_chooses_its_partition() -> None:
    data = {"key": "k", "key_format": "text", "value_format": "text", "target": "retry", "comment": "x"}
    form = EditForm("orders", RETRY, LETTER, 3, {**data, "tombstone": "on"})
    assert form.is_valid() and form.record() == NewRecord(b"k", None, (("raw", b"\xff"),), None)
    form = EditForm("orders", RETRY, LETTER, 3, {**data, "tombstone": "on", "value": "v"})
    assert form.is_valid()
    with pytest.raises(Rejected, match="tombstone has no value"):
        form.record()
