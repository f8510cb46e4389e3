"""Rules of safety.md section 3 whose absence loses records only within a narrow window, each step by step. test_mutations removes each rule."""

from __future__ import annotations

import pytest

from brokerd.cluster.model import ReplicaIncarnation
from brokerd.storage.disk import DiskFailed
from brokerd.storage.producers import BATCHES_REMEMBERED
from brokerd.wire.errors import ErrorCode
from controlplane.controller.events import DesiredAssignment, DesiredReset
from tests.simulation.checkers import History
from tests.simulation.clients import Reader
from tests.simulation.scene import Scene

pytestmark = pytest.mark.parametrize("seed", range(1, 7))
SHORT_LAG_TIME = {"replica.lag.time.max.ms": "1500"}


def test_a_smaller_isr_counts_only_after_its_acceptance(seed: int) -> None:
    scene = Scene(seed, settings=SHORT_LAG_TIME)
    scene.write("both")
    leader, follower = scene.pair()
    controller = scene.cluster.controllers[0]
    controller.freeze()
    follower.freeze()
    machine = leader.broker.replica_manager.hosted[scene.tp].core
    scene.cluster.run_until(lambda: machine.proposal is not None, 20, "the leader's ISR proposal without the follower")
    assert len(machine.proposal.isr) == 1
    assert scene.send(leader.broker_id, "unacknowledged", timeout_ms=400) == ErrorCode.REQUEST_TIMED_OUT
    leader.kill()
    scene.pass_ms(4_000)
    controller.resume()
    follower.resume()
    scene.until_leads(follower.broker_id)
    scene.write("after")
    leader.start()
    assert scene.end() == ["both", "after"]


def test_a_new_isr_member_counts_as_soon_as_it_is_proposed(seed: int) -> None:
    scene = Scene(seed, settings=SHORT_LAG_TIME)
    scene.write("both")
    leader, follower = scene.pair()
    controller = scene.cluster.controllers[0]
    follower.freeze()
    scene.cluster.run_until(lambda: scene.state.isr_ids == (leader.broker_id,), 20, "the ISR without it")
    controller.freeze()
    follower.resume()
    machine = leader.broker.replica_manager.hosted[scene.tp].core
    proposes = lambda: machine.proposal is not None and len(machine.proposal.isr) == 2  # noqa: E731
    scene.cluster.run_until(proposes, 20, "the leader's ISR proposal with the follower")
    scene.cluster.network.cut |= {(leader.name, follower.name), (follower.name, leader.name)}
    assert scene.send(leader.broker_id, "unacknowledged", timeout_ms=300) == ErrorCode.REQUEST_TIMED_OUT
    controller.resume()
    scene.cluster.run_until(lambda: len(scene.state.isr) == 2, 20, "its acceptance")
    leader.kill()
    scene.until_leads(follower.broker_id)
    scene.cluster.network.cut.clear()
    scene.write("after")
    leader.start()
    assert scene.end() == ["both", "after"]


def test_r11_the_last_isr_member_loses_its_tail_and_truncates_no_other_replica(seed: int) -> None:
    scene = Scene(seed, min_insync=2, brokers=3)
    written = [f"w:{i}" for i in range(6)]
    scene.write(*written)
    scene.pass_ms(500)
    history = History()
    Reader(scene.cluster, history, "reader", "t", 0, careful=False)
    last = scene.cluster.brokers[scene.state.leader]
    others = [n for n in scene.cluster.brokers.values() if n is not last]
    for node in others:
        node.kill()
    scene.cluster.run_until(lambda: last.broker.replica_manager.hosted[scene.tp].core.isr_size == 1, 20, "one left")
    assert scene.send(last.broker_id, "w:6") == ErrorCode.NOT_ENOUGH_REPLICAS
    assert scene.send(last.broker_id, "w:7", acks=1) == 0
    scene.pass_ms(1_000)
    last.power_cut()
    for node in others:
        node.start()
    scene.cluster.run_until(lambda: scene.state.leader in {n.broker_id for n in others}, 20, "a leader out of elr")
    successor = scene.cluster.brokers[scene.state.leader]
    scene.cluster.run_until(
        lambda: successor.broker.replica_manager.hosted[scene.tp].core.isr_size >= 2, 20, "enough in sync"
    )
    scene.write("w:8")
    last.start()
    assert scene.end() == [*written, "w:8"]
    history.verify(scene.cluster)


