"""A member's metadata is that of the chosen protocol."""

from __future__ import annotations

from brokerd.coordinator.classic.events import Member


def test_the_metadata_of_a_protocol_is_empty_without_the_protocol() -> None:
    member = Member("m", None, "c", "/h", 1, 1, (("range", b"r"), ("sticky", b"s")))
    assert [member.metadata(p) for p in ("range", "sticky", "other", "")] == [b"r", b"s", b"", b""]
