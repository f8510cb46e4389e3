"""The first page on the wire: the page and all its files, compressed as a browser receives them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.middleware.gzip import GZipMiddleware
from django.test import Client

FIRST_PAGE_BYTES_MAX = 60_000
"""About a second on a phone with 500 kbit/s."""
FILE = re.compile(r'<(?:link rel="(?:stylesheet|icon)"|script)[^>]*?(?:href|src)="([^"]+)"')


def test_the_first_page_is_small(
    seeded_cluster: dict[str, Any], operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the up to 100 random bytes that Django adds to each compressed page against BREACH: with them the same page passed in one run and not in the
    next."""
    monkeypatch.setattr(GZipMiddleware, "max_random_bytes", 0)
    accept = {"accept-encoding": "gzip, deflate, br"}
    page = operator.get("/", headers=accept)
    files = {
        address: operator.get(address, headers=accept) for address in FILE.findall(operator.get("/").content.decode())
    }
    sizes = {"/": len(page.content), **{address: len(response.content) for address, response in files.items()}}
    assert page.headers["Content-Encoding"] == "br"
    assert len(files) == 4
    assert sum(sizes.values()) < FIRST_PAGE_BYTES_MAX, sizes
