"""Runbooks of the kinds of alerts as HTML: docs/runbooks/<kind>.md in English, docs/runbooks/<language>/<kind>.md in another language. The files are our
own, so their HTML is trusted.

Invariant: a link leads to a page of the console. The console does not serve the other documents, so a link to one becomes its path in the repository."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import markdown
from django.conf import settings
from django.urls import reverse
from django.utils.safestring import SafeString

from controlplane.domain.alert_types import AlertKind

DOCUMENT_LINK = re.compile(r'<a href="([^":]+)\.md">(.*?)</a>', flags=re.DOTALL)


@cache
def html(kind: str, language: str) -> SafeString | None:
    """The runbook of a kind of alert; None for an unknown kind. `language`: a code of settings.LANGUAGES."""
    if kind not in set(AlertKind):
        return None
    folder = settings.RUNBOOKS_DIR if language == settings.LANGUAGE_CODE else settings.RUNBOOKS_DIR / language
    text = markdown.markdown((folder / f"{kind}.md").read_text(), extensions=["fenced_code"])
    return SafeString(DOCUMENT_LINK.sub(_link, text))


def _link(match: re.Match[str]) -> str:
    document, label = match.groups()
    if document in set(AlertKind):
        return f'<a href="{reverse("runbook", args=[document])}">{label}</a>'
    path = Path("docs", document.replace("../", "")).with_suffix(".md")
    return f"{label} (<code>{path}</code>)"
