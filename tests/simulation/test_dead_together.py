"""Brokers that die at the same moment: any of them may lead after its restart, but a replica that was alone in the ISR must be waited for (decision 029)."""

from __future__ import annotations

import pytest

from brokerd.cluster.model import NO_LEADER
from tests.simulation.probes import ProbeAccuracy
from tests.simulation.scene import Scene

FOUND = ProbeAccuracy(reported=1, wrong=0, together=1)
WRITTEN = [f"r{i}" for i in range(5)]

pytestmark = pytest.mark.parametrize("seed", range(1, 5))


@pytest.mark.parametrize("min_insync", [1, 2])
def test_the_first_broker_to_restart_leads_with_all_acknowledged_records(seed: int, min_insync: int) -> None:
    scene = Scene(seed, min_insync, brokers=3, probes=FOUND)
    scene.write(*WRITTEN)
    for node in scene.cluster.brokers.values():
        node.kill()
    scene.cluster.run_until(lambda: scene.state.leader == NO_LEADER, 2, "all brokers to be declared dead")
    assert set(scene.state.isr_ids) == {1, 2, 3}
    first = 1 + seed % 3
    scene.cluster.brokers[first].start()
    scene.until_leads(first)
    assert (scene.state.isr_ids, set(scene.state.elr)) == ((first,), set() if min_insync == 1 else {1, 2, 3} - {first})
    for node in scene.cluster.brokers.values():
        node.start()
    assert scene.end() == WRITTEN


def test_the_last_isr_member_is_waited_for(seed: int) -> None:
    scene = Scene(seed, 1, brokers=3, probes=FOUND)
    scene.write(*WRITTEN)
    last = scene.state.leader
    others = [b for b in (1, 2, 3) if b != last]
    for b in others:
        scene.cluster.brokers[b].kill()
    scene.cluster.run_until(lambda: scene.state.isr_ids == (last,), 2, "one ISR member to be left")
    scene.pass_ms(300)
    scene.write("alone")
    scene.cluster.brokers[last].kill()
    scene.cluster.run_until(lambda: scene.state.leader == NO_LEADER, 2, "the last broker to be declared dead")
    for b in others:
        scene.cluster.brokers[b].start()
    scene.pass_ms(8_000)
    assert (scene.state.leader, scene.state.isr_ids) == (NO_LEADER, (last,))
    scene.cluster.brokers[last].start()
    scene.until_leads(last)
    assert scene.end() == [*WRITTEN, "alone"]
