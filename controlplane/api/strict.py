"""Unknown names in bodies and queries: each is an error, with the known name that looks most like it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches

from rest_framework import serializers

from controlplane.api.errors import InvalidInput, field_errors
from controlplane.api.problems import FieldCode, FieldError

PARAMETER = "query parameter"
NAMES_SHOWN_MAX = 20
"""Maximum number of known names in one message. No request has more; a longer list would hide the message."""

RENAMED = {
    "page": "cursor",
    "offset": "cursor",
    "per_page": "limit",
    "page_size": "limit",
    "count": "limit",
    "status": "state",
    "only": "state",
    "working": "state",
    "finished": "state",
    "open": "state",
    "ended": "state",
    "dropped": "state",
    "from": "since",
    "after": "since",
    "start": "since",
    "to": "until",
    "before": "until",
    "end": "until",
    "order": "sort",
    "order_by": "sort",
    "search": "query",
    "q": "query",
}
"""Names that other APIs and the console's pages have for the query parameters of lists. Their spelling is no hint."""


def validate_body(kind: type[serializers.Serializer[object]], data: object) -> dict[str, object]:
    """The checked values of a body. Raises InvalidInput with all faults; an unknown field is one."""
    reader = kind(data=data)
    valid = reader.is_valid()
    errors = [*unknown_fields(reader, data), *([] if valid else field_errors(reader.errors))]
    if errors:
        raise InvalidInput(errors)
    return dict(reader.validated_data)


def unknown_fields(
    field: serializers.Field[object, object, object, object], data: object, path: str = ""
) -> Iterator[FieldError]:
    """The names in `data`, at any depth, that the serializer does not have."""
    child = getattr(field, "child", None)
    if isinstance(data, list) and isinstance(child, serializers.Field):
        for i, item in enumerate(data):
            yield from unknown_fields(child, item, f"{path}.{i}" if path else str(i))
    elif isinstance(field, serializers.Serializer) and isinstance(data, Mapping):
        known = {name: f for name, f in field.fields.items() if not f.read_only}
        for name, value in data.items():
            own = f"{path}.{name}" if path else str(name)
            if name in known:
                yield from unknown_fields(known[name], value, own)
            else:
                yield FieldError(own, FieldCode.UNKNOWN_FIELD, f"{own}: {_hint('field', str(name), known)}")


def unknown_parameters(sent: Iterable[str], declared: Iterable[str]) -> list[FieldError]:
    """One error per query parameter that the path does not have."""
    declared = set(declared)
    return [
        FieldError(n, FieldCode.UNKNOWN_PARAMETER, f"{n}: {_hint(PARAMETER, n, declared)}")
        for n in sent
        if n not in declared
    ]


def _hint(what: str, name: str, declared: Iterable[str]) -> str:
    names = sorted(declared)
    renamed = RENAMED.get(name) if what == PARAMETER else None
    near = [renamed] if renamed in names else get_close_matches(name, names, n=1)
    if near:
        return f"There is no such {what}. Did you mean {near[0]}?"
    if not names:
        return f"There is no such {what}; there is none here."
    return f"There is no such {what}. Known are: {', '.join(names[:NAMES_SHOWN_MAX])}."
