"""Brokers come and go, and lose directories: what that does to the seats of each partition.

Laws (docs/safety.md section 3): who is away leaves the ISR, and stays electable as far as it can prove to hold the data; whose tail or directory is lost
proves nothing; who is back whole keeps its seat under its new incarnation; what one look finds leaves a partition at once (decision 029). Called by `core`. Must not come in: who is found dead, and how (`probes`).
"""

from __future__ import annotations

from collections.abc import Collection

from brokerd.cluster import election
from brokerd.cluster.metadata import AccessChanged, BrokerDown, BrokerUp
from brokerd.cluster.model import BrokerState, Seat, TopicPartition, TopicState
from brokerd.cluster.znodes import Registration
from controlplane.controller import requests
from controlplane.controller.look import Look

ENDPOINTS_LEVEL = AccessChanged.LEVEL


def come_and_go(look: Look) -> None:
    """`look.registrations` holds afterwards who belongs to the cluster, and no others."""
    look.registrations = _ours(look)
    gone = [b for b in look.image.live_brokers() if b.broker_id not in look.registrations]
    came = [
        r for _, r in sorted(look.registrations.items())
        if look.image.incarnation(r.broker_id) != r.incarnation
    ]  # fmt: skip
    endpoints = look.level() >= ENDPOINTS_LEVEL
    for b in gone:
        look.add(BrokerDown(b.broker_id, b.incarnation))
    for r in came:
        look.add(_up(r, endpoints))
    for r in look.registrations.values():
        # Of who registered before the level was raised; nothing else about it changes.
        known = look.image.brokers.get(r.broker_id)
        if endpoints and known is not None and known.incarnation == r.incarnation and known.endpoints != r.endpoints:
            look.add(_up(r, True))
    if gone or came:
        _reseat(look, gone, came)


def _ours(look: Look) -> dict[int, Registration]:
    registered = look.registrations.values()
    foreign = [
        r for r in registered
        if r.cluster_id and look.image.cluster_id and r.cluster_id != look.image.cluster_id
    ]  # fmt: skip
    for r in foreign:
        look.report("refused", f"broker {r.broker_id}", f"its folder belongs to cluster {r.cluster_id}")
    deaf = requests.deaf(registered, look.image.metadata_version)
    for r in deaf:
        low, high = r.metadata_levels
        text = f"it reads levels {low} to {high} of the metadata log, which is at {look.image.metadata_version}: upgrade it"
        look.report("refused", f"broker {r.broker_id}", text)
    # Once dead in the log, dead for good: a registration that outlives its process, read by a controller that did not see it die, would
    # bring back what was true at its start. (Who lives all the same reads it and takes a new seat.)
    dead = [
        r for r in registered
        if (b := look.image.brokers.get(r.broker_id)) is not None and b.incarnation == r.incarnation and not b.alive
    ]  # fmt: skip
    gone_or_not_ours = [*foreign, *deaf, *dead]
    return {i: r for i, r in look.registrations.items() if r not in gone_or_not_ours}


def _reseat(look: Look, gone: list[BrokerState], came: list[Registration]) -> None:
    lost = {r.broker_id for r in came if not r.tail_intact}
    for topic, index, first in look.image.each_partition():
        away = [b.broker_id for b in gone if b.broker_id in first.replicas]
        returned = [r for r in came if r.broker_id in first.replicas]
        if not away and not returned:
            continue
        tp = TopicPartition(topic.topic_id, index)
        copies_lost = [b for b in first.replicas if b in lost or look.is_offline(b, look.incarnation(b), tp)]
        _leave_together(look, topic, tp, away, copies_lost)
        for r in returned:
            if r.broker_id not in lost:
                state = look.state(tp)
                assert state is not None
                look.put(tp, election.seated_anew(state, Seat(r.broker_id, r.incarnation)))


def _up(r: Registration, endpoints: bool) -> BrokerUp:
    return BrokerUp(
        r.broker_id, r.incarnation, r.broker_uuid, r.host, r.port, r.rack, r.failure_domain, r.tail_intact,
        r.endpoints if endpoints else (),
    )  # fmt: skip


def lose_copies(look: Look) -> None:
    """Copies on directories that failed leave ISR and ELR as after the loss of a tail: what their directory held may never come back."""
    for broker_id, (incarnation, partitions) in sorted(look.offline.items()):
        if look.incarnation(broker_id) != incarnation:
            continue
        for tp in sorted(partitions):
            state, topic = look.state(tp), look.image.topics.get(tp.topic_id)
            if state is None or topic is None or broker_id not in (*state.isr_ids, *state.elr):
                continue
            _leave_together(look, topic, tp, (), (broker_id,))


def _leave_together(
    look: Look, topic: TopicState, tp: TopicPartition, away: Collection[int], lost: Collection[int]
) -> None:
    state, config = look.state(tp), look.config(topic)
    assert state is not None
    after = election.without(
        state,
        away,
        lost,
        look.serving(tp),
        min_insync=config.min_insync_replicas,
        unclean=config.unclean_leader_election,
    )
    look.put(tp, after)
