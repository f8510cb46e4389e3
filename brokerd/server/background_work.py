"""Long tasks of requests. A task runs in steps: in the time slices of its owner (`net/fair_scheduler`), and in jobs on another thread.

Invariants: the tasks of one owner run one after the other, in order. At most ACTIVE_MAX tasks have decompressed data at the same time. `done` is
called once, on the event loop's thread, unless the client has disconnected or a step has failed. Does not contain: the tasks themselves.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from typing import Any, Protocol, TypeVar

from brokerd.net.fair_scheduler import SHARE_S_MAX, FairScheduler
from brokerd.storage.jobs import Runner
from brokerd.wire.steps import Ended, Job, Steps, next_step

T = TypeVar("T")
ACTIVE_MAX = 4
"""Maximum number of tasks in progress, over all owners. Each may have one decompressed batch of at most 256 MiB in memory."""
Done = Callable[[Any], None]


class WorkOwner(Protocol):
    """The part of a request that this module uses."""

    @property
    def owner(self) -> Hashable: ...

    @property
    def abandoned(self) -> bool: ...

    def attempt(self, work: Callable[[], T]) -> T | None:
        """Run `work`. Returns None if it failed; the connection of the request is closed then."""


Queued = tuple[WorkOwner, Steps[object], Done]


class BackgroundWork:
    def __init__(self, scheduler: FairScheduler, jobs: Runner) -> None:
        self.scheduler, self.jobs = scheduler, jobs
        self._lines: dict[Hashable, _Line] = {}
        self._begun = 0
        self._waiting: deque[_Line] = deque()

    def start(self, requester: WorkOwner, steps: Steps[Any], done: Done) -> None:
        """Queue the task. It starts immediately if no other task of this owner is in progress and fewer than ACTIVE_MAX owners have a running task. It
        runs until the end of the current time slice and continues in later time slices of its owner."""
        owner = requester.owner
        line = self._lines.get(owner)
        if line is not None:
            line.queue.append((requester, steps, done))
            return
        line = self._lines[owner] = _Line(self, owner)
        line.queue.append((requester, steps, done))
        if self._begun >= ACTIVE_MAX:
            self._waiting.append(line)
            return
        self._begun += 1
        until = self.scheduler.slice_end_s
        line.resume(next_step, self.scheduler.clock() + SHARE_S_MAX if until is None else until)

    @property
    def waiting(self) -> int:
        return sum(len(line.queue) for line in self._lines.values())

    def on_task_ended(self, line: _Line) -> None:
        """A task of this line has ended. The next waiting line starts a task. If this line has more tasks, it goes to the end of the queue."""
        if line.queue:
            self._waiting.append(line)
        else:
            del self._lines[line.owner]
        self._begun -= 1
        if self._waiting:
            self._begun += 1
            following = self._waiting.popleft()
            self.scheduler.add(following.owner, following)


class _Line:
    """The tasks of one owner, in order. Only the first task is started."""

    def __init__(self, background_work: BackgroundWork, owner: Hashable) -> None:
        self._background_work, self.owner = background_work, owner
        self.queue: deque[Queued] = deque()
        self._next: Callable[[Steps[Any]], Job | Ended | None] = next_step

    def serve(self, until: float) -> bool:
        step, self._next = self._next, next_step
        self.resume(step, until)
        return False  # `resume` adds the line again if more steps are left

    def resume(self, first: Callable[[Steps[object]], Job | Ended | None], until: float) -> None:
        """Run the steps of the first task, starting with `first`, until time `until`. The task continues in the next iteration or at the end of a job."""
        requester, steps, done = self.queue[0]
        clock, step = self._background_work.scheduler.clock, first

        def portion() -> Job | Ended | None:
            job = step(steps)
            while job is None and clock() < until:
                job = next_step(steps)
            return job if job is not None else _more_steps

        job = None if requester.abandoned else requester.attempt(portion)
        if job is _more_steps:
            self._background_work.scheduler.add(self.owner, self)
        elif job is None or isinstance(job, Ended):
            self.queue.popleft()
            self._background_work.on_task_ended(self)
            if isinstance(job, Ended):
                requester.attempt(lambda: done(job.value))
            else:
                steps.close()
        else:
            self._submit(job, steps)

    def _submit(self, job: Job, steps: Steps[object]) -> None:
        made: list[object] = []

        def on_finished(error: BaseException | None) -> None:
            value = made[0] if made else None
            # Continue in the owner's time slice. If several jobs complete in one iteration, immediate continuation would use more than one time slice.
            self._next = lambda _: next_step(steps, value, error)
            self._background_work.scheduler.add(self.owner, self)

        self._background_work.jobs.submit(lambda: made.append(job()), on_finished)


def _more_steps() -> None:
    """Marker result: more steps are left, and the time slice is used up."""
