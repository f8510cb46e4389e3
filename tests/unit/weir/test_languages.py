"""The language of a response by the address, the cookie and the browser."""

from __future__ import annotations

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory
from django.utils import translation

from weir.languages import Language


@pytest.mark.parametrize(
    ("path", "cookie", "browser", "language"),
    [
        ("/topics/", "", "", "en"),
        ("/topics/", "", "zh-CN,zh;q=0.9", "zh-hans"),
        ("/topics/", "", "fr", "en"),
        ("/topics/", "en", "zh-CN", "en"),
        ("/topics/", "zh-hans", "en", "zh-hans"),
        ("/topics/", "xx", "", "en"),
        ("/api/v1/topics", "zh-hans", "zh-CN", "en"),
        ("/api/v1/docs/topics/", "zh-hans", "", "zh-hans"),
    ],
)
def test_the_language_of_a_response(path: str, cookie: str, browser: str, language: str) -> None:
    def get_response(_: HttpRequest) -> HttpResponse:
        return HttpResponse(translation.get_language())

    request = RequestFactory().get(path, HTTP_ACCEPT_LANGUAGE=browser, HTTP_COOKIE=f"weir_language={cookie}")
    with translation.override("en"):
        response = Language(get_response)(request)
    assert response.content.decode() == response["Content-Language"] == language
