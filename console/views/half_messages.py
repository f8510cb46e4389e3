"""Undecided half messages of a topic. A decision by an operator is an approval request."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from console.views.shell import not_found, render_page, viewer_required
from controlplane.selectors import half_messages as selectors


@viewer_required
def half_messages(request: HttpRequest, name: str) -> HttpResponse:
    found = selectors.undecided(name)
    if found is None:
        return not_found(request, _("topic with half messages “{name}”").format(name=name), "topics", nav="topics")
    rows = [(r, _propose("half.commit", r.target), _propose("half.rollback", r.target)) for r in found.rows]
    return render_page(request, "console/half_messages.html", {"found": found, "rows": rows}, nav="topics")


def _propose(kind: str, target: str) -> str:
    """The page that requests the approval of this operation."""
    return f"{reverse('proposal-new')}?{urlencode({'kind': kind, 'target': target})}"
