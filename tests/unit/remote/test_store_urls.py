"""The store of a URL."""

from __future__ import annotations

from pathlib import Path

from brokerd.remote.s3 import S3Store
from brokerd.remote.store_urls import store_at
from brokerd.remote.stores import FolderStore


def test_the_scheme_selects_the_store() -> None:
    folder = store_at("file:///mnt/tier%20one")
    assert isinstance(folder, FolderStore) and folder.root == Path("/mnt/tier one")
    assert isinstance(store_at("s3://bucket/a/b"), S3Store)
