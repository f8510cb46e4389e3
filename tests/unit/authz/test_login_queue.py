"""The queue of password checks: fair between addresses, bounded, and without checks for closed connections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from brokerd.authz.login_queue import LoginCheck, PasswordChecks


class ManualJobs:
    """A job runner whose jobs complete when the test calls it."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Callable[[], object], Callable[[BaseException | None], None]]] = []

    def submit(self, run: Any, done: Any, *, urgent: bool = False) -> None:
        self.jobs.append((run, done))

    def end_one(self) -> None:
        run, done = self.jobs.pop(0)
        run()
        done(None)


class Scene:
    def __init__(self, threads: int = 1, waiting_max: int = 100) -> None:
        self.held = ManualJobs()
        self.checks = PasswordChecks(self.held, threads, waiting_max)
        self.ran: list[str] = []
        self.done: list[str] = []
        self.dropped: list[str] = []
        self.gone: set[str] = set()

    def add(self, *names: str) -> None:
        """`a1`: the first check of address a."""
        for name in names:
            self.checks.add(
                LoginCheck(
                    name[0],
                    lambda name=name: self.ran.append(name),
                    lambda error, name=name: self.done.append(name),
                    lambda name=name: name in self.gone,
                    lambda name=name: self.dropped.append(name),
                )  # type: ignore[misc]
            )

    def end_all(self) -> None:
        while self.held.jobs:
            self.held.end_one()


def test_at_most_one_login_per_thread_runs_and_the_others_wait() -> None:
    scene = Scene(threads=2)
    scene.add("a1", "a2", "a3", "a4", "a5")
    assert (len(scene.held.jobs), scene.checks.waiting) == (2, 3)
    scene.end_all()
    assert scene.done == scene.ran == ["a1", "a2", "a3", "a4", "a5"]
    assert (scene.checks.running, scene.checks.waiting) == (0, 0)


def test_addresses_take_turns() -> None:
    scene = Scene()
    scene.add("a1", "a2", "a3", "a4", "b1", "c1", "b2")
    scene.end_all()
    assert scene.ran == ["a1", "a2", "b1", "c1", "a3", "b2", "a4"]


def test_a_full_queue_drops_the_newest_login_of_the_address_with_most_logins() -> None:
    scene = Scene(waiting_max=4)
    scene.add("a0", "a1", "a2", "a3", "b1", "b2")
    assert scene.dropped == ["a3"]
    scene.add("a4")
    assert scene.dropped == ["a3", "a4"]
    scene.add("c1")
    assert scene.dropped[2:] == ["a2"] and scene.checks.waiting == 4
    scene.end_all()
    assert sorted(scene.ran) == ["a0", "a1", "b1", "b2", "c1"]


def test_a_login_of_a_closed_connection_is_not_checked() -> None:
    scene = Scene()
    scene.add("a1", "a2", "b1")
    scene.gone = {"a2", "b1"}
    scene.end_all()
    assert scene.ran == ["a1"] and scene.checks.waiting == 0


def test_a_completed_login_can_queue_another() -> None:
    scene = Scene()
    scene.add("a1")
    first = scene.held.jobs[0]
    scene.held.jobs[0] = (first[0], lambda error: (first[1](error), scene.add("a2"))[0])
    scene.end_all()
    assert scene.done == ["a1", "a2"]
