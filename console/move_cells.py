"""HTML of the state, the progress and the ETA of a move.

Invariant: a move that waits for an operator has the tone of a problem. Does not read the database or the request.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from console import durations
from console.fragments import bar, state, unknown
from console.states import TONES
from console.texts import gettext_lazy
from console.wait_texts import wait_text, wait_tone
from controlplane.domain.text import size_text
from controlplane.domain.wait_reason import Wait
from controlplane.selectors.move_loads import BlockedParts

MOVE_MODES: dict[tuple[str, str], tuple[str, str]] = {
    ("copy", ""): (gettext_lazy("Copy all data"), gettext_lazy("All records are copied to the new replicas.")),
    ("tail", ""): (
        gettext_lazy("New data only"),
        gettext_lazy("No existing record is copied: retention deletes the old records on the old replicas."),
    ),
    ("tail", "early"): (
        gettext_lazy("New data only, switch leaders now"),
        gettext_lazy(
            "Leadership moves as soon as the new replicas are in sync. The old brokers keep the old records until retention deletes them."
        ),
    ),
}
"""(mode, handover) of a move -> label, explanation."""


def eta(bounds: Sequence[float] | None, needs_bytes_per_s: int | None = None) -> SafeString:
    """ETA as a range of seconds. `needs_bytes_per_s`: the move cannot finish below this rate, because more data arrives than is copied."""
    if needs_bytes_per_s is not None:
        needs = _("needs {rate}/s").format(rate=size_text(needs_bytes_per_s))
        return format_html('{} <span class="sub">{}</span>', state("will_not_finish"), needs)
    if not bounds:
        return unknown(_("Too few bytes are copied for an estimate."))
    return format_html("{} – {}", durations.duration(bounds[0]), durations.duration(bounds[1]))


NO_END = {
    "planned": gettext_lazy("The move has not started."),
    "approved": gettext_lazy("The move has not started."),
    "paused": gettext_lazy("The move is paused."),
    "done": gettext_lazy("The move has finished."),
    "cancelled": gettext_lazy("The move has finished."),
    "rolled_back": gettext_lazy("The move has finished."),
    "failed": gettext_lazy("The move has finished."),
}
"""States of a move without an ETA, and the reason."""


def ends(
    word: str,
    waits_for: Sequence[Wait],
    bounds: Sequence[float] | None,
    needs_bytes_per_s: int | None,
    in_words: bool = False,
) -> SafeString:
    """ETA of a move, or the reason for having none. `in_words`: show the wait reason instead of a dash."""
    if waits_for and in_words:
        return _wait_mark(waits_for)
    cause = (
        _("The move waits for {waits_for}.").format(waits_for=wait_text(waits_for)) if waits_for else NO_END.get(word)
    )
    return unknown(cause) if cause is not None else eta(bounds, needs_bytes_per_s)


def move_mode(mode: str, handover: str) -> SafeString:
    label, explanation = MOVE_MODES[mode, handover]
    return format_html('<span title="{}">{}</span>', explanation, label)


def move_status(word: str, waits_for: Sequence[Wait], needs_bytes_per_s: int | None = None) -> SafeString:
    """State of a move, and what keeps it from its end: the wait reason if none of its partitions makes progress, or the rate that it needs."""
    if waits_for:
        return format_html("{} {}", state(word), _wait_mark(waits_for, "waits"))
    if needs_bytes_per_s is not None:
        return format_html('{} <span class="waits">{}</span>', state(word), state("will_not_finish"))
    return state(word)


def _wait_mark(waits_for: Sequence[Wait], kind: str = "") -> SafeString:
    """The wait reason of a move: with the tone of a problem if an operator must act, else faint."""
    tone = wait_tone(waits_for)
    text = _("waits for {waits_for}").format(waits_for=wait_text(waits_for))
    classes = f"{kind} st st-{tone}" if tone else f"sub {kind}"
    return format_html('<span class="{}" title="{}">{}</span>', classes.strip(), text, text)


NOT_BLUE = {"failed": "red", "cancelled": "grey"}
REVERTED = gettext_lazy("Rolled back: the previous assignment is restored.")


def move_bar(state: str, percent: float | None) -> SafeString:
    """Progress of a move. Empty after a roll-back: a full bar would mean done."""
    return SafeString("") if percent is None else bar(percent, NOT_BLUE.get(state, "blue"))


def move_percent(percent: float | None) -> SafeString:
    return unknown(REVERTED) if percent is None else format_html("{}%", f"{percent:.0f}")


def blocked_tone(blocked: Sequence[BlockedParts]) -> str:
    """Tone of the note about blocked partitions: red if one of the causes is red, else amber."""
    tones = {TONES.get(f"part.{b.cause}", TONES.get(b.cause, "amber")) for b in blocked}
    return "red" if "red" in tones else "amber"
