"""Template tags of the page of dead letters, and addresses of that page."""

from __future__ import annotations

from django import template
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString

from controlplane.domain.dead_letters import FailedRecord
from controlplane.selectors.dead_letters import dead_letter_topic

register = template.Library()


@register.simple_tag
def failed_address(failed: FailedRecord) -> str:
    """The failed record on the page Messages."""
    place: dict[str, str | int] = {
        "topic": failed.topic,
        "partitions": failed.partition,
        "start": "offset",
        "offset": failed.offset,
        "limit": 1,
    }
    return f"{reverse('messages')}?{urlencode(place)}"


@register.filter
def share_group_link(group_id: str | None) -> SafeString:
    """The share group that a header names. A producer can write any text into it."""
    if not group_id:
        return SafeString("–")
    try:
        address = reverse("share-group", args=[group_id])
    except NoReverseMatch:  # a line end
        return format_html("{}", group_id)
    return format_html('<a class="name" href="{}">{}</a>', address, group_id)


@register.simple_tag
def letters_address(topic: str, group_id: str) -> str:
    """Return the URL of the page with the dead letters of a share group: the page of the topic, or Messages if the topic does not take dead letters (any
    more)."""
    if dead_letter_topic(topic) is not None:
        return f"{reverse('dead-letters', args=[topic])}?{urlencode({'group': group_id})}"
    return f"{reverse('messages')}?{urlencode({'topic': topic, 'header': f'__dlq.errors.group={group_id}'})}"
