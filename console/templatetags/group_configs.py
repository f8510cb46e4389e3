"""Template tags of the configs of groups: values with their units, and the link to the form of a config."""

from __future__ import annotations

from django import template
from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from console import fragments
from controlplane.domain.group_config import GroupConfigRow

register = template.Library()


@register.simple_tag
def group_config_value(row: GroupConfigRow, value: str | None) -> SafeString:
    if not value:
        return fragments.unknown(_("Not set."))
    text = fragments.config_text(row.name, value)
    return format_html('{} <span class="sub">{}</span>', value, text) if text else format_html("{}", value)


@register.simple_tag
def edit_group_config_url(group_id: str, row: GroupConfigRow) -> str:
    """The form of a config, with its value filled in."""
    return f"{reverse('group-config-edit', args=[group_id])}?{urlencode({'name': row.name, 'value': row.value})}"
