"""Saved views and hidden columns of one user."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model

from controlplane.selectors import saved_views as selectors
from controlplane.services import Rejected, saved_views

pytestmark = pytest.mark.django_db


def user(name: str) -> int:
    return int(get_user_model().objects.create_user(name).pk)


def test_a_view_belongs_to_one_user_and_a_name_is_replaced() -> None:
    alice, bob = user("alice"), user("bob")
    first = saved_views.save_view(alice, "  my   topics ", "/topics/?q=a")
    assert saved_views.save_view(alice, "my topics", "/topics/?q=b") == first
    assert [(v.name, v.address) for v in selectors.saved_views(alice)] == [("my topics", "/topics/?q=b")]
    assert selectors.saved_views(bob) == []
    with pytest.raises(Rejected):
        saved_views.delete_view(bob, first)
    saved_views.delete_view(alice, first)
    assert selectors.saved_views(alice) == []


@pytest.mark.parametrize(
    "address",
    [
        "https://example.org/",
        "//example.org/",
        "javascript:alert(1)",
        "topics/",
        "",
        "/\\example.org",
        "/?" + "q" * 1000,
    ],
)
def test_only_pages_of_the_console_are_saved(address: str) -> None:
    with pytest.raises(Rejected):
        saved_views.save_view(user("alice"), "x", address)


@pytest.mark.parametrize("name", ["", "  ", "x" * 81])
def test_a_name_is_needed(name: str) -> None:
    with pytest.raises(Rejected):
        saved_views.save_view(user("alice"), name, "/")


def test_the_number_of_views_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_views, "VIEWS_MAX", 2)
    alice = user("alice")
    for name in ("a", "b", "b"):
        saved_views.save_view(alice, name, "/")
    with pytest.raises(Rejected, match="2 saved views"):
        saved_views.save_view(alice, "c", "/")


def test_hidden_columns_are_kept_per_user_and_table() -> None:
    alice = user("alice")
    saved_views.hide_columns(alice, "topics", ["State", "Records"])
    assert selectors.hidden_columns(alice, "topics") == {"State", "Records"}
    assert selectors.hidden_columns(alice, "groups") == selectors.hidden_columns(user("bob"), "topics") == frozenset()
    saved_views.hide_columns(alice, "topics", [])
    assert selectors.hidden_columns(alice, "topics") == frozenset()
    with pytest.raises(Rejected):
        saved_views.hide_columns(alice, "topics", [str(n) for n in range(41)])
