"""Addresses of pages about offset resets."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

from console.templatetags.offset_resets import member_remove_address, reset_address

NAME = "a&b/c d?#é"


def test_any_group_id_and_member_id_survives_the_address() -> None:
    assert parse_qs(urlsplit(reset_address(NAME)).query) == {"group": [NAME]}
    assert parse_qs(urlsplit(member_remove_address(NAME, NAME)).query) == {"group": [NAME], "member": [NAME]}
