"""Addresses of records."""

from __future__ import annotations

from console import record_links


def test_a_committed_offset_leads_to_the_next_record() -> None:
    shown = record_links.committed_offset("orders", 2, 41_000)
    assert 'href="/messages/?topic=orders&amp;partitions=2&amp;start=offset&amp;offset=41000&amp;limit=1"' in shown
    assert ">41,000</a>" in shown and "href" not in record_links.committed_offset("orders", 2, None)
