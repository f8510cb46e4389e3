"""Template tag of the configs of groups: the link to the form of a config."""

from __future__ import annotations

from django import template
from django.urls import reverse
from django.utils.http import urlencode

from controlplane.domain.group_config import GroupConfigRow

register = template.Library()


@register.simple_tag
def edit_group_config_url(group_id: str, row: GroupConfigRow) -> str:
    """The form of a config, with its value filled in."""
    return f"{reverse('group-config-edit', args=[group_id])}?{urlencode({'name': row.name, 'value': row.value})}"
