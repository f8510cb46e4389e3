"""The commands of the command line, built from the table of REST operations: `weir NOUN VERB ARGUMENTS --options`.

Exit codes: 0 done; 1 rejected by the console; 2 wrong usage; 3 no response from the console; 4 `--wait` ended and the object did not succeed.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from weir.cli import documents, output
from weir.cli.client import Response, RestClient, default_client
from weir.cli.command_names import ALIASES, API, NOUNS
from weir.cli.sending import NOT_SUCCEEDED, CliOptions, send
from weir_common.rest_operations import (
    PREFIX,
    PROGRAM,
    RestOperation,
    RestParameter,
    RestParameterType,
    find,
    operations,
)

WAIT_PAUSE_S = 1.0
SUCCEEDED = {"done", "succeeded", "completed"}
"""States of a finished object that count as success."""
TIMES = {"since", "until", "at"}
"""Query parameters that are times."""
AGE_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
ALIAS_HELP = "The same as `{} {}`."


class MapEntry(click.ParamType[tuple[str, str]]):
    """KEY=VALUE."""

    name = "key=value"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        key, equals, text = str(value).partition("=")
        if not equals or not key:
            self.fail(f"{value!r} is not KEY=VALUE", param, ctx)
        return key, text


class JsonValue(click.ParamType[object]):
    """A JSON text."""

    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return json.loads(value)
        except ValueError as e:
            self.fail(f"{value!r} is not JSON: {e}", param, ctx)


BASE_TYPES: Mapping[RestParameterType, click.ParamType[object]] = {
    RestParameterType.STRING: click.STRING,
    RestParameterType.INTEGER: click.INT,
    RestParameterType.NUMBER: click.FLOAT,
    RestParameterType.STRINGS: click.STRING,
    RestParameterType.INTEGERS: click.INT,
    RestParameterType.MAP: MapEntry(),
    RestParameterType.JSON: JsonValue(),
}
REPEATED = {RestParameterType.STRINGS, RestParameterType.INTEGERS, RestParameterType.MAP}


def option_of(parameter: RestParameter, in_query: bool) -> click.Option:
    """The option of a parameter. The values of a query are sent as they are typed; only the console checks them."""
    name, flag = parameter.name, parameter.option
    doc = parameter.doc or None
    if parameter.type is RestParameterType.BOOLEAN:
        return click.Option([f"{flag}/--no-{flag[2:]}", name], default=None, help=doc)
    kind: click.ParamType[object] = click.STRING if in_query else BASE_TYPES[parameter.type]
    if parameter.choices:
        kind = click.Choice(parameter.choices)
    multiple = not in_query and parameter.type in REPEATED
    return click.Option([flag, name], type=kind, multiple=multiple, default=None, help=doc)


def command_for(operation: RestOperation) -> click.Command:
    """The command of one operation."""

    @click.pass_context
    def run(context: click.Context, /, **values: object) -> None:
        call(context, operation, values)

    params: list[click.Parameter] = [click.Argument([name], metavar=name.upper()) for name in operation.arguments]
    params += [option_of(p, True) for p in operation.query]
    params += [option_of(p, False) for p in operation.fields]
    if operation.has_body:
        params.append(
            click.Option(
                ["--body"], type=JsonValue(), help="Fields of the body as JSON, for values that no option can express."
            )
        )
    if operation.method == "GET":
        params.append(
            click.Option(
                ["--watch"], type=click.FLOAT, metavar="SECONDS", help="Repeat the request every SECONDS seconds."
            )
        )
    if operation.method == "DELETE":
        params.append(click.Option(["--yes"], is_flag=True, help="Do not ask for confirmation."))
    if _can_wait(operation):
        params.append(
            click.Option(
                ["--wait"], is_flag=True, help="Wait until the object has ended. Exit code 4: it did not succeed."
            )
        )
    doc = f"{operation.doc}\n\n{operation.method} {PREFIX}{operation.path}"
    return click.Command(operation.verb, callback=run, params=params, help=doc, short_help=operation.doc or " ")


def _can_wait(operation: RestOperation) -> bool:
    """Return whether the operation returns an object that has a command `show` and a final state."""
    return operation.method == "POST" and operation.noun in (
        "moves",
        "restarts",
        "recoveries",
        "spark-jobs",
        "archives",
    )


def call(context: click.Context, operation: RestOperation, values: dict[str, Any]) -> None:
    """Send the request of a command and print the response."""
    settings: CliOptions = context.obj
    again = values.pop("watch", None)
    wait = values.pop("wait", False)
    body = _body(operation, values) if operation.has_body else None
    path = operation.url_path({name: values[name] for name in operation.arguments})
    query = {p.name: _query_text(p.name, values[p.name]) for p in operation.query if values[p.name] is not None}
    if operation.method == "DELETE" and not values["yes"]:
        _confirm(operation, [values[name] for name in operation.arguments])
    while True:
        response = send(settings, operation.method, path, query, body)
        if again is not None:
            click.clear()
        show(settings, response)
        if again is None:
            break
        time.sleep(again)
    if wait:
        wait_for_end(settings, operation, response)


def _query_text(name: str, value: object) -> str:
    """The value of a query parameter. A time may also be given as an age, for example 15m, 1h or 7d."""
    if isinstance(value, bool):
        return str(value).lower()
    age = re.fullmatch(r"(\d+)([smhd])", str(value)) if name in TIMES else None
    if age is None:
        return str(value)
    then = datetime.now(UTC) - timedelta(seconds=int(age[1]) * AGE_UNITS_S[age[2]])
    return then.isoformat(timespec="seconds")


def _body(operation: RestOperation, values: Mapping[str, Any]) -> dict[str, Any]:
    body = dict(values["body"] or {}) if isinstance(values["body"], dict | None) else None
    if body is None:
        raise click.BadParameter("the request body must be a JSON object", param_hint="--body")
    for field in operation.fields:
        value = values[field.name]
        if value is None or value == ():
            continue
        if field.type is RestParameterType.MAP:
            value = dict(value)
        elif field.type in REPEATED:
            value = list(value)
        body[field.name] = value
    return body


def _confirm(operation: RestOperation, arguments: Iterable[str]) -> None:
    if not sys.stdin.isatty():
        raise click.UsageError("a deletion needs --yes if standard input is not a terminal")
    click.confirm(f"{operation.verb} {operation.noun} {' '.join(arguments)}?", abort=True)


def show(settings: CliOptions, response: Response) -> None:
    """Print a response, as JSON or as human-readable text."""
    if settings.json and not isinstance(response.data, str):
        click.echo(json.dumps(response.data, indent=2, ensure_ascii=False))
        return
    if response.data in ("", None):
        return
    for line in output.lines(response.data, shutil.get_terminal_size((200, 50)).columns):
        click.echo(line)


def wait_for_end(settings: CliOptions, operation: RestOperation, response: Response) -> None:
    """Poll the object until `finished_at` is set. A line for each change of its state."""
    number = response.data.get("id") if isinstance(response.data, dict) else None
    found = find("GET", f"/{operation.noun}/{number}") if number is not None else None
    if found is None:
        raise click.UsageError("--wait is not possible: the response has no id")
    state = None
    while True:
        data = send(settings, "GET", f"/{operation.noun}/{number}", None, None).data
        if data["state"] != state:
            state = data["state"]
            click.echo(f"{operation.noun} {number}: {state}", err=True)
        if data.get("finished_at") is not None:
            sys.exit(0 if state in SUCCEEDED else NOT_SUCCEEDED)
        time.sleep(WAIT_PAUSE_S)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--server", envvar="WEIR_URL", help="Address of the console. Default: the local cluster's.")
@click.option("--token", envvar="WEIR_TOKEN", help="API token. Default: that of the local cluster, if there is one.")
@click.option("--data-dir", envvar="WEIR_DATA_DIR", help="Data directory of the local cluster (default: data).")
@click.option("-o", "--output", "output_", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.pass_context
def app(context: click.Context, server: str | None, token: str | None, data_dir: str | None, output_: str) -> None:
    """Operate a Weir cluster through the REST API of its console."""

    def client() -> RestClient:
        try:
            return default_client(server, token, data_dir)
        except ValueError as e:
            raise click.ClickException(str(e)) from e

    context.obj = CliOptions(client, output_ == "json")


@app.command(API)
@click.argument("method", type=click.Choice(["GET", "POST", "PATCH", "PUT", "DELETE"], case_sensitive=False))
@click.argument("path")
@click.option("--body", type=JsonValue(), help="The request body, as JSON.")
@click.pass_obj
def api(settings: CliOptions, method: str, path: str, body: object) -> None:
    """Any request. PATH is below /api/v1, for example /topics?query=flights."""
    show(settings, send(settings, method, "/" + path.removeprefix(PREFIX).lstrip("/"), None, body))


def build() -> click.Group:
    """The whole command line. A noun without a verb lists its objects, or shows the only one."""
    by_command = {(o.noun, o.verb): o for o in operations()}
    for noun in sorted(NOUNS):
        verbs = {verb: operation for (n, verb), operation in by_command.items() if n == noun}
        default = verbs.get("list") or verbs.get("show")
        group = click.Group(noun, help=f"{noun}: {', '.join(verbs)}", short_help=", ".join(verbs))
        for operation in verbs.values():
            group.add_command(command_for(operation))
        if default is not None and not default.arguments:
            group.invoke_without_command, group.no_args_is_help = True, False
            group.callback = _by_default(group, default.verb)
        app.add_command(group)
    for alias, of in ALIASES.items():
        copy = command_for(by_command[of])
        copy.name, copy.short_help = alias, ALIAS_HELP.format(*of)
        app.add_command(copy)
    for name, command in documents.COMMANDS.items():
        app.add_command(command, name)
    return app


def _by_default(group: click.Group, verb: str) -> Callable[[], None]:
    def run() -> None:
        context = click.get_current_context()
        if context.invoked_subcommand is None:
            group.commands[verb].main(args=[], obj=context.obj, standalone_mode=False)

    return run


def main(arguments: list[str] | None = None) -> None:
    """Run one command; exits."""
    build()(args=arguments, prog_name=PROGRAM)
