"""Work in steps: callables run between the steps, and their results and exceptions reach the generator."""

from __future__ import annotations

import pytest

from brokerd.wire.steps import Ended, Steps, next_step, run_now


def work_steps(job: object) -> Steps[str]:
    yield None
    try:
        value = yield lambda: job() if callable(job) else job
    except ValueError as e:
        return f"failed: {e}"
    return f"done: {value}"


def test_the_result_of_a_callable_is_sent_into_the_generator() -> None:
    assert run_now(work_steps(7)) == "done: 7"


def test_a_value_error_of_a_callable_is_thrown_into_the_generator_and_others_are_raised() -> None:
    def raise_value_error() -> None:
        raise ValueError("cut off")

    assert run_now(work_steps(raise_value_error)) == "failed: cut off"
    with pytest.raises(ZeroDivisionError):
        run_now(work_steps(lambda: 1 // 0))


def test_a_caller_runs_the_callable_itself() -> None:
    steps = work_steps(7)
    assert next_step(steps) is None
    job = next_step(steps)
    assert callable(job) and job() == 7
    assert next_step(steps, 8) == Ended("done: 8")
    failing = work_steps(7)
    next_step(failing), next_step(failing)
    assert next_step(failing, error=ValueError("lost")) == Ended("failed: lost")
