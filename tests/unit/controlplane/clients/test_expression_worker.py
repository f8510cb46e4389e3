"""The worker by itself: compilation, one evaluation, frames."""

from __future__ import annotations

import io

from controlplane.clients.expression_worker import compile_expression, evaluate, read_frame, write_frame


def test_frames_are_read_back() -> None:
    buffer = io.BytesIO()
    write_frame(buffer, [1, "two", None])
    buffer.seek(0)
    assert read_frame(buffer) == [1, "two", None] and read_frame(buffer) is None


def test_an_expression_is_compiled_and_evaluated() -> None:
    expression, error = compile_expression("value.a == 1")
    assert error == ""
    assert evaluate(expression, ["k", {"a": 1}, {}, 0, 1, -1]) == (1, "")
    assert evaluate(expression, ["k", {"a": 2}, {}, 0, 1, 10**15]) == (0, "")
    assert evaluate(expression, ["k", {}, {}, 0, 1, 0])[0] == 2
    assert evaluate(compile_expression("value")[0], ["k", "text", {}, 0, 1, 0]) == (3, "")
    assert compile_expression("partition")[0] is None and compile_expression("partition ==")[0] is None
