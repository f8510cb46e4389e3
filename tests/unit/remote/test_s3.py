"""Failures of S3 as a remote store. The tests for all stores are in test_stores.py."""

from __future__ import annotations

import pytest

from brokerd.remote import s3
from brokerd.remote.stores import StoreUnavailable


def test_an_s3_server_that_does_not_respond_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    with pytest.raises(StoreUnavailable):
        s3.store_at("bucket", "prefix").get("a", 0, 1)
