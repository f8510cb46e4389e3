"""DRF's exception handler for every view: it turns an exception into a problem. Invariant: a rejection because of the input has the status 400, a
rejection because of the state of the cluster 409, and an unknown object 404.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence

from django.core.exceptions import PermissionDenied
from django.db import OperationalError
from django.http import Http404, HttpResponse
from rest_framework import exceptions
from rest_framework.views import exception_handler

from controlplane.api.problems import FieldCode, FieldError, ProblemCode, code_of, invalid, problem
from controlplane.domain.errors import AlreadyExists, MisfitValue, Rejected

log = logging.getLogger(__name__)

LOCKED = "The database is locked or does not respond; nothing was changed. Try again."

FIELD_CODES = {
    "required": FieldCode.REQUIRED,
    "null": FieldCode.NULL,
    "blank": FieldCode.BLANK,
    "empty": FieldCode.TOO_SHORT,
    "invalid_choice": FieldCode.INVALID_CHOICE,
    "min_value": FieldCode.TOO_SMALL,
    "max_value": FieldCode.TOO_GREAT,
    "max_string_length": FieldCode.TOO_LONG,
    "min_length": FieldCode.TOO_SHORT,
    "max_length": FieldCode.TOO_LONG,
}
"""Codes of DRF's validators. Codes that are not listed are FieldCode.INVALID."""


class InvalidInput(exceptions.APIException):
    """All faults of a body or a query. `errors` has at least one."""

    def __init__(self, errors: Sequence[FieldError]) -> None:
        super().__init__(errors[0].detail)
        self.errors = errors


class ProblemError(exceptions.APIException):
    """A problem that a view decides itself. `extra`: further members of its body."""

    def __init__(
        self,
        code: ProblemCode,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(detail)
        self.response = problem(code, detail, headers=headers, extra=extra)


def handle(error: Exception, context: dict[str, object]) -> HttpResponse | None:
    """None for a defect: Django logs it, and the middleware answers 500."""
    if isinstance(error, OperationalError):
        # Reads continue from the WAL. A write waited for a lock for longer than the time-out, or the database is not available.
        log.warning("database unavailable: error=%s", error)
        return problem(ProblemCode.UNAVAILABLE, LOCKED)
    if isinstance(error, InvalidInput):
        return invalid(error.errors)
    if isinstance(error, ProblemError):
        return error.response
    if isinstance(error, Rejected):
        if not error.field:
            return problem(ProblemCode.CONFLICT, error.reason)
        if isinstance(error, MisfitValue):
            paths = [(f"{error.field}{path.removeprefix('$')}", text) for path, text in error.faults]
            return invalid([FieldError(path, FieldCode.REJECTED, text) for path, text in paths])
        kind = FieldCode.ALREADY_EXISTS if isinstance(error, AlreadyExists) else FieldCode.REJECTED
        return invalid([FieldError(error.field, kind, error.reason)])
    if isinstance(error, exceptions.ValidationError):
        return invalid(list(field_errors(error.detail)))
    response = exception_handler(error, context)
    if response is None:
        return None
    headers = {name: response[name] for name in ("WWW-Authenticate", "Retry-After", "Allow") if name in response}
    code = ProblemCode.MALFORMED if isinstance(error, exceptions.ParseError) else code_of(response.status_code)
    return problem(code, _detail(error), headers=headers, status=response.status_code)


def _detail(error: Exception) -> str:
    if isinstance(error, Http404):
        return str(error) or "There is no such object."
    if isinstance(error, PermissionDenied):
        return str(error) or "You may not do this."
    return str(getattr(error, "detail", error))


def field_errors(detail: object, path: str = "") -> Iterator[FieldError]:
    """Every fault in DRF's nested details, with its dotted path."""
    if isinstance(detail, dict):
        for name, inner in detail.items():
            own = "" if name == "non_field_errors" else str(name)
            yield from field_errors(inner, f"{path}.{own}" if path and own else path or own)
    elif isinstance(detail, list):
        for i, inner in enumerate(detail):
            deeper = f"{path}.{i}" if path else str(i)
            yield from field_errors(inner, deeper if isinstance(inner, dict | list) else path)
    else:
        code = FIELD_CODES.get(getattr(detail, "code", ""), FieldCode.INVALID)
        yield FieldError(path, code, f"{path}: {detail}" if path else str(detail))
