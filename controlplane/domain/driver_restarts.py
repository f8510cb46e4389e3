"""Rule for the restart of a Spark driver that has ended. Archives and runs of Spark jobs have the same rule. Pure."""

from __future__ import annotations

from weir_common.phrases import joined, sentence

RESTARTS_MAX = 5
"""Maximum number of consecutive restarts without progress. After them the job fails with the cause."""

RESTART_SECONDS = 5
"""Delay before the second consecutive restart. The first restart is immediate. The delay doubles with each further restart."""


NOTE_CHARS_MAX = 2_000
"""Maximum number of characters of a note: a list shows it."""


def restart_note(log: str) -> str:
    """`log`: the driver's error or the end of its log, in the driver's language."""
    return _with_log(sentence("The Spark process ended and is restarted."), log)


def failure_note(log: str) -> str:
    text = sentence("The Spark process ended {count} times without a committed batch.", count=RESTARTS_MAX)
    return _with_log(text, log)


def _with_log(text: str, log: str) -> str:
    shown = log.strip()[: NOTE_CHARS_MAX - len(text) - 1]
    return joined([text, shown]) if shown else text


def is_given_up(restarts_in_a_row: int) -> bool:
    return restarts_in_a_row >= RESTARTS_MAX


def restart_delay_s(restarts_in_a_row: int) -> float:
    """Seconds between the end of a driver and its restart."""
    return RESTART_SECONDS * 2**restarts_in_a_row if restarts_in_a_row else 0
