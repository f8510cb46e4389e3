"""Commands of given requests. That a command makes exactly its request is tested with the command line (tests/unit/weir/cli/test_app.py)."""

from __future__ import annotations

import pytest

from weir_common.rest_operations import command_of, find, shell_text


@pytest.mark.parametrize(
    ("method", "path", "body", "command"),
    [
        ("GET", "/topics", None, "weir topics list"),
        ("GET", "topics/?query=fl&internal=true", None, "weir topics list --query fl --internal"),
        ("GET", "/topics?unknown=1", None, "weir api GET '/topics?unknown=1'"),
        (
            "POST",
            "/topics",
            {"name": "t", "partitions": 6, "configs": {"retention.ms": "1"}, "assignment": None},
            """weir topics create --name t --partitions 6 --configs retention.ms=1 --body '{"assignment": null}'""",
        ),
        ("POST", "/moves/7/pause", {"comment": "the night"}, "weir moves pause --comment 'the night' 7"),
        ("DELETE", "/topics/t", {"comment": "old"}, "weir topics delete --comment old t"),
        ("DELETE", "/groups/-a%2Fb", None, "weir groups delete -- -a/b"),
        ("POST", "/nothing", {"a": 1}, """weir api POST /nothing --body '{"a": 1}'"""),
        ("POST", "/moves/7/start", {}, "weir moves start --body '{}' 7"),
    ],
)
def test_the_command_of_a_request(method: str, path: str, body: dict[str, object] | None, command: str) -> None:
    assert shell_text(command_of(method, path, body)) == command


def test_a_literal_path_is_preferred_to_one_with_arguments() -> None:
    found = find("GET", "/spark-jobs/kinds")
    assert found is not None and (found[0].verb, found[1]) == ("kinds", ())
