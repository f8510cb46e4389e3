"""Buttons of the page of a move: one per possible operation, with the number of partitions that it affects. Does not contain: which operations are possible
(`controlplane.selectors.moves`), the operations (`console.views.moves`).
"""

from __future__ import annotations

from typing import NamedTuple

from django.utils.translation import gettext as _

from console.move_reviews import active_parts
from console.texts import counted, gettext_lazy
from console.views.actions import ActionButton
from controlplane.domain.move_states import MoveState, MoveVerb, PartState
from controlplane.domain.text import size_text
from controlplane.selectors import moves


class ButtonText(NamedTuple):
    """Texts of a button of a move, with placeholders: {parts} for the number of affected partitions, {active} and {waiting} for those in these
    states, {now} for the current throttle. `immediate`, `kind`: of `ActionButton`."""

    label: str
    hint: str
    immediate: bool
    kind: str = ""


BUTTONS: dict[str, ButtonText] = {
    MoveVerb.APPROVE: ButtonText(gettext_lazy("Approve"), gettext_lazy("The move does not start yet."), True),
    MoveVerb.START: ButtonText(
        gettext_lazy("Start ({parts})"), gettext_lazy("Reassignments start immediately."), True, "primary"
    ),
    MoveVerb.PROPOSE: ButtonText(
        gettext_lazy("Request approval"),
        gettext_lazy("The move overrides a safety check: another operator must approve it."),
        False,
        "primary",
    ),
    MoveVerb.PAUSE: ButtonText(
        gettext_lazy("Pause ({active} active, {waiting} queued)"),
        gettext_lazy("Active reassignments finish, no new reassignments start."),
        True,
    ),
    MoveVerb.RESUME: ButtonText(
        gettext_lazy("Resume ({waiting} queued)"), gettext_lazy("Reassignments start again."), True, "primary"
    ),
    MoveVerb.THROTTLE: ButtonText(
        gettext_lazy("Throttle (now {now})"),
        gettext_lazy("Change the throttle. It takes effect within a second."),
        False,
    ),
    MoveVerb.SCHEDULE: ButtonText(
        gettext_lazy("Maintenance window"), gettext_lazy("Reassignments start at any time."), False
    ),
    MoveVerb.DELETE_RECORDS: ButtonText(
        gettext_lazy("Delete old records of {parts}…"),
        gettext_lazy(
            "Deletes them for all consumers now, instead of by retention. Another operator must approve. It cannot be undone."
        ),
        False,
        "fatal",
    ),
    MoveVerb.CANCEL: ButtonText(
        gettext_lazy("Cancel (reverts {parts})"),
        gettext_lazy("Queued partitions stay unchanged, finished ones stay on the new replicas."),
        False,
    ),
    MoveVerb.ROLL_BACK: ButtonText(
        gettext_lazy("Roll back {parts}"), gettext_lazy("To the previous assignment, in its replica order."), False
    ),
}


def buttons(row: moves.MoveRow, counts: dict[str, int]) -> list[ActionButton]:
    """The buttons of the operations that are possible now. `counts`: partitions by state."""
    active, waiting = active_parts(counts), counts.get(PartState.WAITING, 0)
    back = moves.parts_to_roll_back(row.id) if row.state == MoveState.FAILED else active + counts.get(PartState.DONE, 0)
    affected: dict[str, int] = {
        MoveVerb.START: row.parts,
        MoveVerb.DELETE_RECORDS: counts.get(PartState.READY, 0),
        MoveVerb.CANCEL: active,
        MoveVerb.ROLL_BACK: back,
    }
    now = _("none") if row.throttle_bytes_per_s is None else f"{size_text(row.throttle_bytes_per_s)}/s"
    found = []
    for verb in row.can:
        if verb == MoveVerb.ROLL_BACK and row.state in (MoveState.CANCELLED, MoveState.FAILED) and not back:
            continue  # a cancelled move with all partitions reverted, or a failed one with all rejected
        text, parts = BUTTONS[verb], counted(affected.get(verb, 0), "partition")
        label = text.label.format(parts=parts, active=active, waiting=waiting, now=now)
        if verb == MoveVerb.CANCEL and not active:
            label = _("Cancel")
        hint = row.window_text if verb == MoveVerb.SCHEDULE and row.window_text else text.hint
        found.append(ActionButton(verb, label, hint, text.immediate, text.kind))
    return found
