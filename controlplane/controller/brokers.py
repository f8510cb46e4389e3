"""Effects of broker registrations and failed log directories on the ISR and the ELR of each partition.

Invariants (docs/safety.md section 3):
A broker without a registration leaves the ISR. It stays electable if it can prove that it has the data.
A replica whose tail or directory is lost cannot prove that it has the data.
A broker that returns with its data keeps its ISR membership under its new incarnation.
All replicas that one pass removes from a partition leave it in one step (decision 029).
Does not contain: failure detection (`liveness_probes`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from brokerd.cluster import broker_lives, election
from brokerd.cluster.broker_lives import DirectoryDoubt
from brokerd.cluster.levels import LIFE_LEVEL
from brokerd.cluster.metadata import AccessChanged, BrokerDown, BrokerUp
from brokerd.cluster.model import BrokerState, ReplicaIncarnation, TopicPartition, TopicState
from brokerd.cluster.znodes import Registration
from controlplane.controller import request_validation
from controlplane.controller.events import ReportKind, Subject, SubjectKind
from controlplane.controller.reconcile_pass import ReconcilePass

ENDPOINTS_LEVEL = AccessChanged.LEVEL


def apply_registrations(plan: ReconcilePass) -> None:
    """Write `BrokerUp` and `BrokerDown` records. Afterwards `plan.registrations` contains exactly the accepted brokers."""
    plan.registrations = _accepted_registrations(plan)
    departed = [b for b in plan.image.live_brokers() if b.broker_id not in plan.registrations]
    arrived = [
        _with_tail_check(plan, r)
        for _, r in sorted(plan.registrations.items())
        if plan.image.broker_epoch(r.broker_id) != r.broker_epoch
    ]
    level = plan.level()
    for b in departed:
        plan.add(BrokerDown(b.broker_id, b.broker_epoch))
    for r in arrived:
        plan.add(_broker_up(r, level))
    for r in plan.registrations.values():
        # A broker that registered before the metadata level was raised: only its endpoints and its life change.
        known = plan.image.brokers.get(r.broker_id)
        if known is None or known.broker_epoch != r.broker_epoch:
            continue
        up = _broker_up(r, level)
        if (up.endpoints, up.life) != (known.endpoints, known.life):
            plan.add(up)
    if departed or arrived:
        _update_partitions(plan, departed, arrived)


def _with_tail_check(plan: ReconcilePass, registration: Registration) -> Registration:
    """Compare the registration with the last recorded life. A directory without that life is an older copy, also if the broker reports otherwise."""
    known = plan.image.brokers.get(registration.broker_id)
    if known is not None and not broker_lives.continues_recorded_life(
        known.life, registration.life, registration.lives_before
    ):
        registration = replace(
            registration,
            tail_intact=False,
            tail_doubt=DirectoryDoubt.EMPTY
            if registration.tail_doubt == DirectoryDoubt.EMPTY
            else DirectoryDoubt.OLDER,
        )
    if not registration.tail_intact and registration.tail_doubt:
        what, action = broker_lives.explain_doubt(registration.tail_doubt)
        text = f"data directory not trusted, reason={registration.tail_doubt}. {what} {action}".rstrip()
        plan.report(ReportKind.REJECTED, Subject(SubjectKind.BROKER, str(registration.broker_id)), text)
    return registration


def _accepted_registrations(plan: ReconcilePass) -> dict[int, Registration]:
    registered = plan.registrations.values()
    foreign = [
        r for r in registered if r.cluster_id and plan.image.cluster_id and r.cluster_id != plan.image.cluster_id
    ]
    for registration in foreign:
        plan.report(
            ReportKind.REJECTED,
            Subject(SubjectKind.BROKER, str(registration.broker_id)),
            f"its data directory belongs to cluster {registration.cluster_id}",
        )
    incompatible_brokers = request_validation.incompatible_brokers(registered, plan.image.metadata_version)
    for registration in incompatible_brokers:
        low, high = registration.metadata_levels
        text = f"it reads levels {low} to {high} of the metadata log, which is at {plan.image.metadata_version}: upgrade it"
        plan.report(ReportKind.REJECTED, Subject(SubjectKind.BROKER, str(registration.broker_id)), text)
    # An incarnation that the log records as dead stays dead. A registration can outlive its process. A controller that did not see
    # the death would otherwise restore the state of that process's start. A live broker reads the record and registers again.
    dead = [
        r
        for r in registered
        if (b := plan.image.brokers.get(r.broker_id)) is not None and b.broker_epoch == r.broker_epoch and not b.alive
    ]
    ignored = [*foreign, *incompatible_brokers, *dead]
    return {i: r for i, r in plan.registrations.items() if r not in ignored}


def _update_partitions(plan: ReconcilePass, departed: list[BrokerState], arrived: list[Registration]) -> None:
    lost = {r.broker_id for r in arrived if not r.tail_intact}
    replaced = {r.broker_id for r in arrived if broker_lives.may_be_elsewhere(r.tail_doubt)}
    for topic, index, first in plan.image.each_partition():
        away = [b.broker_id for b in departed if b.broker_id in first.replicas]
        returned = [r for r in arrived if r.broker_id in first.replicas]
        if not away and not returned:
            continue
        tp = TopicPartition(topic.topic_id, index)
        copies_lost = [b for b in first.replicas if b in lost or plan.is_offline(b, plan.broker_epoch(b), tp)]
        _remove_replicas(plan, topic, tp, away, copies_lost, replaced)
        for r in returned:
            if r.broker_id not in lost:
                state = plan.state(tp)
                assert state is not None
                plan.put(tp, election.with_new_broker_epoch(state, ReplicaIncarnation(r.broker_id, r.broker_epoch)))


def _broker_up(registration: Registration, level: int) -> BrokerUp:
    lives = level >= LIFE_LEVEL
    return BrokerUp(
        registration.broker_id,
        registration.broker_epoch,
        registration.broker_uuid,
        registration.host,
        registration.port,
        registration.rack,
        registration.failure_domain,
        registration.tail_intact,
        registration.endpoints if level >= ENDPOINTS_LEVEL else (),
        registration.life if lives else "",
        registration.tail_doubt if lives else "",
    )


def handle_offline_replicas(plan: ReconcilePass) -> None:
    """Replicas on failed directories leave the ISR and the ELR, as after a lost tail: their data may never return."""
    for broker_id, (broker_epoch, partitions) in sorted(plan.offline.items()):
        if plan.broker_epoch(broker_id) != broker_epoch:
            continue
        for tp in sorted(partitions):
            state, topic = plan.state(tp), plan.image.topics.get(tp.topic_id)
            if state is None or topic is None or broker_id not in (*state.isr_ids, *state.elr):
                continue
            _remove_replicas(plan, topic, tp, (), (broker_id,))


def _remove_replicas(
    plan: ReconcilePass,
    topic: TopicState,
    tp: TopicPartition,
    away: Collection[int],
    lost: Collection[int],
    replaced: Collection[int] = (),
) -> None:
    state, config = plan.state(tp), plan.config(topic)
    assert state is not None
    after = election.remove_offline_replicas(
        state,
        away,
        lost,
        plan.serving_epochs(tp),
        min_insync=config.min_insync_replicas,
        unclean=config.unclean_leader_election,
        replaced=replaced,
    )
    plan.put(tp, after)
