"""Records of a topic: read from the brokers on demand, within limits, decoded, escaped."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import reverse
from django.utils.translation import gettext as _

from console.message_forms import DEFAULTS, FILTER_FIELDS, MessagesForm
from console.record_links import edit_url, record_url
from console.texts import counted
from console.views.shell import render_page, viewer_required
from console.vocabulary import rejection_text
from controlplane.domain.formats import NULL
from controlplane.domain.record_filter import RecordFilters
from controlplane.domain.record_query import RecordQuery, StartPosition
from controlplane.domain.record_tail import ROWS_PER_SECOND_MAX
from controlplane.selectors import topics
from controlplane.selectors.key_lookups import KeyLookup
from controlplane.selectors.lake_lookups import has_archive
from controlplane.selectors.messages import DOWNLOAD_RECORDS_MAX, MessageRead, MessageRow, message_line
from controlplane.services import Rejected
from controlplane.services.records import (
    Formats,
    download_by_key,
    download_records,
    key_scan_cause,
    read_denial,
    read_records,
    search_by_key,
)

TAIL_UPDATE_BYTES_MAX = 256 * 1024
"""Maximum number of bytes of the rows of one update of a live tail, as HTML. One larger row is sent alone."""

TAIL_ROWS_KEPT = 500
"""Number of rows of a live tail that the page keeps. It removes the oldest rows first."""

TAIL_HIDDEN_SECONDS = 60.0
"""Time from the last message of a visible page to the end of its live tail."""

TAIL_VISIBLE_SECONDS = 15
"""Time between the messages that the page sends while it is visible."""

PREVIEW_CHARS = 160
"""Characters of a value in a row. A click shows the whole value."""

HEX_PREVIEW_BYTES = 32


@dataclass(frozen=True, slots=True)
class DecodedValue:
    """A key or value of a record. `kind`: null, json, text or hex. `whole` is formatted, `preview` is one line."""

    kind: str
    preview: str
    whole: str

    @property
    def is_null(self) -> bool:
        return self.kind == NULL


@dataclass(frozen=True, slots=True)
class MessageRecord:
    """`line`: the record as JSON, for the clipboard. `link`: the address of this record alone. `edit`: of the Produce form with this record. `open`:
    the whole value is shown without a click."""

    row: MessageRow
    key: DecodedValue
    value: DecodedValue
    line: str
    link: str
    edit: str
    open: bool


@viewer_required
def read_topic(request: HttpRequest) -> HttpResponse:
    context: dict[str, object] = {"may_not": read_denial(request.user, request.GET.get("topic", ""))}
    if "topic" not in request.GET:
        return _page(request, MessagesForm(initial=DEFAULTS), context)
    form = MessagesForm.of_address(request.GET)
    if form.is_valid():
        query = form.query()
        context |= {"topic_row": topics.topic_row(query.topic), "newest_first": query.backward}
        if request.GET.get("tail"):
            context["tail"] = None if context["may_not"] else tail_context(request.GET, query)
            return _page(request, form, context, status=403 if context["may_not"] else 200)
        try:
            context |= _read_records(request, query, form.formats())
        except PermissionDenied as error:
            return _page(request, form, {**context, "may_not": rejection_text(error)}, status=403)
        except Rejected as error:
            form.reject(error)
    return _page(request, form, context, status=400 if form.errors else 200)


def _read_records(request: HttpRequest, query: RecordQuery, formats: Formats) -> dict[str, object]:
    """`lookup`: the result by the key index, else `read` and, for a search by key, the `scan_cause`."""
    resume, cause = request.GET.get("resume", ""), None
    if query.filters.key:
        cause = key_scan_cause(request.user, query)
        if cause is None:
            lookup = search_by_key(request.user, query, resume, formats, lake=request.GET.get("lake") == "1")
            return {
                "lookup": lookup,
                "records": message_records(query.topic, lookup.rows),
                "permalink": lookup_permalink(request.GET, query, lookup.rows),
                "continue_link": lookup_continue_link(request.GET, query, lookup.token),
                "lake_link": lake_link(request.GET, query) if lookup.lake is None and has_archive(query.topic) else "",
            }
    read = read_records(request.user, query, resume, formats)
    alone = is_one_record(query) and len(read.rows) == 1
    return {
        "read": read,
        "alone": alone,
        "next_offset": read.rows[0].offset if alone and read.rows[0].offset != query.offset else None,
        "records": message_records(query.topic, read.rows, opened=alone),
        "permalink": permalink(request.GET, query, read.rows),
        "scan_cause": cause,
    }


@viewer_required
def download(request: HttpRequest) -> HttpResponse:
    """The records of a query as NDJSON, more than a page shows. The name of the file says if the read stopped before its end."""
    form = MessagesForm.of_address(request.GET)
    if form.is_valid():
        try:
            query = form.query()
            whole = replace(query, limit=DOWNLOAD_RECORDS_MAX)
            read: KeyLookup | MessageRead
            resume = request.GET.get("resume", "")
            if query.filters.key and key_scan_cause(request.user, query) is None:
                lake = request.GET.get("lake") == "1"
                read = download_by_key(request.user, whole, resume, form.formats(), lake=lake)
            else:
                read = download_records(request.user, whole, resume, form.formats())
        except PermissionDenied as error:
            return _page(request, form, {"may_not": rejection_text(error)}, status=403)
        except Rejected as error:
            form.reject(error)
        else:
            lines = (message_line(query.topic, row) + "\n" for row in read.rows)
            response = HttpResponse("".join(lines), content_type="application/x-ndjson")
            end = "" if read.complete else f"-{read.stopped}"
            response.headers["Content-Disposition"] = f'attachment; filename="{query.topic}{end}.ndjson"'
            response.headers["Weir-Complete"] = str(read.complete).lower()
            return response
    return _page(request, form, {}, status=400)


def _page(request: HttpRequest, form: MessagesForm, context: dict[str, object], status: int = 200) -> HttpResponse:
    more = {
        "form": form,
        "filtered": any(request.GET.get(name) for name in FILTER_FIELDS),
        "topic_names": topics.topic_names(),
    }
    return render_page(request, "console/messages.html", {**more, **context}, nav="messages", status=status)


def tail_context(parameters: QueryDict, query: RecordQuery) -> dict[str, object]:
    count = len(query.partitions)
    return {
        "query": parameters.urlencode(),
        "partitions": counted(count, "partition") if count else _("all partitions"),
        "rate": ROWS_PER_SECOND_MAX,
        "rows_kept": TAIL_ROWS_KEPT,
        "update_kb": TAIL_UPDATE_BYTES_MAX // 1024,
        "hidden_seconds": int(TAIL_HIDDEN_SECONDS),
        "visible_seconds": TAIL_VISIBLE_SECONDS,
    }


def is_one_record(query: RecordQuery) -> bool:
    """Return whether a query selects the record at an offset: the address of a single record, not a page of a longer read."""
    by_offset = query.start is StartPosition.OFFSET and len(query.partitions) == 1 and query.limit == 1
    return by_offset and query.filters == RecordFilters()


def message_records(topic: str, rows: Sequence[MessageRow], *, opened: bool = False) -> list[MessageRecord]:
    return [
        MessageRecord(
            r,
            decode(r.key, "key" in r.binary),
            decode(r.value, "value" in r.binary),
            message_line(topic, r),
            record_url(topic, r.partition, r.offset),
            edit_url(topic, r.partition, r.offset),
            opened,
        )
        for r in rows
    ]


def permalink(parameters: QueryDict, query: RecordQuery, rows: Sequence[MessageRow]) -> str:
    """The address of a query that finds the same records later: a start relative to now becomes a timestamp. The newest records start at the oldest
    that was found."""
    values = _first_page(parameters)
    at_ms = None
    if query.start is StartPosition.MINUTES:
        at_ms = int(datetime.now(UTC).timestamp() * 1000) - (query.minutes or 0) * 60_000
    elif query.start is StartPosition.LATEST:
        at_ms = min((r.timestamp_ms for r in rows if r.timestamp_ms is not None), default=None)
    if at_ms is not None and at_ms < datetime.max.replace(tzinfo=UTC).timestamp() * 1000:
        at = datetime.fromtimestamp(at_ms // 1000, UTC)
        values |= {"start": StartPosition.TIMESTAMP.value, "time": f"{at:%Y-%m-%dT%H:%M:%S}"}
        values.pop("minutes", None)
    return _address(values)


def lookup_permalink(parameters: QueryDict, query: RecordQuery, rows: Sequence[MessageRow]) -> str:
    """Return the permanent address of a look-up. It has an end time: a look-up is newest first, so later records would displace the found ones."""
    values = _first_page(parameters) | _start_of(query)
    if query.until_ms is None:
        newest_ms = max((r.timestamp_ms for r in rows if r.timestamp_ms is not None), default=0)
        until_s = max(int(datetime.now(UTC).timestamp()), newest_ms // 1000)
        if until_s < datetime.max.replace(tzinfo=UTC).timestamp():
            values["until"] = f"{datetime.fromtimestamp(until_s, UTC):%Y-%m-%dT%H:%M:%S}"
    return _address(values)


def lookup_continue_link(parameters: QueryDict, query: RecordQuery, token: str) -> str:
    """The address that continues a look-up. Its start does not move with the time."""
    return _address(_first_page(parameters) | _start_of(query) | {"resume": token})


def lake_link(parameters: QueryDict, query: RecordQuery) -> str:
    """The address that repeats a look-up, with a search of the lake."""
    return _address(_first_page(parameters) | _start_of(query) | {"lake": "1"})


def _first_page(parameters: QueryDict) -> dict[str, str]:
    """The parameters of a read or a look-up, without its continuation."""
    return {name: str(value) for name, value in parameters.items() if value and name != "resume"}


def _start_of(query: RecordQuery) -> dict[str, str]:
    """A start relative to now as a timestamp."""
    if query.start is not StartPosition.MINUTES:
        return {}
    at = datetime.fromtimestamp(query.since_ms(int(datetime.now(UTC).timestamp() * 1000)) // 1000, UTC)
    return {"start": StartPosition.TIMESTAMP.value, "time": f"{at:%Y-%m-%dT%H:%M:%S}", "minutes": ""}


def _address(values: Mapping[str, str]) -> str:
    query = QueryDict(mutable=True)
    query.update(values)
    return f"{reverse('messages')}?{query.urlencode()}"


def decode(text: str | None, is_hex: bool) -> DecodedValue:
    """JSON is indented, other text is unchanged, bytes that are not UTF-8 are hex."""
    if text is None:
        return DecodedValue(NULL, "null", "")
    if is_hex:
        pairs = [text[i : i + 2] for i in range(0, len(text), 2)]
        lines = [" ".join(pairs[i : i + 16]) for i in range(0, len(pairs), 16)]
        return DecodedValue("hex", " ".join(pairs[:HEX_PREVIEW_BYTES]), "\n".join(lines))
    if text[:1] in "{[":
        try:
            return DecodedValue("json", _line(text), json.dumps(json.loads(text), indent=2, ensure_ascii=False))
        except (ValueError, RecursionError):
            pass
    return DecodedValue("text", _line(text), text)


def _line(text: str) -> str:
    one = " ".join(text[: PREVIEW_CHARS * 2].split())
    return one if len(one) <= PREVIEW_CHARS else one[:PREVIEW_CHARS] + "…"
