"""Background work in steps for requests: order within an owner, fairness between owners, jobs, and clients that
disconnect. The clock advances with each step."""

from __future__ import annotations

from typing import Any

from brokerd.net.fair_scheduler import ALONE_SHARE_S_MAX, SHARE_S_MAX, FairScheduler
from brokerd.server.background_work import ACTIVE_MAX, BackgroundWork
from brokerd.wire.records import CorruptBatch
from brokerd.wire.steps import Steps
from tests.unit.apis.requests import FakeRequest, LaterJobs


class Scene:
    def __init__(self) -> None:
        self.clock_s = 0.0
        self.scheduler = FairScheduler(lambda: self.clock_s)
        self.jobs = LaterJobs()
        self.background_work = BackgroundWork(self.scheduler, self.jobs)
        self.done: list[Any] = []
        self.steps_taken: list[str] = []

    def run_steps(self, name: str, count: int, cost_s: float = 0.0005) -> Steps[str]:
        for _ in range(count):
            self.clock_s += cost_s
            self.steps_taken.append(name)
            yield None
        return name

    def start(self, owner: str, steps: Steps[Any]) -> FakeRequest:
        requester = FakeRequest(None, 0, lambda response: None, owner=owner)
        self.background_work.start(requester, steps, self.done.append)
        return requester

    def run_iteration(self, times: int = 1) -> None:
        for _ in range(times):
            self.scheduler.run()


def test_short_work_completes_in_the_call() -> None:
    scene = Scene()
    scene.start("a", scene.run_steps("a", 2))
    assert scene.done == ["a"]
    assert not scene.scheduler.pending


def test_long_work_takes_a_slice_of_each_turn_beside_other_principals() -> None:
    scene = Scene()
    scene.start("hostile", scene.run_steps("h", 1_000))
    before = scene.clock_s
    assert before <= SHARE_S_MAX + 0.0005
    scene.start("quiet", scene.run_steps("q", 1))
    assert scene.done == ["q"]
    scene.run_iteration()
    assert scene.clock_s - before <= ALONE_SHARE_S_MAX + 3 * 0.0005
    scene.run_iteration(1_000)
    assert scene.done == ["q", "h"]


def test_the_work_of_one_principal_runs_in_order() -> None:
    scene = Scene()
    for name in ("first", "second", "third"):
        scene.start("a", scene.run_steps(name, 10))
    scene.run_iteration(100)
    assert scene.done == ["first", "second", "third"]
    assert scene.steps_taken == ["first"] * 10 + ["second"] * 10 + ["third"] * 10


def test_a_job_runs_on_a_thread_and_returns_its_value_or_error() -> None:
    scene = Scene()

    def unpack(value: Any) -> Any:
        if isinstance(value, Exception):
            raise value
        return value

    def job_steps(value: Any) -> Steps[str]:
        try:
            got = yield lambda: unpack(value)
        except CorruptBatch as e:
            return f"rejected: {e}"
        yield None
        return f"got {got}"

    scene.start("a", job_steps(7))
    scene.start("b", job_steps(CorruptBatch("torn")))
    assert (scene.done, len(scene.jobs.jobs)) == ([], 2)
    scene.run_iteration(3)
    assert scene.done == [], "nothing is asked again while the job is under way"
    scene.jobs.end()
    scene.jobs.end()
    scene.run_iteration()
    assert scene.done == ["got 7", "rejected: torn"]


def test_the_work_of_a_disconnected_client_is_abandoned_and_the_next_continues() -> None:
    scene = Scene()
    requester = scene.start("a", scene.run_steps("gone", 100))
    scene.start("a", scene.run_steps("next", 1))
    requester.abandoned = True
    scene.run_iteration(5)
    assert scene.done == ["next"]
    assert scene.steps_taken.count("gone") < 100
    assert not scene.scheduler.pending


def test_an_error_in_the_work_affects_only_its_request() -> None:
    scene = Scene()

    def failing_steps() -> Steps[None]:
        yield None
        raise KeyError("ours")

    requester = FakeRequest(None, 0, lambda response: None, owner="a")

    def attempt(work: Any) -> Any:
        try:
            return work()
        except KeyError:
            requester.closed = requester.abandoned = True
            return None

    requester.attempt = attempt  # type: ignore[method-assign]
    scene.background_work.start(requester, failing_steps(), scene.done.append)
    scene.start("a", scene.run_steps("next", 1))
    scene.run_iteration(3)
    assert (requester.closed, scene.done) == (True, ["next"])


def test_the_number_of_principals_with_running_work_is_limited_and_all_complete() -> None:
    scene = Scene()
    begun = []

    def job_steps(name: int) -> Steps[int]:
        begun.append(name)
        yield lambda: None
        return name

    for i in range(3 * ACTIVE_MAX):
        scene.start(str(i), job_steps(i))
    assert len(begun) == ACTIVE_MAX
    for _ in range(3 * ACTIVE_MAX):
        scene.jobs.end()
        scene.run_iteration()
    assert scene.done == list(range(3 * ACTIVE_MAX))
    assert scene.background_work.waiting == 0
