"""The texts of the scripts in one language. The choice of the language itself is Django's view `set_language`."""

from __future__ import annotations

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.utils import translation
from django.views.decorators.cache import cache_control
from django.views.i18n import JavaScriptCatalog

CACHE_SECONDS = 3600
"""Time for which a browser keeps the texts. A page of a new release shows new texts of scripts in English for this time at most."""


class _ConsoleTexts(JavaScriptCatalog):
    packages = ["console"]


@cache_control(max_age=CACHE_SECONDS)
def script_texts(request: HttpRequest, language: str) -> HttpResponse:
    """The functions gettext and ngettext of a language. Contains no data, so it needs no login."""
    if language not in dict(settings.LANGUAGES):
        raise Http404
    with translation.override(language):
        return _ConsoleTexts.as_view()(request)  # type: ignore[return-value]
