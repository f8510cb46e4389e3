"""Template tags of the API reference: types with links to their descriptions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from console.fragments import code_spans

if TYPE_CHECKING:
    from controlplane.api.reference import ReferenceField, ReferenceOperation, ReferenceResponse


register = template.Library()


@register.simple_tag
def linked_type(row: ReferenceField | ReferenceResponse) -> SafeString:
    """The type of a field or response. The named types that it contains are links within the page."""
    if not row.types:
        return format_html("{}", row.type)
    parts = re.split(rf"\b({'|'.join(re.escape(name) for name in row.types)})\b", row.type)
    return format_html_join(
        "",
        "{}",
        (
            (format_html('<a href="#type-{}">{}</a>', part, part) if part in row.types else part,)
            for part in parts
            if part
        ),
    )


@register.filter
def described(text: str) -> SafeString:
    """A description with its `code` marked up."""
    return code_spans(text)


@register.filter
def anchor(operation: ReferenceOperation) -> str:
    """The id of an operation in its page."""
    return f"operation-{operation.id}"
