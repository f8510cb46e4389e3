"""Addresses of the page "Time travel" for one time: the state of the cluster at this time, and the changes shortly before it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from django.urls import reverse
from django.utils.http import urlencode

BEFORE = timedelta(minutes=15)
AROUND = timedelta(minutes=1)
"""The monitor notes an event up to some seconds after the entry of the metadata log that caused it."""

INPUT_FORMAT = "%Y-%m-%dT%H:%M:%S"


def input_text(at: datetime) -> str:
    """A time in UTC as an input field and a query parameter have it."""
    return at.astimezone(UTC).strftime(INPUT_FORMAT)


def at_url(at: datetime, tab: str = "") -> str:
    """The cluster at a time."""
    return _url({"at": input_text(at), "tab": tab})


def before_url(at: datetime) -> str:
    """The changes in the 15 minutes before a time, and a minute after it."""
    return _url({"since": input_text(at - BEFORE), "at": input_text(at + AROUND), "tab": "changes"})


def _url(query: dict[str, str]) -> str:
    return f"{reverse('time-travel')}?{urlencode({k: v for k, v in query.items() if v})}"
