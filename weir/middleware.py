"""Middleware for every request and response of the web process. Does not contain: domain rules."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse

from controlplane.api.problems import MEDIA_TYPE, code_of, problem
from controlplane.domain.visibility import EVERYTHING
from controlplane.selectors.visibility import seen_by
from controlplane.services.authorization import visibility_of

API_PREFIX = "/api/"
NO_SECRET_KEY = (
    "There is no secret key, which signs sessions. Set WEIR_SECRET_KEY to 50 random characters or more, the same for every web process "
    "and worker. `manage.py up` creates one and stores it in local-cluster.json in the data directory."
)
DETAILS = {
    HTTPStatus.NOT_FOUND: "There is no such path; the schema at /api/v1/schema lists all.",
    HTTPStatus.INTERNAL_SERVER_ERROR: "The server failed, and the log has the cause. It is unknown whether the request took effect.",
}
"""Details of errors that no view of the API answered, by status."""


class Guard:
    """Raises an error without a configured secret key, which signs sessions. API responses are not cached, and each error is a problem."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        if not settings.SECRET_KEY_GIVEN:
            raise ImproperlyConfigured(NO_SECRET_KEY)
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self._get_response(request)
        if request.path.startswith(API_PREFIX):
            response = as_problem(request, response)
            response.headers["Cache-Control"] = "no-store"
        return response


class ViewByRole:
    """Selectors return what the user of the session may see. The REST API replaces it by what the user of a token may see."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        with seen_by(visibility_of(request.user) if settings.WEIR.view_by_role else EVERYTHING):
            return self._get_response(request)


def as_problem(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    """Convert a response that Django itself creates for an error (unknown path, exception, rejected host) to a problem of the API. All other responses
    are returned unchanged."""
    if response.status_code < HTTPStatus.BAD_REQUEST or response.headers.get("Content-Type") == MEDIA_TYPE:
        return response
    status = HTTPStatus(response.status_code)
    return problem(code_of(status), DETAILS.get(status, f"{status.phrase}."), status=status)
