"""Links of the page of dead letters."""

from __future__ import annotations

from console.templatetags.dead_letters import failed_address, share_group_link
from controlplane.domain.dead_letters import FailedRecord


def test_the_failed_record_is_read_on_the_page_messages() -> None:
    address = failed_address(FailedRecord("a&b", 3, 41))
    assert address == "/messages/?topic=a%26b&partitions=3&start=offset&offset=41&limit=1"


def test_any_text_can_be_the_name_of_a_group() -> None:
    assert share_group_link(None) == share_group_link("") == "–"
    assert share_group_link("a/<b>") == '<a class="name" href="/share-groups/a/%3Cb%3E/">a/&lt;b&gt;</a>'
    assert share_group_link("a\n<b>") == "a\n&lt;b&gt;"
