"""`Idempotency-Key` of POST requests: the first response is stored for 24 hours and returned to repeated requests.

A response of 400 to 499 and 503 is not stored: the request changed nothing, and may be repeated with the same key. After a defect (500) the effect is
unknown; the key stays reserved.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from http import HTTPStatus

from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.errors import InvalidInput, ProblemError
from controlplane.api.problems import FieldCode, FieldError, ProblemCode
from controlplane.services import idempotency
from controlplane.services.idempotency import ClaimState

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
"""Header of a response that an earlier request produced."""
KEY = re.compile(r"[\x21-\x7e]{1,255}")

RUNNING = "A request with this Idempotency-Key runs, or ended without a response. Read the object before you repeat it with another key."
OTHER_REQUEST = "This Idempotency-Key belongs to another request: method, path or body differ. Use a new key."
SECRET = "The request was carried out before. Its response contained a secret, which is not stored."

Handler = Callable[..., Response]


def run_once(handler: Handler, on_error: Callable[[Exception], Response], *, secret: bool) -> Handler:
    """`handler` of a POST that runs once per key. `on_error` turns its exceptions into responses and raises defects again. `secret`: the
    body of its response is not stored."""

    def run(request: Request, *args: object, **kwargs: object) -> Response:
        key = request.headers[HEADER]
        if not KEY.fullmatch(key):
            text = f"{HEADER}: Give 1 to 255 visible ASCII characters, for example a UUID."
            raise InvalidInput([FieldError(HEADER, FieldCode.INVALID, text)])
        body = json.dumps(request.data, sort_keys=True)
        claim = idempotency.claim(
            request.user.get_username(), key, idempotency.fingerprint(request.method or "", request.path, body)
        )
        match claim.state:
            case ClaimState.OTHER_REQUEST:
                raise ProblemError(ProblemCode.IDEMPOTENCY_KEY_REUSED, OTHER_REQUEST)
            case ClaimState.RUNNING:
                raise ProblemError(ProblemCode.IDEMPOTENCY_KEY_IN_USE, RUNNING)
            case ClaimState.STORED if claim.secret:
                raise ProblemError(ProblemCode.IDEMPOTENCY_KEY_IN_USE, SECRET)
            case ClaimState.STORED:
                return Response(claim.body, status=claim.status, headers={REPLAYED: "true"})
        try:
            response = handler(request, *args, **kwargs)
        except Exception as error:  # A defect is raised again, and the key stays reserved.
            response = on_error(error)
        if response.status_code < HTTPStatus.BAD_REQUEST:
            data = getattr(response, "data", None)
            idempotency.keep_response(claim.id, response.status_code, data, secret=secret)
        else:
            idempotency.release(claim.id)
        return response

    return run
