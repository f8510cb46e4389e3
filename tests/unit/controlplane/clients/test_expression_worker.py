"""The worker by itself: compilation, one evaluation, frames."""

from __future__ import annotations

import io

from controlplane.clients.expression_worker import compiled, evaluated, read_frame, write_frame


def test_frames_are_read_back() -> None:
    buffer = io.BytesIO()
    write_frame(buffer, [1, "two", None])
    buffer.seek(0)
    assert read_frame(buffer) == [1, "two", None] and read_frame(buffer) is None


def test_an_expression_is_compiled_and_evaluated() -> None:
    expression, error = compiled("value.a == 1")
    assert error == ""
    assert evaluated(expression, ["k", {"a": 1}, {}, 0, 1, -1]) == (1, "")
    assert evaluated(expression, ["k", {"a": 2}, {}, 0, 1, 10**15]) == (0, "")
    assert evaluated(expression, ["k", {}, {}, 0, 1, 0])[0] == 2
    assert evaluated(compiled("value")[0], ["k", "text", {}, 0, 1, 0]) == (3, "")
    assert compiled("partition")[0] is None and compiled("partition ==")[0] is None
