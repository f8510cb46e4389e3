"""The exit code of each error of a request."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.weir.cli.test_app import FakeClient
from weir.cli.client import NoServer, RequestRejected
from weir.cli.sending import NO_RESPONSE, REJECTED, CliOptions, send


@pytest.mark.parametrize(
    ("error", "code", "shown"),
    [
        (NoServer("away"), NO_RESPONSE, "away"),
        (RequestRejected(503, {"detail": "locked"}), NO_RESPONSE, "locked"),
        (RequestRejected(409, {"detail": "changed"}), REJECTED, "changed"),
        (RequestRejected(400, {"errors": [{"detail": "one"}, {"detail": "two"}]}), REJECTED, "error: one\nerror: two"),
        (RequestRejected(401, {"detail": "no"}), REJECTED, "WEIR_TOKEN"),
    ],
)
def test_an_error_ends_the_program(error: Exception, code: int, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    client: Any = FakeClient(error)
    with pytest.raises(SystemExit) as ended:
        send(CliOptions(lambda: client, False), "GET", "/topics", None, None)
    assert ended.value.code == code and shown in capsys.readouterr().err
