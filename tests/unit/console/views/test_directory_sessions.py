"""The page of a rejected login, and addresses after a login."""

from __future__ import annotations

from http import HTTPStatus

import pytest
from django.test import RequestFactory

from console.views.directory_sessions import STATUS, local_address, rejected_page
from controlplane.domain.external_login import LoginRejected, LoginRejection, LoginSource
from controlplane.models import Change

pytestmark = pytest.mark.django_db


def test_a_rejection_is_recorded_only_for_a_user_whom_the_directory_has_confirmed() -> None:
    request = RequestFactory().get("/login/oidc/callback/")
    for user, status in (("", HTTPStatus.SERVICE_UNAVAILABLE), ("alice", HTTPStatus.FORBIDDEN)):
        rejection = LoginRejection.DISABLED if user else LoginRejection.UNREACHABLE
        rejected = LoginRejected(rejection, user=user, provider="https://id", cause="no connection")
        assert rejected_page(request, rejected, LoginSource.OIDC).status_code == status
    assert [c.actor for c in Change.objects.all()] == ["alice"]
    assert set(STATUS.values()) <= {400, 502, 503}


@pytest.mark.parametrize(
    ("address", "following"),
    [("/a?b", "/a?b"), ("", "/"), ("//x/", "/"), ("http://testserver/a", "http://testserver/a"), ("https://x/", "/")],
)
def test_addresses_are_those_of_this_console(address: str, following: str) -> None:
    assert local_address(RequestFactory().get("/"), address) == following
