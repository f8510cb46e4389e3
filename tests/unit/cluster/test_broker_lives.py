"""Detection of older copies of data directories: lives, the running marker, several directories, and the controller's decisions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from brokerd.cluster import broker_lives
from brokerd.cluster.broker_lives import LIVES_MAX, DirectoryDoubt
from brokerd.cluster.levels import SUPPORTED_LEVELS
from brokerd.cluster.metadata import MetadataLevelRaised
from brokerd.cluster.model import NO_LEADER, REPLACED
from brokerd.membership.identity import BrokerIdentity
from brokerd.storage import running_marker
from brokerd.storage.log_dirs import LogDirs
from brokerd.storage.meta_properties import META, read_meta
from brokerd.storage.running_marker import CLEAN, RUNNING
from controlplane.controller.events import BrokersSeen, Report, ReportKind
from tests.simulation.disk import Crashed, SimDisk
from tests.unit.controlplane.controller.test_core import Harness as Controlled
from tests.unit.membership.test_identity import A, B, Harness


def running(machine: Harness, *paths: Path) -> BrokerIdentity:
    """A running broker whose life is recorded in the metadata log."""
    return machine.start(*paths, clean=False)


def next_start(machine: Harness, *paths: Path) -> BrokerIdentity:
    outside: Any = machine
    return BrokerIdentity(LogDirs(paths, machine.disk), 1, outside)


def put_back(machine: Harness, older: SimDisk, folder: Path) -> None:
    """Only this directory is an older copy."""
    machine.disk.rmtree(folder)
    machine.disk.mkdir(folder)
    for name, inode in older.names.items():
        if folder in name.parents:
            machine.disk.replace(name, bytes(inode.live))


# -- one directory -------------------------------------------------------------------------------------------------------
def test_a_killed_process_loses_nothing_and_a_copied_directory_is_detected() -> None:
    machine = Harness()
    running(machine, A)
    assert next_start(machine, A).doubt is None
    running(machine, A)
    machine.disk = machine.disk.copied()
    assert next_start(machine, A).doubt is DirectoryDoubt.COPIED


def test_after_a_reboot_a_copy_is_detected_and_a_lost_marker_counts_as_an_unclean_shutdown() -> None:
    machine = Harness()
    running(machine, A)
    machine.boot_id = "boot-2"
    original = machine.disk
    machine.disk = original.copied()
    assert next_start(machine, A).doubt is DirectoryDoubt.COPIED
    machine.disk = original
    machine.disk.replace(A / RUNNING, b"")
    assert next_start(machine, A).doubt is DirectoryDoubt.UNCLEAN


def test_a_reattached_volume_is_not_a_copy_and_not_trusted_after_a_kill() -> None:
    machine = Harness()
    running(machine, A)
    machine.disk.device += 1
    identity = next_start(machine, A)
    assert identity.doubt is DirectoryDoubt.REATTACHED and not identity.doubt.elsewhere


def test_a_clean_shutdown_marker_of_another_life_counts_as_an_unclean_shutdown() -> None:
    machine = Harness()
    machine.start(A)
    marker = machine.disk.read(A / CLEAN)
    running(machine, A)
    assert marker is not None
    machine.disk.replace(A / CLEAN, marker)
    machine.boot_id = "boot-2"
    assert next_start(machine, A).doubt is DirectoryDoubt.UNCLEAN


def test_a_directory_without_recorded_lives_is_accepted_and_its_next_life_is_recorded() -> None:
    machine = Harness()
    running(machine, A)
    lines = (machine.disk.read(A / META) or b"").decode().splitlines(keepends=True)
    machine.disk.replace(A / META, "".join(x for x in lines if not x.startswith("life.")).encode())
    machine.disk.unlink(A / RUNNING)
    first = next_start(machine, A)
    assert first.doubt is None and first.lives_before == ()
    assert first.compare("") is None and first.tail_intact
    assert next_start(machine, A).lives_before == (first.life,)


def test_a_crash_at_any_point_of_a_start_causes_no_false_alarm() -> None:
    for step in range(1, 30):
        machine = Harness()
        machine.disk.marks_free = False
        recorded = running(machine, A, B).life
        machine.disk.crash_at = machine.disk.steps + step
        ended = False
        try:
            next_start(machine, A, B)
        except Crashed:
            ended = True
        machine.disk.crash_at = None
        identity = next_start(machine, A, B)
        assert identity.doubt is None, f"ended at step {step}: {machine.disk.story[-20:]}"
        assert broker_lives.continues_recorded_life(recorded, identity.life, identity.lives_before)
        if not ended:
            return
    raise AssertionError("a start takes more steps than were tried")


def test_a_crash_at_any_point_of_a_start_on_a_copy_does_not_hide_the_copy() -> None:
    for step in range(1, 30):
        machine = Harness()
        running(machine, A)
        machine.disk = machine.disk.copied()
        machine.disk.marks_free = False
        machine.disk.crash_at = machine.disk.steps + step
        ended = False
        try:
            next_start(machine, A)
        except Crashed:
            ended = True
        machine.disk.crash_at = None
        assert not next_start(machine, A).tail_intact, f"ended at step {step}"
        if not ended:
            return
    raise AssertionError("a start takes more steps than were tried")


def test_a_new_marker_does_not_hide_an_unrecorded_loss() -> None:
    machine = Harness()
    running(machine, A)
    machine.disk = machine.disk.copied()
    machine.disk.bytes_max = 0
    identity = next_start(machine, A)
    assert identity.doubt is DirectoryDoubt.COPIED and not identity.may_mark


# -- several directories -------------------------------------------------------------------------------------------------
def test_one_older_directory_is_detected_without_the_metadata_log() -> None:
    for which in (A, B):
        machine = Harness()
        machine.start(A, B)
        older = machine.disk.copied()
        machine.start(A, B)
        put_back(machine, older, which)
        assert next_start(machine, A, B).doubt is DirectoryDoubt.MIXED


def test_a_directory_that_was_unavailable_returns_with_its_old_life() -> None:
    machine = Harness()
    machine.start(A, B)
    machine.disk.broken.add(B)
    first = machine.start(A, B)
    machine.disk.broken.clear()
    back = next_start(machine, A, B)
    assert back.doubt is None and back.lives_before[0] == first.life


def test_the_number_of_stored_lives_is_limited_and_the_recorded_one_is_kept() -> None:
    machine = Harness()
    recorded = running(machine, A).life
    for _ in range(2 * LIVES_MAX):
        identity = next_start(machine, A)
    assert len(identity.lives_before) == LIVES_MAX and identity.lives_before[-1] == recorded
    identity.loss_is_known()
    assert read_meta(machine.disk, A)["life.before"] == ""


# -- compared with the metadata log --------------------------------------------------------------------------------------
def test_a_recorded_life_that_the_directory_does_not_contain_is_noted_as_a_loss() -> None:
    machine = Harness()
    running(machine, A)
    identity = next_start(machine, A)
    assert identity.compare("another") is None and identity.doubt is DirectoryDoubt.OLDER
    assert read_meta(machine.disk, A)["tail.intact"] == "false"
    assert identity.compare("another") is None, "until this start is recorded"
    assert next_start(machine, A).doubt is DirectoryDoubt.NOTED


def test_a_broker_stops_if_another_process_registered_after_its_own_life_was_recorded() -> None:
    machine = Harness()
    identity = running(machine, A)
    assert identity.compare(identity.life) is None
    assert "another process has registered broker 1" in (identity.compare("another") or "")


# -- the controller ------------------------------------------------------------------------------------------------------
def register_again(
    controlled: Controlled, broker_id: int, broker_epoch: int, life: str, *before: str, **more: Any
) -> list[Report]:
    """Register the broker. Returns the controller's reports."""
    known = controlled.registration(broker_id, broker_epoch)
    registration = replace(known, life=life, lives_before=before, metadata_levels=SUPPORTED_LEVELS, **more)
    controlled.registered[broker_id] = registration
    event = BrokersSeen(dict(controlled.registered))
    reports = [e for e in controlled.core.handle(event, controlled.now) if isinstance(e, Report)]
    controlled.core.in_flight = False
    controlled.deliver(event)
    return reports