def test_a_lost_tail_is_not_forgotten_by_the_next_start(seed: int) -> None:
    scene = Scene(seed)
    written = [f"r{i}" for i in range(12)]
    scene.write(*written)
    keeper, loser = scene.pair()
    controller = scene.cluster.controllers[0]
    scene.pass_ms(200)
    controller.freeze()
    keeper.freeze()
    loser.power_cut()
    loser.start()
    scene.pass_ms(100)
    loser.kill()
    loser.start()
    keeper.kill()
    controller.resume()
    scene.pass_ms(8_000)
    assert scene.state.leader == -1, "it leads, although its tail is lost"
    keeper.start()
    assert scene.end() == written


def test_a_replica_whose_loss_is_not_confirmed_enters_no_isr(seed: int) -> None:
    """It would report the same loss again at its next start, when others may have lost their tails in between."""
    scene = Scene(seed, min_insync=2)
    scene.write("r0", "r1")
    keeper, loser = scene.pair()
    loser.power_cut()
    loser.start()
    scene.cluster.run_until(lambda: loser.broker.membership.broker_epoch is not None, 20, "its registration")
    isr_member = ReplicaIncarnation(loser.broker_id, loser.broker.membership.broker_epoch)
    loser.store.cut()
    scene.pass_ms(1_500)
    assert loser.broker.identity.tail_intact or isr_member not in scene.state.isr
    loser.store.heal()
    scene.cluster.run_until(scene.cluster.is_settled, 20, "its return")
    scene.pass_ms(500)
    scene.write("r2", "r3")
    loser.kill()
    scene.cluster.run_until(lambda: scene.state.elr == (loser.broker_id,), 20, "the replica in the ELR")
    keeper.power_cut()
    keeper.start()
    scene.pass_ms(1_000)
    loser.start()
    assert scene.end() == ["r0", "r1", "r2", "r3"]


def test_a_replaced_leader_that_does_not_know_it_ends_no_idempotent_producer(seed: int) -> None:
    scene = Scene(seed)
    old, new = scene.pair()
    assert scene.send(old.broker_id, "p0", producer=(77, 0)) == 0
    old.store.cut()
    scene.until_leads(new.broker_id)
    assert scene.send(new.broker_id, "p1", acks=1, producer=(77, 1)) == 0
    machine = old.broker.replica_manager.hosted[scene.tp].core
    assert machine.role.value == "leader", "the leader knows of its replacement: the scenario did not happen"
    assert scene.send(old.broker_id, "p2", timeout_ms=300, producer=(77, 2)) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    old.store.heal()
    assert scene.send(new.broker_id, "p2", acks=1, producer=(77, 2)) == 0
    assert scene.end() == ["p0", "p1", "p2"]


def test_a_duplicate_older_than_the_remembered_batches_is_acknowledged_only_when_replicated(seed: int) -> None:
    scene = Scene(seed)
    leader, follower = scene.pair()
    history = History()
    texts = [f"p:{i}" for i in range(BATCHES_REMEMBERED + 2)]
    scene.cluster.network.cut |= {(leader.name, follower.name), (follower.name, leader.name)}
    for i, text in enumerate(texts):
        assert scene.send(leader.broker_id, text, timeout_ms=200, producer=(77, i)) == ErrorCode.REQUEST_TIMED_OUT
    code = scene.send(leader.broker_id, texts[0], timeout_ms=200, producer=(77, 0))
    if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):  # clients count both as success
        history.on_acknowledged("t", 0, texts[0].encode())
    leader.kill()
    scene.until_leads(follower.broker_id)
    scene.cluster.network.cut.clear()
    for i, text in enumerate(texts):
        if text.encode() not in history.acknowledged["t", 0]:
            assert scene.send(follower.broker_id, text, acks=1, producer=(77, i)) == ErrorCode.NONE
    leader.start()
    found = scene.end()
    history.verify(scene.cluster)
    assert found == texts
    assert code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, "producers retry it"
    assert scene.send(follower.broker_id, texts[0], producer=(77, 0)) == ErrorCode.DUPLICATE_SEQUENCE_NUMBER


