"""One request of a command: options before the noun, and the exit code of each error. Does not contain: what is printed of a response."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import click

from weir.cli.client import NoServer, RequestRejected, Response, RestClient

REJECTED, NO_RESPONSE, NOT_SUCCEEDED = 1, 3, 4


@dataclass(frozen=True, slots=True)
class CliOptions:
    """Options before the noun."""

    client: Callable[[], RestClient]
    json: bool


def send(settings: CliOptions, method: str, path: str, query: Mapping[str, Any] | None, body: Any) -> Response:
    """Return the response. If the request fails, end the program with the exit code of the error."""
    try:
        return settings.client().send(method, path, query, body)
    except NoServer as e:
        click.echo(f"error: {e}", err=True)
        sys.exit(NO_RESPONSE)
    except RequestRejected as e:
        errors = e.problem.get("errors") or [{"detail": str(e)}]
        for error in errors:
            click.echo(f"error: {error['detail']}", err=True)
        if e.status == 401:
            click.echo("Set WEIR_TOKEN or --token to an API token (console: API tokens).", err=True)
        sys.exit(NO_RESPONSE if e.status >= 500 else REJECTED)
