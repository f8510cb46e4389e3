"""Which requests are sent to the login provider. The renewal itself: views/test_oidc.py."""

from __future__ import annotations

from typing import Any

import pytest
from django.http import HttpResponse
from django.test import RequestFactory

from console.session_renewal import EXEMPT, RENEW_AT, SessionRenewal


def respond(path: str = "/topics/?q=a", *, renew_at: float | None = 0.0, method: str = "GET", **headers: str) -> Any:
    request: Any = RequestFactory().generic(method, path, headers=headers)
    request.session = {} if renew_at is None else {RENEW_AT: renew_at}
    return SessionRenewal(lambda _: HttpResponse("page"))(request)


def test_a_page_is_sent_there_when_it_is_due() -> None:
    assert respond().headers["Location"] == "/login/renew/?next=%2Ftopics%2F%3Fq%3Da"
    assert respond(**{"Sec-Fetch-Mode": "navigate"}).status_code == 302
    boosted = respond(**{"HX-Request": "true", "HX-Boosted": "true"})
    assert (boosted.status_code, boosted.headers["HX-Redirect"][:13]) == (204, "/login/renew/")


@pytest.mark.parametrize("path", EXEMPT)
def test_other_paths_are_not(path: str) -> None:
    assert respond(path).status_code == 200


def test_a_session_that_is_not_due_a_form_and_a_part_of_a_page_are_not() -> None:
    for response in (
        respond(renew_at=None),
        respond(renew_at=float("inf")),
        respond(method="POST"),
        respond(**{"HX-Request": "true"}),
        respond(**{"Sec-Fetch-Mode": "cors"}),
    ):
        assert response.content == b"page"
