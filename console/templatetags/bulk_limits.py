"""Template tags of the bulk change of limits: a limit and its value in the unit of the input."""

from __future__ import annotations

from django import template
from django.utils.translation import gettext as _

from console.quota_forms import LABELS
from controlplane.domain.quota import UNITS, QuotaUnit
from controlplane.services.bulk_limits import THROTTLE

register = template.Library()


@register.filter
def limit_label(name: str) -> str:
    """Label of the input of a limit, with its unit."""
    return _("Throttle, MB/s") if name == THROTTLE else LABELS[name]


@register.filter
def limit_text(value: float | None, name: str) -> str:
    """Value of a limit in the unit of its label. None: no limit."""
    if value is None:
        return _("no throttle") if name == THROTTLE else _("no limit")
    in_bytes = name == THROTTLE or UNITS[name] is QuotaUnit.BYTES_PER_S
    return f"{value / 1e6:,.6f}".rstrip("0").rstrip(".") if in_bytes else f"{value:,g}"
