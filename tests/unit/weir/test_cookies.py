"""Consoles with different secret keys have cookies of different names."""

from __future__ import annotations

from django.conf import settings

from weir.cookies import MARK_CHARS, cookie_mark


def test_each_console_has_names_of_its_own_and_its_processes_share_them() -> None:
    assert cookie_mark("a") == cookie_mark("a") != cookie_mark("b")
    assert len(cookie_mark("a")) == MARK_CHARS and cookie_mark("a").isalnum()


def test_the_cookies_of_sessions_and_forms_have_the_mark() -> None:
    mark = cookie_mark(settings.SECRET_KEY)
    assert (f"weir_session_{mark}", f"weir_csrf_{mark}") == (settings.SESSION_COOKIE_NAME, settings.CSRF_COOKIE_NAME)
