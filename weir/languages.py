"""The language of a response: the language chosen in the console (a cookie), else the browser's language (Accept-Language), else English.

Invariant: the REST API answers in English, for every language that the browser requests, because programs and audit records store its texts. Its
reference under /api/v1/docs/ is a page of the console. Does not contain: translations (locale/) and the rules for texts (docs/how-to/add-a-text.md).
"""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest
from django.middleware.locale import LocaleMiddleware
from django.utils import translation

API_PREFIX, API_PAGES_PREFIX = "/api/", "/api/v1/docs/"


class Language(LocaleMiddleware):
    def process_request(self, request: HttpRequest) -> None:
        if request.path_info.startswith(API_PREFIX) and not request.path_info.startswith(API_PAGES_PREFIX):
            translation.activate(settings.LANGUAGE_CODE)
            request.LANGUAGE_CODE = settings.LANGUAGE_CODE
        else:
            super().process_request(request)