def test_fetches_before_a_reset_of_the_replica_do_not_count(seed: int) -> None:
    scene = Scene(seed)
    written = [f"r{i}" for i in range(12)]
    scene.write(*written)
    leader, follower = scene.pair()
    scene.cluster.network.cut.add((leader.name, follower.name))  # responses only, not fetches
    scene.cluster.deliver_desired(DesiredReset(scene.topic_id, 0, follower.broker_id, "reset"))
    scene.cluster.run_until(
        lambda: follower.broker.replica_manager.hosted[scene.tp].log.end_offset == 0, 5, "an empty copy"
    )
    scene.pass_ms(1_500)
    assert scene.state.isr_ids == (leader.broker_id,), "an empty replica is in the ISR"
    scene.cluster.network.cut.clear()
    assert scene.end() == written


def test_a_replica_moved_away_and_back_is_in_sync_only_with_its_new_log(seed: int) -> None:
    scene = Scene(seed, brokers=3)
    written = [f"r{i}" for i in range(6)]
    scene.write(*written)
    there = scene.state.replicas
    behind = scene.cluster.brokers[next(b for b in there if b != scene.state.leader)]
    rest = tuple(b for b in there if b != behind.broker_id)
    isr_member = ReplicaIncarnation(behind.broker_id, behind.broker.membership.broker_epoch)
    behind.store.cut()  # the broker gets no metadata from now on and continues to fetch
    for replicas in (rest, there):
        generation = scene.state.assignment_generation
        scene.cluster.deliver_desired(DesiredAssignment(scene.topic_id, 0, replicas, generation, f"to {replicas}"))
        scene.cluster.run_until(lambda n=len(replicas): len(scene.state.replicas) == n, 2, f"replicas {replicas}")  # type: ignore[misc]
    scene.pass_ms(800)
    assert isr_member not in scene.state.isr, "in sync by a replica that it deletes when it reads of its removal"
    behind.store.heal()
    assert scene.end() == written


def test_an_isr_proposal_survives_the_session_of_an_earlier_incarnation(seed: int) -> None:
    scene = Scene(seed, settings=SHORT_LAG_TIME)
    scene.write("both")
    leader, follower = scene.pair()
    controller = scene.cluster.controllers[0]
    scene.cluster.network.cut |= {(leader.name, follower.name), (follower.name, leader.name)}
    scene.cluster.run_until(lambda: scene.state.isr_ids == (leader.broker_id,), 20, "the ISR without the follower")
    first = leader.store.zk_session
    leader.kill()
    leader.start()
    scene.cluster.run_until(lambda: scene.leads_now(leader), 2, "its next life to lead")
    controller.freeze()
    scene.cluster.network.cut.clear()
    machine = leader.broker.replica_manager.hosted[scene.tp].core
    scene.cluster.run_until(lambda: machine.proposal is not None, 10, "the leader's ISR proposal with the follower")
    scene.cluster.run_until(
        lambda: first not in scene.cluster.ensemble.sessions, 10, "the end of the first life's session"
    )
    controller.resume()
    assert scene.end() == ["both"]


def test_after_an_io_error_no_tail_is_trusted(seed: int) -> None:
    scene = Scene(seed, settings=SHORT_LAG_TIME)
    written = [f"r{i}" for i in range(6)]
    scene.write(*written)
    _, failing = scene.pair()
    failing.disk_fails(1, DiskFailed("Input/output error"))
    scene.write("more")
    scene.cluster.run_until(lambda: failing.disk.sick, 10, "the error")
    scene.pass_ms(100)
    failing.kill()
    failing.start()
    assert not failing.broker.identity.tail_intact, "the kernel is the same, but it may have dropped accepted writes"
    assert scene.end() == [*written, "more"]


