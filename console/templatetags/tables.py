"""Template tags of tables: the columns that a user has chosen."""

from __future__ import annotations

from django import template
from django.template.context import RequestContext

from controlplane.selectors.saved_views import hidden_columns as hidden_of

register = template.Library()

SEPARATOR = "|"


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
