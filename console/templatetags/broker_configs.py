"""Template tags of broker settings: sources, and the link to the form of a setting."""

from __future__ import annotations

from django import template
from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from console import fragments
from console.config_forms import BROKER_SCOPE, CLUSTER_SCOPE
from console.texts import gettext_lazy
from controlplane.domain.broker_config import BrokerConfigRow, BrokerConfigSource

register = template.Library()

LABELS = {
    BrokerConfigSource.DYNAMIC_BROKER: gettext_lazy("dynamic, this broker"),
    BrokerConfigSource.DYNAMIC_CLUSTER: gettext_lazy("dynamic, cluster-wide"),
    BrokerConfigSource.FILE: "file",
    BrokerConfigSource.DEFAULT: "default",
    BrokerConfigSource.UNKNOWN: "unknown",
}


@register.simple_tag
def config_source(source: str) -> SafeString:
    label = LABELS[BrokerConfigSource(source)]
    if source == BrokerConfigSource.DEFAULT:
        return format_html('<span class="sub">{}</span>', label)
    return format_html("<b>{}</b>", label)


@register.simple_tag
def reported_value(row: BrokerConfigRow, value: str | None) -> SafeString:
    """A value of a setting. Sensitive values are never shown."""
    if row.sensitive:
        return format_html('<span class="sub">{}</span>', "hidden")
    if value is None:
        return fragments.unknown(_("Not set."))
    text = fragments.config_text(row.name, value)
    return format_html('{} <span class="sub">({})</span>', value, text) if text else format_html("{}", value)


@register.simple_tag
def edit_config_url(broker_id: int, row: BrokerConfigRow) -> str:
    """The form of a setting, with its value and its scope filled in."""
    scope = CLUSTER_SCOPE if row.source == BrokerConfigSource.DYNAMIC_CLUSTER else BROKER_SCOPE
    query = {"name": row.name, "value": row.value or "", "scope": scope}
    return f"{reverse('broker-config-edit', args=[broker_id])}?{urlencode(query)}"
