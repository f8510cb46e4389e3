"""Template tags of tables: the columns that a user has chosen."""

from __future__ import annotations

from django import template
from django.template.context import RequestContext
from django.utils.safestring import SafeString

from console import card_labels
from controlplane.selectors.saved_views import hidden_columns as hidden_of

register = template.Library()

SEPARATOR = "|"


@register.filter
def labelled(rows: SafeString, head: str) -> SafeString:
    """The rows of a table that is a list of blocks on a phone, with the labels of their cells."""
    return SafeString(card_labels.labelled(rows, head))


@register.simple_tag(takes_context=True)
def hidden_columns(context: RequestContext, table: str, labels: str, before: int = 1) -> str:
    """CSS classes that hide columns of a table. `labels`: the columns in order; `before`: the columns in front of them, which are always shown."""
    hidden = hidden_of(context["request"].user.pk, table)
    return " ".join(f"hide-{n}" for n, c in enumerate(labels.split(SEPARATOR), before + 1) if c in hidden)


@register.simple_tag(takes_context=True)
def column_choices(context: RequestContext, table: str, labels: str) -> list[dict[str, object]]:
    """The columns that a user can hide, with whether they are shown."""
    hidden = hidden_of(context["request"].user.pk, table)
    return [{"label": c, "shown": c not in hidden} for c in labels.split(SEPARATOR)]
