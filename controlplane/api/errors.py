"""The one error shape: {"reason": sentence, "field": name}. Law: a refusal by input is 400, by the cluster's state 409, an unknown object
404. Called by DRF for every exception of a view."""

from __future__ import annotations

import logging
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import OperationalError
from django.http import Http404
from rest_framework import exceptions, status
from rest_framework.response import Response
from rest_framework.views import exception_handler

from controlplane.services import Refused

log = logging.getLogger(__name__)


def handle(error: Exception, context: dict[str, Any]) -> Response | None:
    if isinstance(error, Refused):
        code = status.HTTP_400_BAD_REQUEST if error.field else status.HTTP_409_CONFLICT
        return Response({"reason": error.reason, "field": error.field}, status=code)
    if isinstance(error, OperationalError):
        # Reads go on from WAL; a write met a lock for longer than the time-out, or the database is away.
        log.warning("the database does not answer: %s", error)
        reason = "The database is locked or does not answer; nothing was changed. Try again."
        return Response({"reason": reason, "field": ""}, status=status.HTTP_503_SERVICE_UNAVAILABLE)
    response = exception_handler(error, context)
    if response is None:
        return None
    if isinstance(error, exceptions.ValidationError):
        field, reason = _first(error.detail)
        response.data = {"reason": reason, "field": field}
    elif isinstance(error, Http404):
        response.data = {"reason": str(error) or "There is no such thing here.", "field": ""}
    elif isinstance(error, PermissionDenied):
        response.data = {"reason": str(error) or "You may not do this.", "field": ""}
    elif isinstance(error, exceptions.APIException):
        response.data = {"reason": str(error.detail), "field": ""}
    return response


def _first(detail: Any, path: str = "") -> tuple[str, str]:
    """The first problem of DRF's nested details, as (dotted field, sentence)."""
    if isinstance(detail, dict):
        name, inner = next(iter(detail.items()))
        own = "" if name == "non_field_errors" else str(name)
        return _first(inner, f"{path}.{own}" if path and own else path or own)
    if isinstance(detail, list):
        for i, inner in enumerate(detail):
            if inner:
                deeper = f"{path}.{i}" if isinstance(inner, dict | list) else path
                return _first(inner, deeper)
        return path, "Not valid."
    text = str(detail)
    return path, f"{path}: {text}" if path else text
