"""Texts and tones of the reasons why a move waits, in the language of the request. Does not read the database or the request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from console.states import TONES
from console.vocabulary import translated
from controlplane.domain.wait_reason import NEEDS_OPERATOR, TEXTS, Wait
from weir_common.phrases import LIST_SEPARATOR


def wait_text(waits: Iterable[Wait]) -> str:
    """The reasons with their numbers of partitions."""
    return _(LIST_SEPARATOR).join(map(_waiting, waits))


def wait_tone(waits: Sequence[Wait]) -> str:
    """The tone of the worst reason: red or amber if an operator must act, "" if the move continues automatically."""
    tones = {TONES.get(wait.reason, "amber") for wait in waits if wait.reason in NEEDS_OPERATOR}
    return "red" if "red" in tones else "amber" if tones else ""


def _waiting(wait: Wait) -> str:
    reason = translated(TEXTS[wait.reason])
    if not wait.partitions:
        return reason
    text = ngettext("{reason} ({count} partition)", "{reason} ({count} partitions)", wait.partitions)
    return text.format(reason=reason, count=f"{wait.partitions:,}")
