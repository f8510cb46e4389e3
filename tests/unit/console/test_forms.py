"""Forms parse the input of operators, and show the errors of services beside their fields."""

from __future__ import annotations

from typing import Any

import pytest

from console import forms
from controlplane.domain.scope import DrainScope
from controlplane.services import Rejected


def cleaned_data(form: Any) -> dict[str, Any]:
    assert form.is_valid(), form.errors
    found: dict[str, Any] = form.cleaned_data
    return found


def test_an_error_of_a_service_is_beside_its_field_or_above_the_form() -> None:
    form = forms.TopicForm({"name": "t", "partitions": "1"})
    form.is_valid()
    form.reject(Rejected("too short", "configs.retention.ms"))
    form.reject(Rejected("not now", "nowhere"))
    assert form.errors["configs"] == ["too short"] and form.non_field_errors() == ["not now"]
    move = forms.MoveForm({"scope": "{}"})
    move.is_valid()
    move.reject(Rejected("gone", "scope"))
    assert "gone" in move.non_field_errors(), "a hidden field has no place for an error"


@pytest.mark.parametrize(
    ("typed", "value"), [("1.5", 1_500_000), ("0.0000014", 1), ("", None), ("2000", 2_000_000_000)]
)
def test_megabytes_are_bytes(typed: str, value: int | None) -> None:
    form = forms.ThrottleForm({"throttle_bytes_per_s": typed})
    assert cleaned_data(form)["throttle_bytes_per_s"] == value


def test_all_problems_of_a_topic_are_shown_at_once() -> None:
    form = forms.TopicForm({"name": "a b", "partitions": "0", "configs": "no equals\nretention.ms=soon"})
    assert not form.is_valid()
    assert {"name", "partitions", "configs"} <= set(form.errors)
    assert any("has no '='" in e for e in form.errors["configs"])
    assert any("retention.ms" in e for e in form.errors["configs"])


def test_configs_are_entered_with_units_one_per_line() -> None:
    given = {"name": "t", "partitions": "3", "configs": "retention.ms = 7 d\n\nsegment.bytes=256 MiB\n"}
    assert cleaned_data(forms.TopicForm(given))["configs"] == {
        "retention.ms": "604800000",
        "segment.bytes": "268435456",
    }
    assert forms.config_lines("a=b=c\n = \nx") == (
        {"a": "b=c", "": ""},
        ["“x” has no '='. Enter name=value."],
    )


def test_topics_of_an_archive_are_separated_by_lines_or_commas() -> None:
    assert cleaned_data(forms.ArchiveForm({"topics": "a, b\nc,,\n"}))["topics"] == ["a", "b", "c"]


@pytest.mark.parametrize(("typed", "valid"), [("orders", True), ("order", False), ("", False)])
def test_a_deletion_is_confirmed_by_the_name(typed: str, valid: bool) -> None:
    form = forms.DestroyForm("orders", {"confirm_name": typed, "comment": "unused"})
    assert form.is_valid() is valid and forms.DestroyForm("orders", {"confirm_name": "orders"}).is_valid() is False


@pytest.mark.parametrize(
    ("given", "window"),
    [
        ({}, None),
        ({"stop_by": "05:30"}, {"stop_by": "05:30"}),
        ({"opens": "22:00", "stop_by": "05:30"}, {"opens": "22:00", "stop_by": "05:30"}),
        ({"opens": "22:00", "days": ["0", "5"]}, {"opens": "22:00", "stop_by": "", "days": [0, 5]}),
    ],
)
def test_a_window_is_entered_as_times_and_days(given: dict[str, Any], window: dict[str, Any] | None) -> None:
    form = forms.ScheduleForm(given)
    cleaned_data(form)
    assert form.window() == window


def test_an_invalid_window_is_shown_at_its_end() -> None:
    form = forms.ScheduleForm({"opens": "22:00"})
    form.is_valid()
    form.reject(Rejected("the window is empty", "window"))
    assert form.errors["stop_by"] == ["the window is empty"]


def move(**fields: str) -> forms.MoveForm:
    given = {"scope": '{"kind": "drain", "broker": 2}', "comment": "rack work"}
    caps = {"parts_in_flight_max": "8", "parts_per_broker_max": "4"}
    return forms.MoveForm({**given, **caps, **fields})


@pytest.mark.parametrize(
    ("chosen", "mode", "handover"),
    [("", "copy", ""), ("copy", "copy", ""), ("tail", "tail", ""), ("tail_early", "tail", "early")],
)
def test_one_choice_is_the_mode_and_the_hand_over(chosen: str, mode: str, handover: str) -> None:
    found = cleaned_data(move(mode=chosen))
    assert (found["mode"], found["handover"], found["scope"]) == (mode, handover, DrainScope(broker=2))


@pytest.mark.parametrize("scope", ["{", "[]", '{"kind": "sideways"}'])
def test_a_form_without_a_reviewed_move_is_rejected(scope: str) -> None:
    form = move(scope=scope)
    assert not form.is_valid() and "Review the move again" in str(form.errors["scope"])


def test_a_reason_is_required_only_where_data_is_copied_or_deleted() -> None:
    assert not forms.ReasonForm({"comment": " "}).is_valid() and forms.DecideForm({}).is_valid()
    drained = forms.EndDrainForm("broker 2", {"comment": "x"})
    assert drained.fields["uncordon"].label == "Uncordon broker 2 and restore leadership"
