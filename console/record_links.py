"""Addresses of single records on the page Messages, and values that are links to them. Does not contain: the address of a query (`console.views.messages`)."""

from __future__ import annotations

from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from console import fragments


def record_url(topic: str, partition: int | str, offset: int | str) -> str:
    """The address that reads the record at an offset, or the first one after it."""
    at = {"topic": topic, "partitions": partition, "start": "offset", "offset": offset, "limit": 1}
    return f"{reverse('messages')}?{urlencode(at)}"


def edit_url(topic: str, partition: int, offset: int) -> str:
    """The address of the Produce form with a copy of the record."""
    return f"{reverse('produce', args=[topic])}?{urlencode({'partition': partition, 'offset': offset})}"


def committed_offset(topic: str, partition: int, offset: int | None) -> SafeString:
    """The committed offset of a group, as a link to the record that the group reads next."""
    if offset is None:
        return fragments.unknown()
    hint = _("Read the record at this offset: the next one of the group")
    return format_html(
        '<a href="{}" title="{}">{}</a>', record_url(topic, partition, offset), hint, fragments.number(offset)
    )