def isr(controlled: Controlled) -> tuple[int, ...]:
    return controlled.image.topics[UUID(int=1)].partitions[0].isr_ids


@pytest.fixture
def controlled_partition() -> Controlled:
    """One partition on three brokers, all of level 7 and in their first life."""
    controlled = of_this_program()
    controlled.image.apply(MetadataLevelRaised(7))
    controlled.deliver(BrokersSeen(dict(controlled.registered)))
    return controlled


def of_this_program() -> Controlled:
    controlled = Controlled(1, 3)
    for b in controlled.registered:
        register_again(controlled, b, 200 + b, f"first-{b}")
    assert set(isr(controlled)) == {1, 2, 3} and controlled.image.metadata_version < 7
    return controlled


def test_the_controller_keeps_a_broker_in_the_isr_if_it_continues_its_recorded_life(
    controlled_partition: Controlled,
) -> None:
    for broker_epoch, (life, *before) in enumerate(
        [("second", "first-1"), ("fourth", "third", "second"), ("fourth",)], 300
    ):
        assert register_again(controlled_partition, 1, broker_epoch, life, *before) == []
        assert 1 in isr(controlled_partition) and controlled_partition.image.brokers[1].life == life


def test_the_controller_detects_an_older_copy_even_if_the_broker_reports_an_intact_tail(
    controlled_partition: Controlled,
) -> None:
    register_again(controlled_partition, 1, 300, "second", "first-1")
    (report,) = register_again(controlled_partition, 1, 301, "third", "first-1")
    assert (report.kind, str(report.subject)) == (ReportKind.REJECTED, "broker 1")
    assert f"reason={DirectoryDoubt.OLDER}" in report.text and "restore that directory" in report.text
    assert 1 not in isr(controlled_partition)
    assert (controlled_partition.image.brokers[1].life, controlled_partition.image.brokers[1].tail_doubt) == (
        "third",
        DirectoryDoubt.OLDER,
    )


