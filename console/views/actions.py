"""Operations on one object: the buttons of its page, and operations that run without a review."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from console.views.shell import actor, flash, redirect_to, rejected
from controlplane.services import Rejected


@dataclass(frozen=True, slots=True)
class ActionButton:
    """A button of an action bar; its label names the effect. `immediate`: it posts; otherwise it opens a review."""

    verb: str
    label: str
    hint: str
    immediate: bool
    kind: str = ""


@dataclass(frozen=True, slots=True)
class ImmediateAction:
    """An operation without a review. `message`: text of the flash message, with {0} for the id. `undo`: the reverse operation, or ""."""

    service: Callable[..., Any]
    message: str
    undo: str = ""


def run_immediately(
    request: HttpRequest, action: ImmediateAction, object_id: int, *, page: str, act: str, nav: str
) -> HttpResponse:
    """Run the operation and return to the page of the object. `page`, `act`: URL names of the page and of its operations."""
    try:
        action.service(object_id, actor=actor(request))
    except Rejected as error:
        return rejected(request, error, reverse(page, args=[object_id]), nav=nav)
    flash(request, action.message.format(object_id), reverse(act, args=[object_id, action.undo]) if action.undo else "")
    return redirect_to(page, object_id)
