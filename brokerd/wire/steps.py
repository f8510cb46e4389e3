"""Work in steps: it can be interrupted between two steps and continued later, on the event loop or on another thread.

A generator of steps yields None where it may be interrupted. It yields a callable that must run on another thread. The callable does not use
objects of the event loop. Its result is sent into the generator, and its exception is thrown into it. Does not contain threads or clocks.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")
Job = Callable[[], object]
Steps = Generator[Job | None, Any, T]
RECORDS_PER_STEP = 256
"""Number of records that are inspected between two interruption points: about 0.1 ms."""


def run_now(steps: Steps[T]) -> T:
    """Run all steps synchronously. Returns the result."""
    job = next_step(steps)
    while not isinstance(job, Ended):
        if job is None:
            job = next_step(steps)
            continue
        try:
            value = job()
        except ValueError as e:
            job = next_step(steps, error=e)
        else:
            job = next_step(steps, value)
    result: T = job.value
    return result


class Ended(NamedTuple):
    """All steps are done."""

    value: Any


def next_step(steps: Steps[object], value: object = None, error: BaseException | None = None) -> Job | Ended | None:
    """Continue, and return the next callable to run, or None at an interruption point. `value` or `error` is the result of the previous callable."""
    try:
        return steps.send(value) if error is None else steps.throw(error)
    except StopIteration as e:
        return Ended(e.value)