def test_an_older_copy_of_the_last_member_leads_only_by_an_unclean_election(controlled_partition: Controlled) -> None:
    for b in (2, 3):
        del controlled_partition.registered[b]
    controlled_partition.deliver(BrokersSeen(dict(controlled_partition.registered)))
    assert isr(controlled_partition) == (1,)
    del controlled_partition.registered[1]
    controlled_partition.deliver(BrokersSeen({}))
    register_again(controlled_partition, 1, 300, "second", tail_doubt=DirectoryDoubt.COPIED, tail_intact=False)
    state = controlled_partition.image.topics[UUID(int=1)].partitions[0]
    assert (state.leader, state.isr, state.elr, state.last_isr) == (NO_LEADER, (), (), (1, REPLACED))
    controlled_partition.image.validate()
    register_again(controlled_partition, 1, 301, "third", "second")
    assert controlled_partition.image.topics[UUID(int=1)].partitions[0].leader == NO_LEADER, (
        "a restart makes an older copy no newer"
    )


def test_lives_are_recorded_from_their_metadata_level_on_for_all_registered_brokers() -> None:
    controlled = of_this_program()
    assert controlled.image.brokers[1].life == ""
    assert register_again(controlled, 1, 301, "of another directory") == [] and 1 in isr(controlled)
    controlled.image.apply(MetadataLevelRaised(7))
    controlled.deliver(BrokersSeen(dict(controlled.registered)))
    assert controlled.image.brokers[1].life == "of another directory"


def test_every_doubt_is_explained_and_an_unknown_value_is_shown_unchanged() -> None:
    for doubt in DirectoryDoubt:
        what, action = broker_lives.explain_doubt(doubt)
        assert what.endswith(".") and (not doubt.elsewhere or "unclean leader election" in action)
    assert broker_lives.explain_doubt("of a newer program") == ("of a newer program", "")
    assert broker_lives.may_be_elsewhere("of a newer program") and not broker_lives.may_be_elsewhere("")


def test_a_malformed_marker_is_not_a_clean_shutdown() -> None:
    disk = SimDisk()
    disk.mkdir(A)
    disk.replace(A / CLEAN, b"\xff")
    assert (
        running_marker.find_doubt(disk, A, {"life.id": "x", "boot.id": "b"}, "c", clean=False) is DirectoryDoubt.UNCLEAN
    )
