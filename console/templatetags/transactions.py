"""Template tags of transactions: the state of one, and why one hangs in a partition."""

from __future__ import annotations

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext

from console.fragments import state, state_label
from console.states import TONES
from console.texts import gettext_lazy
from controlplane.domain.transactions import TransactionVerdict
from controlplane.selectors.transactions import TransactionRow

register = template.Library()

LABELS: dict[TransactionVerdict, tuple[str, str, str]] = {
    TransactionVerdict.ACTIVE: ("active", "calm", gettext_lazy("Its coordinator knows the transaction.")),
    TransactionVerdict.UNDETERMINED: (
        "undetermined",
        "grey",
        gettext_lazy("A coordinator did not respond, or moves to another broker."),
    ),
    TransactionVerdict.UNKNOWN_PRODUCER: (
        gettext_lazy("unknown producer"),
        "red",
        gettext_lazy("No coordinator has a transactional ID with this producer ID."),
    ),
    TransactionVerdict.NOT_IN_TRANSACTION: (
        gettext_lazy("not in the transaction"),
        "red",
        gettext_lazy("The transaction of its transactional ID does not contain this partition."),
    ),
    TransactionVerdict.TOO_OLD: (
        gettext_lazy("too old"),
        "red",
        gettext_lazy("Open for longer than transaction.max.timeout.ms."),
    ),
}
"""Verdict -> label, tone, explanation."""


@register.simple_tag
def transaction_state(row: TransactionRow) -> SafeString:
    """The state, as a warning if the transaction is open for longer than its timeout."""
    if not row.is_overdue:
        return state(row.state)
    explanation = gettext("Open for longer than its timeout: the coordinator has not aborted it.")
    label = gettext("{state}, overdue").format(state=state_label(row.state))
    return format_html('<span class="st st-{}" title="{}">{}</span>', TONES["overdue"], explanation, label)


@register.simple_tag
def transaction_verdict(verdict: str) -> SafeString:
    label, tone, explanation = LABELS[TransactionVerdict(verdict)]
    return format_html('<span class="st st-{}">{}</span> <span class="sub">{}</span>', tone, label, explanation)
