"""Whose a directory is, and whether what it held can be vouched for: with one directory and with several."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest

from brokerd.identity import META, Identity, IdentityError, read_meta
from brokerd.logdirs import LogDirs
from brokerd.outside import Outside
from brokerd.storage import checkpoints
from tests.simulation.disk import SimDisk

A, B, C = Path("/a"), Path("/b"), Path("/c")


class House:
    """The parts of Outside that identity sees."""

    numbers = count()

    def __init__(self) -> None:
        self.disk = SimDisk()
        self.boot_id = "boot-1"
        self.locked: set[Path] = set()
        self.intact = False
        """What the last start found, before the metadata log knew of it."""

    def lock(self, folder: Path) -> bool:
        return folder not in self.locked

    def draw_id(self) -> str:
        return f"id-{next(self.numbers)}"

    def found_intact(self, *paths: Path, **how: bool) -> bool:
        self.start(*paths, **how)  # type: ignore[arg-type]
        return self.intact

    def start(self, *paths: Path, broker_id: int = 1, clean: bool = True, heard: bool = True) -> Identity:
        outside: Any = self
        identity = Identity(LogDirs(paths, self.disk), broker_id, outside)
        self.intact = identity.tail_intact
        if heard:
            identity.applied("cluster", 1, "hash")
            identity.loss_is_known()
        if clean:
            identity.stopped_cleanly(7)
        return identity


def test_every_directory_says_whose_it_is_and_names_the_others() -> None:
    house = House()
    identity = house.start(A, B)
    metas = [read_meta(house.disk, d) for d in (A, B)]
    assert {m["broker.uuid"] for m in metas} == {identity.broker_uuid}
    assert {m["cluster.id"] for m in metas} == {"cluster"}
    ids = {m["directory.id"] for m in metas}
    assert len(ids) == 2 and all(set(m["directory.ids"].split(",")) == ids for m in metas)
    again = house.start(A, B)
    assert house.intact and again.broker_uuid == identity.broker_uuid
    assert not any(d.deep for d in again.dirs.all)


def test_directories_that_do_not_belong_together_are_refused() -> None:
    house = House()
    house.start(A)
    house.start(B)
    with pytest.raises(IdentityError, match=r"do not belong together: broker\.uuid"):
        house.start(A, B)
    with pytest.raises(IdentityError, match="/a belongs to broker 1, not 2"):
        house.start(A, C, broker_id=2)
    house.locked.add(B)
    with pytest.raises(IdentityError, match="/b is served by another broker process"):
        house.start(C, B)


def test_a_directory_more_is_no_loss_and_one_less_is_one_once() -> None:
    house = House()
    house.start(A)
    assert house.found_intact(A, B)
    assert not house.found_intact(A)
    assert house.found_intact(A), "since the metadata log knows of it"


def test_an_emptied_directory_is_a_loss_until_the_metadata_log_knows() -> None:
    house = House()
    house.start(A, B)
    house.disk.rmtree(B)
    assert not house.found_intact(A, B, clean=False, heard=False)
    assert not house.found_intact(A, B, clean=False), "the first start was not heard of"
    assert house.found_intact(A, B)


def test_a_directory_that_cannot_be_opened_stays_a_loss_while_it_is_away() -> None:
    house = House()
    house.start(A, B)
    house.disk.broken.add(B)
    for _ in range(2):
        identity = house.start(A, B)
        assert not identity.fresh and [d.failed is None for d in identity.dirs.all] == [True, False]
    house.disk.broken.clear()
    assert house.found_intact(A, B), "it came back as it was left, and nobody counted on it meanwhile"
    house.disk.broken.update((A, B))
    with pytest.raises(IdentityError, match=r"/a: it cannot be opened.*; /b: "):
        house.start(A, B)


def test_a_directory_that_failed_in_this_life_is_not_trusted_in_the_next() -> None:
    house = House()
    identity = house.start(A, B, clean=False)
    house.disk.broken.add(B)
    identity.dirs.on_failure = lambda failed: identity.tail_in_doubt()
    identity.applied("cluster", 2, "hash-2")
    assert identity.dirs.all[1].failed
    identity.loss_is_known()  # what this life may have lost, the next one sees
    identity.stopped_cleanly(7)
    house.disk.broken.clear()
    assert not house.found_intact(A, B)
    assert house.found_intact(A, B)


def test_after_a_power_cut_only_what_was_flushed_is_trusted() -> None:
    house = House()
    house.start(A, B, clean=False)
    house.boot_id = "boot-2"
    identity = house.start(A, B, clean=False)
    assert not identity.fresh and all(d.deep for d in identity.dirs.all)


def test_a_copy_that_moved_to_another_directory_is_not_missing() -> None:
    disk = SimDisk()
    for d in (A, B):
        disk.mkdir(d)
    checkpoints.write_offsets(disk, A / checkpoints.HIGH_WATERMARKS, {("t", 0): 5, ("t", 1): 5, ("t", 2): 0})
    disk.mkdir(B / "t-0")
    assert checkpoints.lost_copies(disk, [A, B]) == ["t-1"]


def test_each_directory_has_a_lock_of_its_own(tmp_path: Path) -> None:
    one, other = Outside(), Outside()
    for name in "ab":
        (tmp_path / name).mkdir()
        assert one.lock(tmp_path / name)
    assert not other.lock(tmp_path / "a") and not other.lock(tmp_path / "b")


def test_a_settings_file_that_is_full_of_rubbish_says_nothing() -> None:
    disk = SimDisk()
    disk.mkdir(A)
    disk.replace(A / META, b"#x=1\nno equals\nbroker.id = 3\n\xff=\xfe\n")
    assert read_meta(disk, A)["broker.id"] == "3"


def test_a_folder_that_a_newer_program_wrote_is_refused_rather_than_read_half() -> None:
    house = House()
    house.start(A)
    meta = house.disk.read(A / META) or b""
    assert b"version=1\n" in meta
    house.disk.replace(A / META, meta.replace(b"version=1\n", b"version=2\n"))
    with pytest.raises(IdentityError, match="newer program"):
        house.start(A)
