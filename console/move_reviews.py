"""Sentences of the reviews of a cancellation, a roll-back and a change of the throttle of a move."""

from __future__ import annotations

from collections.abc import Mapping

from django.utils.translation import gettext as _

from console import durations
from console.texts import counted
from controlplane.domain.move_states import UNDER_WAY, PartState
from controlplane.domain.text import size_text
from controlplane.selectors.move_returns import CopiesBack
from controlplane.selectors.moves import MoveRow


def active_parts(parts: Mapping[str, int]) -> int:
    return sum(parts.get(state, 0) for state in UNDER_WAY)


def cancel_lines(parts: Mapping[str, int]) -> list[str]:
    """`parts`: the number of partitions in each state."""
    return [
        _("{waiting}: unchanged.").format(waiting=counted(parts.get(PartState.WAITING, 0), "queued partition")),
        _("{active}: reverted to the previous assignment, copied data is deleted.").format(
            active=counted(active_parts(parts), "active partition")
        ),
        _("{done}: kept on the new replicas. A roll-back also reverts these.").format(
            done=counted(parts.get(PartState.DONE, 0), "finished partition")
        ),
    ]


def roll_back_lines(parts: Mapping[str, int], copies: CopiesBack, throttle_bytes_per_s: int | None) -> list[str]:
    return [
        _("{done}: copied back to the previous assignment, in its replica order.").format(
            done=counted(parts.get(PartState.DONE, 0), "finished partition")
        ),
        *_copy_lines(copies, throttle_bytes_per_s),
        _("{active}: reverted, copied data is deleted.").format(
            active=counted(active_parts(parts), "active partition")
        ),
        _("{waiting}: unchanged.").format(waiting=counted(parts.get(PartState.WAITING, 0), "queued partition")),
    ]


def _copy_lines(copies: CopiesBack, throttle_bytes_per_s: int | None) -> list[str]:
    lines = []
    size = size_text(copies.bytes_total)
    if copies.bytes_total and throttle_bytes_per_s:
        lines.append(
            _(
                "{size} to copy. The throttle of {rate}/s per broker also applies to the roll-back: at least {time}."
            ).format(
                size=size,
                rate=size_text(throttle_bytes_per_s),
                time=durations.duration(copies.bytes_busiest / throttle_bytes_per_s),
            )
        )
    elif copies.bytes_total:
        lines.append(_("{size} to copy, without a throttle.").format(size=size))
    if copies.unknown:
        lines.append(_("The size of {parts} is unknown.").format(parts=counted(copies.unknown, "partition")))
    return lines


def remaining_line(row: MoveRow) -> str:
    """The bytes left to copy; empty if they are unknown."""
    if row.bytes_total is None or row.bytes_done is None:
        return ""
    return _("Left to copy: {size}.").format(size=size_text(max(0, row.bytes_total - row.bytes_done)))
