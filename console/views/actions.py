"""Operations on one object: the buttons of its page, operations that run without a review, and a deletion with a confirmation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from console.forms import ReasonForm
from console.views.shell import actor, flash, redirect_to, rejected, render_page
from console.vocabulary import rejection_text
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
    """An operation without a review. `message`: text of the flash message, with {0} for the id or the name. `undo`: the reverse operation, or ""."""

    service: Callable[..., object]
    message: str
    undo: str = ""


def run_immediately(
    request: HttpRequest,
    action: ImmediateAction,
    object_id: int,
    *,
    page: str,
    act: str,
    nav: str,
    name: str = "",
    back: str = "",
) -> HttpResponse:
    """Run the operation and return to the page of the object. `page`, `act`: URL names of the page and of its operations. `name`: of an object that has
    one, for the message. `back`: the address of the page to return to, if it is another one."""
    try:
        action.service(object_id, actor=actor(request))
    except Rejected as error:
        return rejected(request, error, reverse(page, args=[object_id]), nav=nav)
    undo = reverse(act, args=[object_id, action.undo]) if action.undo else ""
    flash(request, action.message.format(name or object_id), undo)
    return HttpResponseRedirect(back) if back else redirect_to(page, object_id)


@dataclass(frozen=True, slots=True)
class Deletion:
    """The texts of the page of a deletion. `lines`: its effects. `back`: the address for *Cancel*, `crumb`: the name of that page, `path`: that of the REST API below its root. `message`
    and `done`: the text and the URL name of the page after the deletion."""

    title: str
    lines: list[str]
    button: str
    back: str
    crumb: str
    path: str
    message: str
    done: str


def confirm_deletion(
    request: HttpRequest, deletion: Deletion, delete: Callable[[str], object], *, nav: str
) -> HttpResponse:
    """The page of a deletion that needs a reason, and its execution. `delete` gets the reason, and raises Rejected or PermissionDenied."""
    form = ReasonForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            delete(form.cleaned_data["comment"])
        except PermissionDenied as error:
            return render_page(request, "console/denied.html", {"reason": rejection_text(error)}, nav=nav, status=403)
        except Rejected as error:
            form.reject(error)
        else:
            flash(request, deletion.message)
            return redirect_to(deletion.done)
    context = {
        "title": deletion.title,
        "form": form,
        "lines": deletion.lines,
        "button": deletion.button,
        "back": deletion.back,
        "crumb": deletion.crumb,
        "method": "DELETE",
        "path": deletion.path,
    }
    status = 400 if form.is_bound and form.errors else 200
    return render_page(request, "console/confirm.html", context, nav=nav, status=status)
