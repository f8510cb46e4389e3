"""Subjects of the schema registry: the list, one with a version, the difference between two versions. Read at each request.

Invariants: the list requests the details of the shown subjects only, in parallel, and for at most DETAIL_SECONDS; what did not arrive is unknown.
A registry that does not respond is a `problem`, not an error. Does not contain: changes (`controlplane.services.schema_subjects`).
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, TypeVar

from controlplane.clients import schema_subjects as subjects
from controlplane.clients.schema_registry import registry
from controlplane.clients.schema_subjects import SchemaReference, SubjectVersion
from controlplane.domain.errors import Rejected
from controlplane.models import Topic
from controlplane.selectors.paging import Page, PageStart, ordered_page
from weir_common.phrases import reason_of
from weir_common.schema_formats import SchemaType, SchemaUnavailable
from weir_common.schema_registry import SchemaRegistryClient, SchemaUnknown

PER_PAGE_MAX = 50
"""Maximum number of subjects of one page: each costs three requests of the registry."""

DETAIL_SECONDS = 3.0
"""Time limit for the details of a page. One request has at most two seconds."""

PARALLEL = 8
"""Requests at a time: a registry is shared with producers and consumers."""

DIFFERENCE_LINES_MAX = 2_000
"""Maximum number of lines of a difference that are shown."""

CONTEXT_LINES = 3
NAME_SUFFIXES = ("-key", "-value")
"""Suffixes of the subjects of a topic by TopicNameStrategy."""

SCHEMA_TYPES = {
    SchemaType.AVRO.value: "Avro",
    SchemaType.PROTOBUF.value: "Protobuf",
    SchemaType.JSON.value: "JSON Schema",
}
"""Names of the types that can be registered."""

T = TypeVar("T")
NO_REGISTRY = "No schema registry is configured (WEIR_SCHEMA_REGISTRY_URL)."


@dataclass(frozen=True, slots=True)
class SubjectRow:
    """`versions`, `type` (of the latest version) and `compatibility` are null if the registry did not report them in time. `topic`: the topic whose
    records use the subject by TopicNameStrategy, null if there is none."""

    name: str
    versions: int | None
    type: str | None
    compatibility: str | None
    topic: str | None


@dataclass(frozen=True, slots=True)
class SubjectPage(Page[SubjectRow]):
    """`problem`: why the registry could not be read, "" if it was. `configured`: whether there is a registry. `compatibility`: its level, null if it is
    unknown."""

    configured: bool
    problem: str
    compatibility: str | None


@dataclass(frozen=True, slots=True)
class SubjectDetail:
    """One version of a subject. `versions`: all numbers. `definition`: Avro and JSON Schema indented. `referenced_by`: IDs of schemas that use this
    version, null if the registry does not report them."""

    name: str
    versions: list[int]
    version: int
    id: int
    type: str
    compatibility: str
    topic: str | None
    definition: str
    references: list[SchemaReference]
    referenced_by: list[int] | None


@dataclass(frozen=True, slots=True)
class SchemaDifference:
    """Lines of a unified difference. `complete`: no line was omitted at the end."""

    subject: str
    version: int
    other: int
    lines: list[str]
    complete: bool


def required_registry() -> SchemaRegistryClient:
    """Raises Rejected if no registry is configured."""
    if (client := registry()) is None:
        raise Rejected(NO_REGISTRY)
    return client


def subject_list(*, query: str = "", sort: str = "name", page: PageStart = 1, per_page: int = 25) -> SubjectPage:
    """Subjects with `query` in their name, in the order of names; `-name` for the reverse."""
    client, names, problem = registry(), [], ""
    level: str | None = None
    if client is not None:
        try:
            names = [n for n in subjects.subject_names(client) if query.lower() in n.lower()]
            level = subjects.compatibility(client)
        except SchemaUnavailable as error:
            problem = reason_of(error)
    sort = "-name" if sort == "-name" else "name"
    per_page = min(per_page, PER_PAGE_MAX)
    shown, total, window = ordered_page(names, [(str, sort == "-name")], page=page, per_page=per_page)
    rows = [] if client is None else _rows(client, shown)
    return SubjectPage(
        rows=rows,
        total=total,
        window=window,
        sort=sort,
        query=query,
        configured=client is not None,
        problem=problem,
        compatibility=level,
    )


def _rows(client: SchemaRegistryClient, names: list[str]) -> list[SubjectRow]:
    """Details that arrive in time. A late request ends by its own time-out, in the background."""
    topics = topics_of(names)
    pool = ThreadPoolExecutor(PARALLEL, thread_name_prefix="schema-subjects")
    try:
        numbers = [pool.submit(subjects.versions, client, name) for name in names]
        latest = [pool.submit(subjects.version, client, name) for name in names]
        levels = [pool.submit(subjects.compatibility, client, name) for name in names]
        requested: list[Future[Any]] = [*numbers, *latest, *levels]
        wait(requested, timeout=DETAIL_SECONDS)
        rows = []
        for i, name in enumerate(names):
            found, last = _result_or_none(numbers[i]), _result_or_none(latest[i])
            count, kind = None if found is None else len(found), None if last is None else last.type
            rows.append(SubjectRow(name, count, kind, _result_or_none(levels[i]), topics.get(name)))
        return rows
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _result_or_none(future: Future[T]) -> T | None:
    return future.result() if future.done() and not future.cancelled() and future.exception() is None else None


def subject_detail(name: str, number: int | None = None) -> SubjectDetail | None:
    """This version, None = the latest. None if the registry does not have it. Raises Rejected if the registry does not respond."""
    client = required_registry()
    try:
        found = subjects.version(client, name, number)
        detail = SubjectDetail(
            name=name,
            versions=subjects.versions(client, name),
            version=found.version,
            id=found.id,
            type=found.type,
            compatibility=subjects.compatibility(client, name),
            topic=topics_of([name]).get(name),
            definition=format_definition(found),
            references=found.references,
            referenced_by=_referenced_by(client, found),
        )
    except SchemaUnknown:
        return None
    except SchemaUnavailable as error:
        raise Rejected(reason_of(error)) from None
    return detail


def _referenced_by(client: SchemaRegistryClient, version: SubjectVersion) -> list[int] | None:
    try:
        return subjects.referencing_ids(client, version.subject, version.version)
    except SchemaUnknown:
        return None


def difference(name: str, number: int, other: int) -> SchemaDifference | None:
    """Return the difference between the versions `other` and `number` of a subject, or None if the registry does not have one of them. Raises Rejected if
    the registry does not respond."""
    client = required_registry()
    try:
        new, old = subjects.version(client, name, number), subjects.version(client, name, other)
    except SchemaUnknown:
        return None
    except SchemaUnavailable as error:
        raise Rejected(reason_of(error)) from None
    before, after = format_definition(old).splitlines(), format_definition(new).splitlines()
    labels = f"version {other}", f"version {number}"
    lines = list(difflib.unified_diff(before, after, *labels, n=CONTEXT_LINES, lineterm=""))
    return SchemaDifference(name, number, other, lines[:DIFFERENCE_LINES_MAX], len(lines) <= DIFFERENCE_LINES_MAX)


def format_definition(version: SubjectVersion) -> str:
    """The definition, indented if it is JSON."""
    if version.type == SchemaType.PROTOBUF:
        return version.definition
    try:
        return json.dumps(json.loads(version.definition), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return version.definition


def topics_of(names: Iterable[str]) -> dict[str, str]:
    """The existing topic of each subject by TopicNameStrategy."""
    of = {name: name[: -len(suffix)] for name in names for suffix in NAME_SUFFIXES if name.endswith(suffix)}
    known = set(Topic.objects.filter(name__in=of.values(), deleted_at__isnull=True).values_list("name", flat=True))
    return {name: topic for name, topic in of.items() if topic in known}
