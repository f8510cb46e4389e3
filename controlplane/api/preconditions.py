"""`If-Match` (RFC 9110): a request changes an object only if its entity tag is the given one. Otherwise 412 with the current state.

Invariants: the tag is compared under a lock that lasts until the change is committed. No guarded handler makes network calls: the lock would last as
long as the call, and an unexpected error would roll back the audit row of a request that was sent.
"""

from __future__ import annotations

from collections.abc import Callable

from django.db import transaction
from django.utils.http import parse_etags, quote_etag
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.errors import InvalidInput, ProblemError
from controlplane.api.problems import FieldCode, FieldError, ProblemCode

HEADER = "If-Match"
CHANGED = (
    "The object changed since it was read: its entity tag is {now}, not {expected}. `current` is its present state."
)
WITHOUT_TAG = "If-Match: Requests of this path cannot have preconditions. Send the request without the header."

Handler = Callable[..., Response]


def no_tags(request: Request, *args: object, **kwargs: object) -> Response:
    """Handler of a request with a precondition that cannot be checked."""
    raise InvalidInput([FieldError(HEADER, FieldCode.INVALID, WITHOUT_TAG)])


def with_precondition(
    handler: Handler,
    on_error: Callable[[Exception], Response],
    read_tag: Callable[[], str | None],
    current: Callable[[], dict[str, object]],
) -> Handler:
    """`handler` of a request with `If-Match`. `read_tag` locks the object; None: it does not exist, which the handler answers. `current`: the
    representation of the object. `on_error` turns rejections into responses, so that their change rows are committed."""

    def run(request: Request, *args: object, **kwargs: object) -> Response:
        expected = parse_etags(request.headers[HEADER])
        with transaction.atomic():
            tag = read_tag()
            if tag is None or "*" in expected or quote_etag(tag) in expected:
                try:
                    return handler(request, *args, **kwargs)
                except Exception as error:  # A defect is raised again, which rolls the change back.
                    return on_error(error)
            now = quote_etag(tag)
            raise ProblemError(
                ProblemCode.PRECONDITION_FAILED,
                CHANGED.format(now=now, expected=request.headers[HEADER]),
                headers={"ETag": now},
                extra={"current": current()},
            )

    return run
