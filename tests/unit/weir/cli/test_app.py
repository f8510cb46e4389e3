"""Commands of the command line: the request of each, options, exit codes, deletions, waiting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from weir.cli import app, command_names
from weir.cli.client import NoServer, RequestRejected, Response
from weir_common.rest_operations import RestOperation, RestParameterType, command_of, operations

Request = tuple[str, str, dict[str, Any] | None, Any]
COMMANDS = app.build()


class FakeClient:
    """Answers each request with the next response, and keeps the requests."""

    def __init__(self, *responses: Any) -> None:
        self.requests: list[Request] = []
        self.responses = list(responses)

    def send(self, method: str, path: str, query: dict[str, Any] | None = None, body: Any | None = None) -> Response:
        self.requests.append((method, path, query, body))
        response = self.responses.pop(0) if self.responses else {}
        if isinstance(response, Exception):
            raise response
        return Response(200, response)


Run = Callable[..., Result]


def run_with(client: FakeClient, *words: str) -> Result:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app, "default_client", lambda *_: client)
        return CliRunner().invoke(COMMANDS, list(words), prog_name="weir")


def test_each_first_word_has_a_command() -> None:
    assert set(COMMANDS.commands) == command_names.COMMANDS


TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=8)
VALUES: dict[RestParameterType, st.SearchStrategy[Any]] = {
    RestParameterType.STRING: TEXTS,
    RestParameterType.INTEGER: st.integers(-(2**40), 2**40),
    RestParameterType.NUMBER: st.floats(-1e6, 1e6, allow_nan=False),
    RestParameterType.BOOLEAN: st.booleans(),
    RestParameterType.STRINGS: st.lists(TEXTS, max_size=3),
    RestParameterType.INTEGERS: st.lists(st.integers(-5, 5), max_size=3),
    RestParameterType.MAP: st.dictionaries(TEXTS, st.none() | TEXTS, max_size=3),
    RestParameterType.JSON: st.recursive(st.none() | st.booleans() | TEXTS, st.lists, max_leaves=3),
}


@st.composite
def requests_of(draw: st.DrawFn) -> tuple[RestOperation, str, dict[str, Any] | None]:
    operation = draw(st.sampled_from([o for o in operations() if o.method != "GET"]))
    path = operation.url_path({name: draw(TEXTS.filter(len)) for name in operation.arguments})
    if not operation.has_body or (operation.method == "DELETE" and draw(st.booleans())):
        return operation, path, None
    body = {}
    for field in operation.fields:
        if draw(st.booleans()):
            value = st.sampled_from(field.choices) if field.choices else VALUES[field.type]
            body[field.name] = draw(st.none() | value)
    return operation, path, body


@given(requests_of())
def test_the_command_of_a_request_makes_this_request(case: tuple[RestOperation, str, dict[str, Any] | None]) -> None:
    operation, path, body = case
    words = command_of(operation.method, path, body)
    assert words[0] == "weir"
    extra = ["--yes"] if operation.method == "DELETE" else []
    client = FakeClient()
    result = run_with(client, *words[1:3], *extra, *words[3:])
    assert result.exit_code == 0, result.output
    assert client.requests == [(operation.method, path, {}, body or ({} if operation.has_body else None))]


@pytest.mark.parametrize(
    "operation", [o for o in operations() if o.method == "GET"], ids=lambda o: f"{o.noun} {o.verb}"
)
def test_each_read_has_a_command_with_its_query(operation: RestOperation) -> None:
    path = operation.url_path(dict.fromkeys(operation.arguments, "7"))
    query = {}
    for p in operation.query:
        query[p.name] = "true" if p.type is RestParameterType.BOOLEAN else (p.choices[0] if p.choices else "2026-11-25")
    text = "&".join(f"{name}={value}" for name, value in query.items())
    client = FakeClient()
    result = run_with(client, *command_of("GET", f"{path}?{text}")[1:])
    assert result.exit_code == 0, result.output
    assert client.requests == [("GET", path, query, None)]


def test_a_noun_alone_lists_its_objects_or_shows_the_only_one() -> None:
    client = FakeClient([], {})
    run_with(client, "topics")
    run_with(client, "overview")
    assert [r[1] for r in client.requests] == ["/topics", "/overview"]


def test_an_alias_is_its_command() -> None:
    client = FakeClient()
    run_with(client, "lag", "flights-reader")
    assert client.requests[0][:2] == ("GET", "/groups/flights-reader")


def test_an_age_becomes_a_time() -> None:
    client = FakeClient([])
    run_with(client, "audit", "--since", "90m")
    query = client.requests[0][2]
    assert query is not None and query["since"].startswith("20") and query["since"].endswith("+00:00")


def test_a_deletion_without_a_terminal_needs_the_option_yes() -> None:
    client = FakeClient()
    result = run_with(client, "topics", "delete", "flights")
    assert result.exit_code == 2 and "--yes" in result.output
    assert client.requests == []


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (RequestRejected(400, {"detail": "x", "errors": [{"detail": "name: required"}]}), 1, "error: name: required"),
        (RequestRejected(409, {"detail": "the group is active"}), 1, "error: the group is active"),
        (RequestRejected(401, {"detail": "no"}), 1, "WEIR_TOKEN"),
        (RequestRejected(503, {"detail": "no database"}), 3, "no database"),
        (NoServer("no response"), 3, "no response"),
    ],
)
def test_exit_codes(error: Exception, code: int, text: str) -> None:
    result = run_with(FakeClient(error), "topics", "create", "--name", "t")
    assert result.exit_code == code
    assert text in result.output


@pytest.mark.parametrize(("state", "code"), [("done", 0), ("cancelled", 4), ("failed", 4)])
def test_wait_ends_with_the_object(monkeypatch: pytest.MonkeyPatch, state: str, code: int) -> None:
    monkeypatch.setattr(app, "WAIT_PAUSE_S", 0)
    running = {"id": 7, "state": "running", "finished_at": None}
    client = FakeClient(running, running, {**running, "state": state, "finished_at": "2026-11-25T00:00:00Z"})
    result = run_with(client, "moves", "start", "7", "--wait")
    assert result.exit_code == code
    assert [r[:2] for r in client.requests] == [("POST", "/moves/7/start")] + 2 * [("GET", "/moves/7")]


def test_an_error_of_usage_names_the_remedy() -> None:
    result = run_with(FakeClient(), "topics", "create", "--nme", "t")
    assert result.exit_code == 2 and "--name" in result.output
    result = run_with(FakeClient(), "topics", "create", "--configs", "retention.ms")
    assert result.exit_code == 2 and "KEY=VALUE" in result.output
    result = run_with(FakeClient(), "moves", "create", "--scope", "{")
    assert result.exit_code == 2 and "not JSON" in result.output


def test_any_request_by_path() -> None:
    client = FakeClient({"a": 1}, {})
    assert "a  1" in run_with(client, "api", "GET", "/topics?query=x").output
    run_with(client, "api", "post", "/api/v1/topics", "--body", '{"name": "t"}')
    assert client.requests == [("GET", "/topics?query=x", None, None), ("POST", "/topics", None, {"name": "t"})]


def test_output_as_json() -> None:
    result = run_with(FakeClient({"rows": [{"name": "flights"}]}), "-o", "json", "topics")
    assert '"name": "flights"' in result.output
