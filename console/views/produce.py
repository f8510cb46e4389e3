"""Produce a record to a topic, and copy records of a topic into another. A copy of a range shows a preview first."""

from __future__ import annotations

from typing import TypedDict, Unpack, cast

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _

from console.forms import INPUT_FORMATS, FormData, FormOptions, WeirForm, comment_field, text_area
from console.record_edits import EditedCopy, edited_copy
from console.texts import gettext_lazy
from console.views.shell import not_found, operator_required, render_page
from console.vocabulary import rejection_text
from controlplane.domain.produce import (
    COPY_RECORDS_MAX,
    COUNT_MAX,
    SCHEMA_FORMAT,
    CopyTimestamp,
    NewRecord,
    headers_of_text,
)
from controlplane.domain.record_query import RecordQuery, StartPosition
from controlplane.selectors import topics
from controlplane.services import Rejected
from controlplane.services import produce as services
from controlplane.services.masking import renderer_for
from controlplane.services.record_encoding import (
    RecordPart,
    SchemaChoice,
    SchemaHelp,
    encode,
    has_registry,
    schema_help,
    subject_of,
)
from controlplane.services.records import read_records

SHORT = {"class": "short"}
SHOWN_MAX = 100
"""Maximum number of partitions and offsets on the page of a result."""
RESULT = "produce_result"
"""Key of the session: the result of a POST, until the page after the redirect has shown it."""


PRODUCE_FORMATS = [*INPUT_FORMATS, (SCHEMA_FORMAT, gettext_lazy("JSON, encoded with a schema"))]
SCHEMA_FIELDS = ("subject", "version", "message")


def subject_field() -> forms.CharField:
    return forms.CharField(
        required=False,
        max_length=1000,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
        help_text=gettext_lazy("For the format with a schema. Empty: the subject of the topic."),
    )


def version_field() -> forms.IntegerField:
    return forms.IntegerField(
        required=False,
        min_value=1,
        widget=forms.NumberInput(attrs=SHORT),
        help_text=gettext_lazy("Empty: the latest version."),
    )


def message_field() -> forms.CharField:
    return forms.CharField(
        required=False,
        max_length=1000,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
        help_text=gettext_lazy("Message type of a Protobuf schema. Empty: the first of the file."),
    )


class ProduceForm(WeirForm):
    key = forms.CharField(
        required=False, strip=False, widget=text_area(1), help_text=gettext_lazy("Empty: no key (null).")
    )
    key_format = forms.ChoiceField(choices=PRODUCE_FORMATS)
    key_subject = subject_field()
    key_version = version_field()
    key_message = message_field()
    value = forms.CharField(required=False, strip=False, widget=text_area(8))
    value_format = forms.ChoiceField(choices=PRODUCE_FORMATS)
    value_subject = subject_field()
    value_version = version_field()
    value_message = message_field()
    tombstone = forms.BooleanField(
        required=False, help_text=gettext_lazy("The value is null. Compaction removes the key.")
    )
    headers = forms.CharField(
        required=False,
        widget=text_area(2),
        help_text=gettext_lazy("One per line, name: value. Without a colon the value is null."),
    )
    partition = forms.IntegerField(
        required=False,
        min_value=0,
        widget=forms.NumberInput(attrs=SHORT),
        help_text=gettext_lazy("Empty: by the hash of the key (murmur2), random without a key."),
    )
    count = forms.IntegerField(
        initial=1,
        min_value=1,
        widget=forms.NumberInput(attrs=SHORT),
        help_text=gettext_lazy("Copies of the record, at most {count_max:,}.", count_max=COUNT_MAX),
    )
    comment = comment_field()

    def __init__(self, topic: str, data: FormData = None, **options: Unpack[FormOptions]) -> None:
        super().__init__(data, **options)
        self.topic = topic
        for part in RecordPart:
            self.fields[f"{part}_subject"].widget.attrs["placeholder"] = subject_of(topic, part)
            if not has_registry():
                choice = self.fields[f"{part}_format"]
                assert isinstance(choice, forms.ChoiceField)
                choice.choices = INPUT_FORMATS
                for name in SCHEMA_FIELDS:
                    del self.fields[f"{part}_{name}"]
                continue
            for name in SCHEMA_FIELDS:
                self.fields[f"{part}_{name}"].widget.attrs["data-when"] = f"{part}_format={SCHEMA_FORMAT}"

    def choice(self, part: RecordPart) -> SchemaChoice:
        v = self.cleaned_data
        return SchemaChoice(v.get(f"{part}_subject", ""), v.get(f"{part}_version"), v.get(f"{part}_message", ""))

    def schema_parts(self) -> list[RecordPart]:
        """Parts of the record whose format is a schema."""
        return [part for part in RecordPart if self.cleaned_data.get(f"{part}_format") == SCHEMA_FORMAT]

    def record(self) -> NewRecord:
        """Return the record of the form. Raises Rejected with the field."""
        v = self.cleaned_data
        if v["tombstone"] and v["value"]:
            raise Rejected(_("A tombstone has no value. Clear the value, or the tick."), "value")
        key = self._bytes(RecordPart.KEY) if v["key"] else None
        value = None if v["tombstone"] else self._bytes(RecordPart.VALUE)
        return NewRecord(key, value, tuple(headers_of_text(v["headers"])), v["partition"])

    def _bytes(self, part: RecordPart) -> bytes:
        # A browser sends line ends as CR LF.
        text = self.cleaned_data[part].replace("\r\n", "\n")
        return encode(self.topic, part, text, self.cleaned_data[f"{part}_format"], self.choice(part))