def test_a_new_session_of_the_same_process_does_not_clear_an_io_error(seed: int) -> None:
    scene = Scene(seed, settings=SHORT_LAG_TIME)
    scene.write("both")
    _, failing = scene.pair()
    failing.disk_fails(1, DiskFailed("Input/output error"))
    scene.write("more")
    scene.cluster.run_until(lambda: failing.broker.identity.losses > 0, 10, "the error")
    scene.cluster.ensemble.expire(failing.store.zk_session)
    first = failing.broker.membership.broker_epoch
    registered_again = lambda: scene.cluster.image.broker_epoch(failing.broker_id) not in (None, first)  # noqa: E731
    scene.cluster.run_until(registered_again, 10, "its next registration")
    scene.pass_ms(1_000)
    failing.kill()
    failing.start()
    assert not failing.broker.identity.tail_intact
    assert scene.end() == ["both", "more"]


def test_an_io_error_is_recorded_at_its_first_occurrence(seed: int) -> None:
    scene = Scene(seed, settings=SHORT_LAG_TIME)
    scene.write("both")
    _, failing = scene.pair()
    scene.cluster.want_topic("another", 1, 1)  # causes a new write
    scene.pass_ms(500)
    failing.disk_fails(2, DiskFailed("Input/output error"))
    failing.enter(failing.broker._store_metadata_position)
    scene.cluster.run_until(lambda: failing.broker.identity.losses == 1, 1, "the error")
    failing.kill()
    failing.start()
    assert not failing.broker.identity.tail_intact
    assert scene.end() == ["both"]


def test_an_io_error_that_ends_the_process_is_recorded(seed: int) -> None:
    scene = Scene(seed, settings=SHORT_LAG_TIME)
    scene.write("both")
    _, failing = scene.pair()

    def raise_disk_failed() -> None:
        raise DiskFailed("truncating: Input/output error")

    failing.enter(raise_disk_failed)
    assert not failing.alive
    failing.start()
    assert not failing.broker.identity.tail_intact
    assert scene.end() == ["both"]


def test_an_io_error_is_recorded_on_a_full_disk_too(seed: int) -> None:
    scene = Scene(seed, settings=SHORT_LAG_TIME)
    scene.write("both")
    _, failing = scene.pair()
    failing.disk_room(0)
    failing.disk_fails(1, DiskFailed("Input/output error"))
    scene.cluster.run_until(lambda: failing.broker.identity.losses > 0, 10, "the error")
    scene.pass_ms(100)
    failing.kill()
    failing.disk_whole()
    failing.start()
    assert not failing.broker.identity.tail_intact
    assert scene.end() == ["both"]


def test_a_full_disk_ends_no_broker(seed: int) -> None:
    scene = Scene(seed, settings=SHORT_LAG_TIME)
    scene.write("both")
    leader, follower = scene.pair()
    life = follower.life
    follower.disk_room(0)
    assert scene.send(leader.broker_id, "one alone", timeout_ms=4_000) == 0
    leader.disk_room(0)
    assert scene.send(leader.broker_id, "no room") == ErrorCode.KAFKA_STORAGE_ERROR
    scene.pass_ms(8_000)
    assert (leader.alive, follower.alive, follower.life) == (True, True, life)
    for node in (leader, follower):
        node.disk_whole()
    follower.kill()
    follower.start()
    scene.write("room again")
    assert scene.end() == ["both", "one alone", "room again"]


def test_a_lost_tail_is_recovered_from_a_replica_that_was_only_down(seed: int) -> None:
    scene = Scene(seed, min_insync=2, settings=SHORT_LAG_TIME)
    written = [f"w{i}" for i in range(6)]
    scene.write(*written)
    first, second = scene.pair()
    second.kill()
    scene.cluster.run_until(lambda: scene.state.elr == (second.broker_id,), 20, "the second in the ELR")
    first.kill()
    second.start()
    scene.until_leads(second.broker_id)
    second.power_cut()
    second.start()
    scene.pass_ms(3_000)
    first.start()
    assert scene.end() == written
