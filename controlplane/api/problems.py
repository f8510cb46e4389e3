"""Error responses: `application/problem+json` (RFC 9457) with a code that stays the same between versions.

Invariant: every response of the API with a status of 400 or more has this shape. Does not contain: which exception has which code
(`controlplane.api.errors`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from http import HTTPStatus

from django.http import JsonResponse

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:weir:problem:"
"""`type` of a problem is this prefix and its code."""


class ProblemCode(StrEnum):
    """The kind of an error in a request. Clients compare these values."""

    INVALID = "invalid"
    MALFORMED = "malformed"
    NOT_AUTHENTICATED = "not_authenticated"
    PERMISSION_DENIED = "permission_denied"
    NOT_FOUND = "not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    NOT_ACCEPTABLE = "not_acceptable"
    CONFLICT = "conflict"
    IDEMPOTENCY_KEY_IN_USE = "idempotency_key_in_use"
    PRECONDITION_FAILED = "precondition_failed"
    TOO_LARGE = "too_large"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    IDEMPOTENCY_KEY_REUSED = "idempotency_key_reused"
    TOO_MANY_REQUESTS = "too_many_requests"
    INTERNAL_ERROR = "internal_error"
    UNAVAILABLE = "unavailable"


class FieldCode(StrEnum):
    """The error of one field of a body or of one query parameter."""

    REQUIRED = "required"
    NULL = "null"
    BLANK = "blank"
    INVALID = "invalid"
    INVALID_CHOICE = "invalid_choice"
    TOO_SMALL = "too_small"
    TOO_GREAT = "too_great"
    TOO_SHORT = "too_short"
    TOO_LONG = "too_long"
    UNKNOWN_FIELD = "unknown_field"
    UNKNOWN_PARAMETER = "unknown_parameter"
    REJECTED = "rejected"
    ALREADY_EXISTS = "already_exists"


@dataclass(frozen=True, slots=True)
class FieldError:
    """One fault of the input. `field` is dotted (`configs.retention.ms`, `partitions.0.topic`), empty for the input as a whole."""

    field: str
    code: FieldCode
    detail: str


STATUS = {
    ProblemCode.INVALID: HTTPStatus.BAD_REQUEST,
    ProblemCode.MALFORMED: HTTPStatus.BAD_REQUEST,
    ProblemCode.NOT_AUTHENTICATED: HTTPStatus.UNAUTHORIZED,
    ProblemCode.PERMISSION_DENIED: HTTPStatus.FORBIDDEN,
    ProblemCode.NOT_FOUND: HTTPStatus.NOT_FOUND,
    ProblemCode.METHOD_NOT_ALLOWED: HTTPStatus.METHOD_NOT_ALLOWED,
    ProblemCode.NOT_ACCEPTABLE: HTTPStatus.NOT_ACCEPTABLE,
    ProblemCode.CONFLICT: HTTPStatus.CONFLICT,
    ProblemCode.IDEMPOTENCY_KEY_IN_USE: HTTPStatus.CONFLICT,
    ProblemCode.PRECONDITION_FAILED: HTTPStatus.PRECONDITION_FAILED,
    ProblemCode.TOO_LARGE: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    ProblemCode.UNSUPPORTED_MEDIA_TYPE: HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    ProblemCode.IDEMPOTENCY_KEY_REUSED: HTTPStatus.UNPROCESSABLE_ENTITY,
    ProblemCode.TOO_MANY_REQUESTS: HTTPStatus.TOO_MANY_REQUESTS,
    ProblemCode.INTERNAL_ERROR: HTTPStatus.INTERNAL_SERVER_ERROR,
    ProblemCode.UNAVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
}
TITLES = {
    ProblemCode.INVALID: "The input is not valid",
    ProblemCode.MALFORMED: "The body cannot be parsed",
    ProblemCode.NOT_AUTHENTICATED: "Authentication is required",
    ProblemCode.PERMISSION_DENIED: "Permission denied",
    ProblemCode.NOT_FOUND: "Not found",
    ProblemCode.METHOD_NOT_ALLOWED: "The path does not support this method",
    ProblemCode.NOT_ACCEPTABLE: "The requested format is not available",
    ProblemCode.CONFLICT: "The state of the cluster does not permit this",
    ProblemCode.IDEMPOTENCY_KEY_IN_USE: "The Idempotency-Key is in use",
    ProblemCode.PRECONDITION_FAILED: "The object changed since it was read",
    ProblemCode.TOO_LARGE: "The body is too large",
    ProblemCode.UNSUPPORTED_MEDIA_TYPE: "The format of the body is not supported",
    ProblemCode.IDEMPOTENCY_KEY_REUSED: "The Idempotency-Key belongs to another request",
    ProblemCode.TOO_MANY_REQUESTS: "Too many requests",
    ProblemCode.INTERNAL_ERROR: "Internal error",
    ProblemCode.UNAVAILABLE: "A service that the console needs does not respond",
}
BY_STATUS = {status: code for code, status in reversed(STATUS.items())}
"""The general code of a status: the first in STATUS."""


def code_of(status: int) -> ProblemCode:
    """The general code of a status. Other statuses of a client error have INVALID, of a server error INTERNAL_ERROR."""
    server = status >= HTTPStatus.INTERNAL_SERVER_ERROR
    return BY_STATUS.get(HTTPStatus(status), ProblemCode.INTERNAL_ERROR if server else ProblemCode.INVALID)


def problem(
    code: ProblemCode,
    detail: str,
    errors: Sequence[FieldError] = (),
    *,
    headers: Mapping[str, str] | None = None,
    extra: Mapping[str, object] | None = None,
    status: int | None = None,
) -> JsonResponse:
    """The response of a problem. `field` of the body is the field of the first error, or empty if no input caused the problem. `extra`: further
    members."""
    status = status or STATUS[code]
    body = {
        "type": TYPE_PREFIX + code,
        "title": TITLES[code],
        "status": int(status),
        "detail": detail,
        "code": code,
        "field": errors[0].field if errors else "",
        "errors": [asdict(e) for e in errors],
        **(extra or {}),
    }
    return JsonResponse(body, status=status, content_type=MEDIA_TYPE, headers=dict(headers or {}))


def invalid(errors: Sequence[FieldError]) -> JsonResponse:
    """All faults of an input. `detail` is the first of them and the number of the others."""
    more = f" ({len(errors) - 1} more in `errors`)" if len(errors) > 1 else ""
    return problem(ProblemCode.INVALID, f"{errors[0].detail}{more}", errors)
