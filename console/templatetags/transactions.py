"""Template tags of transactions: why one hangs in a partition."""

from __future__ import annotations

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from console.texts import gettext_lazy
from controlplane.domain.transactions import TransactionVerdict

register = template.Library()

LABELS: dict[TransactionVerdict, tuple[str, str, str]] = {
    TransactionVerdict.ACTIVE: ("active", "calm", gettext_lazy("Its coordinator knows the transaction.")),
    TransactionVerdict.UNDETERMINED: (
        "undetermined",
        "grey",
        gettext_lazy("A coordinator did not answer, or moves to another broker."),
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
def transaction_verdict(verdict: str) -> SafeString:
    label, tone, explanation = LABELS[TransactionVerdict(verdict)]
    return format_html('<span class="st st-{}" title="{}">{}</span>', tone, explanation, label)
