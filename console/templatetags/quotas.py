"""Template tags of client quotas: rates with their units."""

from __future__ import annotations

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from console import fragments
from controlplane.domain.quota import QuotaLimit, QuotaUnit

register = template.Library()


@register.simple_tag
def rate(value: float, unit: str) -> SafeString:
    """A rate in its unit; bytes per second as kB/s or MB/s."""
    return fragments.speed(value) if unit == QuotaUnit.BYTES_PER_S else format_html("{} {}", f"{value:g}", unit)


@register.filter
def limit(row: QuotaLimit) -> SafeString:
    """The limit of a quota in its unit."""
    return rate(row.value, row.unit)