class CopyForm(WeirForm):
    """A range of one partition, and where its records go."""

    source_partition = forms.IntegerField(min_value=0, widget=forms.NumberInput(attrs=SHORT))
    first_offset = forms.IntegerField(min_value=0, widget=forms.NumberInput(attrs=SHORT))
    last_offset = forms.IntegerField(
        min_value=0,
        widget=forms.NumberInput(attrs=SHORT),
        help_text=gettext_lazy("Included. At most {copy_records_max:,} offsets.", copy_records_max=COPY_RECORDS_MAX),
    )
    topic = forms.CharField(
        label=gettext_lazy("Target topic"),
        max_length=249,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    partition = forms.IntegerField(
        required=False,
        min_value=0,
        label=gettext_lazy("Target partition"),
        widget=forms.NumberInput(attrs=SHORT),
        help_text=gettext_lazy("Empty: by the hash of the key (murmur2)."),
    )
    timestamp = forms.ChoiceField(choices=[(t.value, gettext_lazy(t.value)) for t in CopyTimestamp])
    comment = comment_field()


@operator_required
def produce(request: HttpRequest, name: str) -> HttpResponse:
    row = topics.topic_row(name)
    if row is None:
        return not_found(request, _("topic {name}").format(name=name), "topics", nav="topics")
    copied = _record_to_edit(request, name) if request.method == "GET" and "offset" in request.GET else EditedCopy({})
    form = ProduceForm(name, request.POST or None, initial=copied.initial)
    body = {
        "key": "order-1",
        "value": _('{"id": 1}'),
        "value_format": "json",
        "headers": [{"name": "source", "value": "console"}],
    }
    context: dict[str, object] = {
        "t": row,
        "form": form,
        "body": body,
        "may_not": services.produce_denial(request.user, name),
    }
    context |= {"has_registry": has_registry(), "left_out": copied.left_out}
    if request.method == "POST" and request.POST.get("step") == SCHEMA_FORMAT and form.is_valid():
        context["schemas"] = _schemas(form)
    elif request.method == "POST" and form.is_valid():
        v = form.cleaned_data
        try:
            new = form.record()
            result = services.produce_record(request.user, name, new, count=v["count"], comment=v["comment"])
        except PermissionDenied as error:
            context["may_not"] = rejection_text(error)
            return render_page(request, "console/produce.html", context, nav="topics", status=403)
        except Rejected as error:
            form.reject(error)
        else:
            return _show_after_redirect(request, result)
    else:
        context["result"] = _result(request)
    status = 400 if form.is_bound and form.errors else 200
    return render_page(request, "console/produce.html", context, nav="topics", status=status)


def _record_to_edit(request: HttpRequest, name: str) -> EditedCopy:
    """The record at the partition and offset of the address. A read needs its permission and is in the audit log, as on the page Messages."""
    try:
        partition, offset = int(request.GET.get("partition", "")), int(request.GET["offset"])
    except ValueError:
        return EditedCopy({}, [_("The address has no partition and offset of a record.")])
    query = RecordQuery(name, (partition,), StartPosition.OFFSET, offset, limit=1)
    try:
        rows = read_records(request.user, query).rows
    except (PermissionDenied, Rejected) as error:
        return EditedCopy({}, [rejection_text(error)])
    if not rows or rows[0].offset != offset:
        gone = _("Partition {partition} has no record at offset {offset}, or it could not be read.")
        return EditedCopy({}, [gone.format(partition=partition, offset=offset)])
    return edited_copy(rows[0], masked=renderer_for(request.user, name).masks, has_registry=has_registry())


def _schemas(form: ProduceForm) -> list[tuple[RecordPart, SchemaHelp]]:
    """The schemas of the form, with samples. Faults are shown in the form."""
    found = []
    for part in form.schema_parts():
        try:
            found.append((part, schema_help(form.topic, part, form.choice(part))))
        except Rejected as error:
            form.reject(error)
    if not form.schema_parts():
        form.reject(Rejected(_("Choose the format “JSON, encoded with a schema” first."), "value_format"))
    return found


@operator_required
def copy(request: HttpRequest, name: str) -> HttpResponse:
    """Two steps: the form, then the preview with the number of records."""
    if topics.topic_row(name) is None:
        return not_found(request, _("topic {name}").format(name=name), "topics", nav="topics")
    initial = {n: request.GET.get(n, "") for n in ("source_partition", "first_offset", "last_offset", "topic")}
    form = CopyForm(request.POST or None, initial={**initial, "topic": initial["topic"] or name})
    names = ("source_partition", "first_offset", "last_offset", "partition", "timestamp")
    target = str(form["topic"].value() or name)
    context: dict[str, object] = {
        "name": name,
        "form": form,
        "may_not": services.produce_denial(request.user, target),
        "body": {"source_topic": name, **{n: form[n].value() or None for n in names}},
        "target": target,
    }
    if request.method == "POST" and form.is_valid():
        v = dict(form.cleaned_data)
        place = (name, v.pop("source_partition"), v.pop("first_offset"), v.pop("last_offset"))
        try:
            if request.POST.get("step") == "apply":
                v["to_partition"], v["timestamp"] = v.pop("partition"), CopyTimestamp(v["timestamp"])
                return _show_after_redirect(request, services.copy_records(request.user, *place, **v))
            context["preview"] = services.preview_copy(request.user, *place, topic=v["topic"])
        except PermissionDenied as error:
            context["may_not"] = rejection_text(error)
            return render_page(request, "console/record_copy.html", context, nav="topics", status=403)
        except Rejected as error:
            form.reject(error)
    elif request.method != "POST":
        context["result"] = _result(request)
    status = 400 if form.is_bound and form.errors else 200
    return render_page(request, "console/record_copy.html", context, nav="topics", status=status)


class ShownRecord(TypedDict):
    partition: int | None
    offset: int | None
    problem: str


class ShownResult(TypedDict):
    """A `ProduceResult` in the session, with its first records and the number of all."""

    topic: str
    written: int
    refused: int
    unknown: int
    problems: list[str]
    records: list[ShownRecord]
    total: int


def _show_after_redirect(request: HttpRequest, result: services.ProduceResult) -> HttpResponseRedirect:
    """Store the result and redirect: a reload of a page that answers a POST would write the records again."""
    shown = ShownResult(
        topic=result.topic,
        written=result.written,
        refused=result.refused,
        unknown=result.unknown,
        problems=result.problems,
        records=[
            ShownRecord(partition=r.partition, offset=r.offset, problem=r.problem) for r in result.records[:SHOWN_MAX]
        ],
        total=len(result.records),
    )
    request.session[RESULT] = {"path": request.path, "result": shown}
    return HttpResponseRedirect(request.path)


def _result(request: HttpRequest) -> ShownResult | None:
    """The result of the POST before the redirect. It is shown once."""
    kept = request.session.get(RESULT)
    if kept is None or kept["path"] != request.path:
        return None
    del request.session[RESULT]
    return cast("ShownResult", kept["result"])
