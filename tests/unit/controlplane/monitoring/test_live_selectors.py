"""Where a page continues: the updates of this process, or those that were received from another one."""

from __future__ import annotations

import pytest

from controlplane.monitoring import live_events, live_selectors
from controlplane.monitoring.hub import Hub, UpdateBuffer
from controlplane.monitoring.live_events import LiveUpdate


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Hub:
    found = Hub()
    monkeypatch.setattr(live_selectors, "hub", found)
    monkeypatch.setattr(live_selectors, "received", UpdateBuffer())
    return found


def receive(seq: int) -> None:
    live_selectors.received.append(LiveUpdate(run="other", seq=seq, kind=live_events.CLUSTER, data={}))


def test_a_page_has_the_position_of_the_process_that_publishes(hub: Hub) -> None:
    assert live_selectors.latest() == (hub.run, 0)
    receive(7)
    assert live_selectors.latest() == ("other", 7)
    hub.publish(live_events.CLUSTER, {})
    assert live_selectors.latest() == (hub.run, 1)
    assert live_selectors.is_local(hub.run) and not live_selectors.is_local("other")


def test_missed_updates_include_updates_of_both_processes(hub: Hub) -> None:
    hub.publish(live_events.CLUSTER, {})
    receive(7)
    receive(8)
    assert [u["seq"] for u in live_selectors.since(hub.run, 0) or []] == [1]
    assert [u["seq"] for u in live_selectors.since("other", 7) or []] == [8]
    assert live_selectors.since("other", 3) is None and live_selectors.since("third", 1) is None
    live_selectors.received.clear()
    assert live_selectors.since("other", 8) is None
