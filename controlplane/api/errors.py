"""The one error shape: {"reason": sentence, "field": name}. Law: a refusal by input is 400, by the cluster's state 409, an unknown object
404. Called by DRF for every exception of a view."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404
from rest_framework import exceptions, status
from rest_framework.response import Response
from rest_framework.views import exception_handler

from controlplane.services import Refused


def handle(error: Exception, context: dict[str, Any]) -> Response | None:
    if isinstance(error, Refused):
        code = status.HTTP_400_BAD_REQUEST if error.field else status.HTTP_409_CONFLICT
        return Response({"reason": error.reason, "field": error.field}, status=code)
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
