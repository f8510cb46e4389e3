"""Rows shared by the pages of one second: who gets them, and until when."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from controlplane.domain.access import AclPattern
from controlplane.domain.roles import AccessRole, Grant, RoleResource
from controlplane.domain.visibility import Visibility
from controlplane.models import Move
from controlplane.selectors import move_totals, partitions, shared_rows
from controlplane.selectors.overview import overview, shared_overview
from controlplane.selectors.shared_rows import once_a_page, read_by_version, read_shared, use_shared_rows
from controlplane.selectors.visibility import seen_by
from controlplane.services import moves as move_services
from controlplane.services.move_planning import parse_scope
from tests.unit.controlplane.world import World

MINE = Visibility((Grant(AccessRole.VIEWER, RoleResource.TOPIC, AclPattern.LITERAL, "orders"),))


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(shared_rows, "time", clock)
    return clock


@pytest.fixture(autouse=True)
def enable_sharing(clock: Clock) -> Iterator[None]:
    shared_rows.set_sharing(True)
    yield
    shared_rows.set_sharing(False)


class Reader:
    """Counts its reads."""

    def __init__(self) -> None:
        self.reads = 0

    def __call__(self) -> int:
        self.reads += 1
        return self.reads


def version_at(seq: int) -> tuple[str, int]:
    return "run", seq


def test_pages_of_one_second_share_rows_and_their_position(clock: Clock) -> None:
    read = Reader()
    for seq, passed, value, position in ((5, 0.0, 1, 5), (6, 0.9, 1, 5), (7, 0.2, 2, 7)):
        clock.now += passed
        with use_shared_rows(lambda seq=seq: version_at(seq)) as found:  # type: ignore[misc]
            assert (found, read_shared("rows", read)) == (version_at(position), value)


def test_a_panel_is_never_older_than_the_updates_that_its_page_has() -> None:
    read = Reader()
    with use_shared_rows(lambda: version_at(5)):
        assert read_shared("rows", read) == 1
    with use_shared_rows(lambda: version_at(5), page_position=version_at(5)):
        assert read_shared("rows", read) == 1
    with use_shared_rows(lambda: version_at(6), page_position=version_at(6)):
        assert read_shared("rows", read) == 2
    # The process of the sockets has an update that this process has not received yet.
    with use_shared_rows(lambda: version_at(6), page_position=version_at(7)):
        assert read_shared("rows", read) == 3
    with use_shared_rows(lambda: version_at(6), page_position=("another run", 1)):
        assert read_shared("rows", read) == 4


def test_a_viewer_never_gets_the_rows_of_another_visibility() -> None:
    read = Reader()
    for seen, value in ((None, 1), (MINE, 2), (None, 1), (MINE, 2), (Visibility(()), 3)):
        with seen_by(seen or Visibility()), use_shared_rows(lambda: version_at(1)):
            assert read_shared("rows", read) == value


def test_names_and_arguments_identify_rows() -> None:
    read = Reader()
    with use_shared_rows(lambda: version_at(1)):
        found = [read_shared(*key) for key in (("a", read, 1), ("a", read, 2), ("b", read, 1), ("a", read, 1))]
    assert found == [1, 2, 3, 1]


def test_a_failed_read_is_not_shared() -> None:
    def fail() -> int:
        raise ValueError("the database does not respond")

    with use_shared_rows(lambda: version_at(1)):
        with pytest.raises(ValueError, match="does not respond"):
            read_shared("rows", fail)
        assert read_shared("rows", Reader()) == 1


def test_two_pages_that_need_the_same_rows_read_them_once() -> None:
    reading, finish, read, found = threading.Event(), threading.Event(), Reader(), []

    def read_slowly() -> int:
        reading.set()
        assert finish.wait(60)
        return read()

    def page() -> None:
        with use_shared_rows(lambda: version_at(1)):
            found.append(read_shared("rows", read_slowly))

    threads = [threading.Thread(target=page) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert reading.wait(60)
    finish.set()
    for thread in threads:
        thread.join(60)
    assert found == [1, 1] and read.reads == 1


def test_nothing_is_shared_outside_of_pages_and_where_sharing_is_off() -> None:
    read, versioned = Reader(), Reader()
    for _ in range(2):
        read_shared("rows", read)
        read_by_version("rows", 1, lambda: 1, versioned)
    shared_rows.set_sharing(False)
    for seq in (5, 6):
        with use_shared_rows(lambda seq=seq: version_at(seq)) as position:  # type: ignore[misc]
            read_shared("rows", read)
            read_by_version("rows", 1, lambda: 1, versioned)
        assert position == version_at(seq)
    assert (read.reads, versioned.reads) == (4, 4)


def test_rows_of_a_page_are_read_once_for_this_page_only() -> None:
    read = Reader()
    for value in (1, 2):
        with use_shared_rows(lambda: version_at(1)):
            assert once_a_page("rows", read) == once_a_page("rows", read) == value
    assert [once_a_page("rows", read) for _ in range(2)] == [3, 4]


def test_rows_of_a_version_are_kept_until_the_version_changes(clock: Clock) -> None:
    read = Reader()
    for key, version, passed, value in ((1, 7, 0, 1), (1, 7, 600, 1), (2, 7, 0, 2), (1, 8, 0, 3), (1, 7, 0, 4)):
        clock.now += passed
        with use_shared_rows(lambda: version_at(1)):
            assert read_by_version("rows", key, lambda version=version: version, read) == value  # type: ignore[misc]


def test_the_number_of_kept_versions_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_rows, "VERSIONS_MAX", 3)
    read = Reader()
    with use_shared_rows(lambda: version_at(1)):
        for key in range(5):
            read_by_version("rows", key, lambda: 1, read)
        assert read_by_version("rows", 4, lambda: 1, read) == 5 and read.reads == 5
        read_by_version("rows", 0, lambda: 1, read)
    assert read.reads == 6


def count_ended(move_id: int) -> int:
    """The partitions of the move that have ended, by its shared totals."""
    return move_totals.sums_of([Move.objects.get(pk=move_id)])[move_id].ended


@pytest.mark.django_db
def test_the_totals_of_a_move_are_read_again_after_a_change_of_the_move(world: World) -> None:
    world.topic("orders", (1, 2), (1, 2))
    plan = [{"topic": "orders", "partition": i, "replicas": [1, 3]} for i in range(2)]
    move = move_services.plan_move(parse_scope({"kind": "partitions", "partitions": plan}), actor="alice", comment="c")
    with use_shared_rows(lambda: version_at(1)):
        before = move_totals.kinds_of(move.pk)
        assert move_totals.kinds_of(move.pk) is before and [k.state for k in before] == ["waiting"]
        assert count_ended(move.pk) == 0
    move_services.cancel_move(move.pk, actor="alice", comment="c")
    with use_shared_rows(lambda: version_at(1)):
        assert [k.state for k in move_totals.kinds_of(move.pk)] == ["skipped"]
        assert count_ended(move.pk) == 2


@pytest.mark.django_db
def test_the_pages_of_one_second_read_the_overview_and_the_problems_once(
    world: World, django_assert_num_queries: Any
) -> None:
    world.topic("orders", (1, 2))
    world.project()
    with use_shared_rows(lambda: version_at(1)):
        mine, problems = shared_overview(), partitions.in_trouble(8)
        assert mine.topics == overview().topics == 1
    with use_shared_rows(lambda: version_at(1)), django_assert_num_queries(0):
        assert shared_overview().topics == 1 and partitions.in_trouble(8) is problems
    with seen_by(Visibility(())), use_shared_rows(lambda: version_at(1)):
        assert shared_overview().topics == 0
