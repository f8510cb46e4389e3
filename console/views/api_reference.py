"""The pages of the API reference: an index of all operations, and one page per noun. They need no script, so they comply with the content security policy."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from console.texts import known_language
from console.views.shell import not_found, render_page, viewer_required
from controlplane.api.reference import api_reference, reference_page


@viewer_required
def index(request: HttpRequest) -> HttpResponse:
    pages = api_reference(known_language(get_language()))
    context = {"pages": pages, "count": sum(len(p.operations) for p in pages)}
    return render_page(request, "console/api_reference.html", context)


@viewer_required
def noun(request: HttpRequest, name: str) -> HttpResponse:
    page = reference_page(name, known_language(get_language()))
    if page is None:
        return not_found(request, _("API reference of “{name}”").format(name=name), "api-reference")
    return render_page(request, "console/api_reference_noun.html", {"page": page})
