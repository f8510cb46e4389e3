"""The buttons of a move: one per possible operation, with the number of partitions that it affects."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from console.views.move_buttons import BUTTONS, buttons
from controlplane.domain.move_states import MoveState, MoveVerb, PartState
from controlplane.selectors.moves import VERBS

COUNTS = {PartState.COPYING: 2, PartState.WAITING: 3, PartState.DONE: 4}


def labels(state: MoveState, verbs: list[MoveVerb], counts: dict[str, int], **more: Any) -> list[str]:
    fields = {"throttle_bytes_per_s": None, "window_text": "", "parts": 9, "id": 1, **more}
    row: Any = SimpleNamespace(state=state, can=verbs, **fields)
    return [b.label for b in buttons(row, counts)]


def test_each_operation_of_each_state_has_a_text() -> None:
    assert {verb for verbs in VERBS.values() for verb in verbs} <= BUTTONS.keys()


@pytest.mark.parametrize(
    ("verb", "label"),
    [
        (MoveVerb.START, "Start (9 partitions)"),
        (MoveVerb.PAUSE, "Pause (2 active, 3 queued)"),
        (MoveVerb.THROTTLE, "Throttle (now none)"),
        (MoveVerb.CANCEL, "Cancel (reverts 2 partitions)"),
        (MoveVerb.ROLL_BACK, "Roll back 6 partitions"),
    ],
)
def test_a_label_names_the_affected_partitions(verb: MoveVerb, label: str) -> None:
    assert labels(MoveState.RUNNING, [verb], dict(COUNTS)) == [label]


def test_an_operation_without_an_effect_has_no_button() -> None:
    assert labels(MoveState.CANCELLED, [MoveVerb.ROLL_BACK], {}) == []
    assert labels(MoveState.PLANNED, [MoveVerb.CANCEL], {}) == ["Cancel"]


def test_the_window_of_a_move_is_the_hint_of_its_button() -> None:
    row: Any = SimpleNamespace(
        state=MoveState.PLANNED,
        can=[MoveVerb.SCHEDULE],
        throttle_bytes_per_s=5e6,
        window_text="22:00 to 05:30",
        parts=1,
    )
    assert [b.hint for b in buttons(row, {})] == ["22:00 to 05:30"]
