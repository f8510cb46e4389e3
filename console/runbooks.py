"""Runbooks of the kinds of alerts: docs/runbooks/<kind>.md as HTML. The files are our own, so their HTML is trusted."""

from __future__ import annotations

from functools import cache

import markdown
from django.conf import settings
from django.utils.safestring import SafeString

from controlplane.domain.alert_types import AlertKind


@cache
def html(kind: str) -> SafeString | None:
    """The runbook of a kind of alert; None for an unknown kind."""
    if kind not in set(AlertKind):
        return None
    text = (settings.RUNBOOKS_DIR / f"{kind}.md").read_text()
    return SafeString(markdown.markdown(text, extensions=["fenced_code"]))
