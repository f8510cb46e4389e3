"""Records of one partition: looked up on demand, bounded, decoded, escaped. The one page that waits for a broker, and it says how long."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse

from console.forms import MessagesForm
from console.views.shell import page, signed_in
from controlplane.selectors import messages, topics
from controlplane.selectors.messages import MessageRow
from controlplane.services import Refused

PREVIEW_CHARS = 160
"""Characters of a value in its row; the whole of it is one press away."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A key or value as a person reads it. `kind`: null, json, text or hex; `whole` is laid out, `preview` is one line."""

    kind: str
    preview: str
    whole: str


@dataclass(frozen=True, slots=True)
class Record:
    row: MessageRow
    key: Shown
    value: Shown


@signed_in
def look_up(request: HttpRequest) -> HttpResponse:
    context: dict[str, Any] = {}
    if "topic" not in request.GET:
        context["form"] = MessagesForm(initial={"partition": 0, "start": "newest", "limit": 50})
        return page(request, "console/messages.html", context, nav="messages")
    data = request.GET.copy()
    data.setdefault("partition", "0")
    data.setdefault("start", "newest")
    data.setdefault("limit", "50")
    form = MessagesForm(data)
    context["form"] = form
    if form.is_valid():
        v = form.cleaned_data
        context["topic_row"] = topics.topic_row(v["topic"])
        try:
            read = messages.read_messages(v["topic"], v["partition"], **form.asked())
        except Refused as error:
            form.refuse(error)
        else:
            context["read"] = read
            context["records"] = [
                Record(r, shown(r.key, "key" in r.binary), shown(r.value, "value" in r.binary)) for r in read.rows
            ]
            if read.rows:
                context["next_offset"] = read.rows[-1].offset + 1
                context["before_offset"] = max(read.start_offset or 0, read.rows[0].offset - (v["limit"] or 50))
    status = 400 if form.errors else 200
    return page(request, "console/messages.html", context, nav="messages", status=status)


def shown(text: str | None, is_hex: bool) -> Shown:
    """Decode what was read: JSON laid out, other text as it is, bytes that are no UTF-8 as hex."""
    if text is None:
        return Shown("null", "null", "")
    if is_hex:
        pairs = [text[i : i + 2] for i in range(0, len(text), 2)]
        lines = [" ".join(pairs[i : i + 16]) for i in range(0, len(pairs), 16)]
        return Shown("hex", " ".join(pairs[:32]), "\n".join(lines))
    if text[:1] in "{[":
        try:
            return Shown("json", _line(text), json.dumps(json.loads(text), indent=2, ensure_ascii=False))
        except (ValueError, RecursionError):
            pass
    return Shown("text", _line(text), text)


def _line(text: str) -> str:
    one = " ".join(text[: PREVIEW_CHARS * 2].split())
    return one if len(one) <= PREVIEW_CHARS else one[:PREVIEW_CHARS] + "…"
