"""The text of a row of failed logins."""

from __future__ import annotations

import pytest

from controlplane.models import LoginFailure


@pytest.mark.parametrize(("address", "text"), [("10.0.0.1", "10.0.0.1"), ("", "all addresses")])
def test_failures_are_counted_per_address_or_over_all(address: str, text: str) -> None:
    assert str(LoginFailure(name="alice", address=address, failures=3)) == f"alice from {text}: 3"
