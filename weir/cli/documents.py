"""The commands `diff`, `apply` and `export`: a file of topics, ACLs and other resources, and the difference from the cluster.

Invariant: `diff` stores nothing, except with `--save`. Exit codes of `diff`, as of `kubectl diff`: 0 no difference, 1 differences, 2 an error. Those
of the others are in `weir.cli.app`; 4 is an `apply` of which a step failed. Does not contain: what a document means; the server decides that.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import NotRequired, TextIO, TypedDict

import click

from weir.cli.sending import NOT_SUCCEEDED, CliOptions, send
from weir_common.document_text import UnreadableDocument, read_document, write_document

DIFFERENT, ERROR = 1, 2
PLANS = "/document-plans"
DIFFERENCE = "/cluster-document/diff"
SIGNS = {"create": "+", "alter": "~", "manage": "=", "delete": "-"}
FILE = click.option("-f", "--file", "file", type=click.File(), required=True, help="YAML or JSON; - is standard input.")
PRUNE = click.option(
    "--prune", is_flag=True, help="Delete resources that the owner manages and the file does not have."
)
TAKE_OVER = click.option("--take-over", is_flag=True, help="Also take resources that another owner manages.")
COMMENT = click.option("--comment", default="", help="The reason; kept with the changes.")


class ComparisonRequest(TypedDict):
    """`document`: any value; the server checks it."""

    document: dict[str, object]
    prune: bool
    take_over: bool


class ReportedChange(TypedDict):
    field: str
    before: object
    after: object


class ReportedStep(TypedDict):
    kind: str
    name: str
    action: str
    changes: list[ReportedChange]
    result: str
    detail: str


class ReportedRefusal(TypedDict):
    path: str
    detail: str


class ReportedPlan(TypedDict):
    """A plan or a difference, as the REST API returns it. A difference has no id and no numbers of steps that ran; a plan has no refusals."""

    digest: str
    steps: list[ReportedStep]
    creates: int
    alters: int
    deletes: int
    id: NotRequired[int]
    done: NotRequired[int]
    failed: NotRequired[int]
    refusals: NotRequired[list[ReportedRefusal]]


def request_of(file: TextIO, prune: bool, take_over: bool) -> ComparisonRequest:
    """The body of a comparison of this file."""
    try:
        document = read_document(file.read())
    except UnreadableDocument as e:
        raise click.ClickException(f"{file.name}: {e}") from None
    return {"document": document, "prune": prune, "take_over": take_over}


def plan(settings: CliOptions, body: ComparisonRequest, comment: str) -> ReportedPlan:
    """The stored plan of this comparison."""
    found: ReportedPlan = send(settings, "POST", PLANS, None, {**body, "comment": comment}).data
    return found


def lines(plan: ReportedPlan) -> Iterator[str]:
    """A plan or a difference, as lines of text."""
    for step in plan["steps"]:
        failed = f"  {step['result']}: {step['detail']}" if step["result"] in ("failed", "skipped") else ""
        yield f"{SIGNS[step['action']]} {step['kind']} {step['name']} ({step['action']}){failed}"
        if step["action"] != "delete":
            for change in step["changes"]:
                old = "" if step["action"] == "create" else f"{_text(change['before'])} -> "
                yield f"    {change['field']}: {old}{_text(change['after'])}"
    for rejection in plan.get("refusals", ()):
        yield f"! {rejection['path']}: {rejection['detail']}"
    if not plan["steps"]:
        yield from [] if plan.get("refusals") else ["no difference"]
    else:
        counts = (("create", plan["creates"]), ("alter", plan["alters"]), ("delete", plan["deletes"]))
        numbers = ", ".join(f"{count} to {action}" for action, count in counts)
        ran = plan.get("done") or plan.get("failed")
        done = f"; {plan.get('done', 0)} of {len(plan['steps'])} steps done" if ran else ""
        what = f"plan {plan['id']}" if "id" in plan else "difference"
        yield f"{what}: {numbers}; digest {plan['digest'][:12]}{done}"


def _text(value: object) -> str:
    return "not set" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _show(settings: CliOptions, plan: ReportedPlan) -> None:
    for line in [json.dumps(plan, indent=2, ensure_ascii=False)] if settings.json else lines(plan):
        click.echo(line)


@click.command("diff")
@FILE
@PRUNE
@TAKE_OVER
@click.option("--save", is_flag=True, help="Store the difference as a plan, for `apply --plan`.")
@COMMENT
@click.pass_obj
def diff(settings: CliOptions, file: TextIO, prune: bool, take_over: bool, save: bool, comment: str) -> None:
    """Show what `apply` would change. Exit code 0: nothing; 1: something; 2: an error, or the cluster rejects the document. Stores nothing without
    `--save`."""
    if comment and not save:
        raise click.UsageError("--comment is stored with a plan: add --save")
    try:
        body = request_of(file, prune, take_over)
        found: ReportedPlan = (
            plan(settings, body, comment) if save else send(settings, "POST", DIFFERENCE, None, body).data
        )
    except click.ClickException as e:
        e.show()
        sys.exit(ERROR)
    except SystemExit:
        sys.exit(ERROR)
    _show(settings, found)
    if found.get("refusals"):
        sys.exit(ERROR)
    sys.exit(DIFFERENT if found["steps"] else 0)


@click.command("apply")
@click.option("-f", "--file", "file", type=click.File(), help="YAML or JSON; - is standard input.")
@click.option("--plan", "plan_id", type=click.INT, help="The plan that `diff --save` has shown, instead of a file.")
@PRUNE
@TAKE_OVER
@click.option("--comment", required=True, help="The reason; kept with the changes.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.pass_obj
def apply(
    settings: CliOptions,
    file: TextIO | None,
    plan_id: int | None,
    prune: bool,
    take_over: bool,
    comment: str,
    yes: bool,
) -> None:
    """Change the cluster to the content of a file, or by a stored plan. Exit code 4: a step failed; run the command again."""
    if (file is None) == (plan_id is None):
        raise click.UsageError("give exactly one of --file and --plan")
    if plan_id is not None and (prune or take_over):
        raise click.UsageError("--prune and --take-over are part of the plan; give them to `diff`")
    found: ReportedPlan
    if file is not None:
        found = plan(settings, request_of(file, prune, take_over), comment)
    else:
        found = send(settings, "GET", f"{PLANS}/{plan_id}", None, None).data
    if not found["steps"]:
        _show(settings, found)
        return
    if not yes:
        for line in lines(found):
            click.echo(line, err=True)
        if not sys.stdin.isatty():
            raise click.UsageError("applying a plan needs --yes if standard input is not a terminal")
        click.confirm("apply?", abort=True, err=True)
    body = {"digest": found["digest"], "comment": comment}
    found = send(settings, "POST", f"{PLANS}/{found.get('id')}/apply", None, body).data
    _show(settings, found)
    sys.exit(NOT_SUCCEEDED if found.get("failed") else 0)


@click.command("export")
@click.option("--prefix", default="", help="Only topics and routes with this prefix.")
@click.option("--owner", default="", help="Only resources that this owner manages.")
@click.pass_obj
def export(settings: CliOptions, prefix: str, owner: str) -> None:
    """Write the current resources as YAML, without secrets, (JSON with `-o json`), in the format of `apply`."""
    query = {name: value for name, value in (("prefix", prefix), ("owner", owner)) if value}
    found = send(settings, "GET", "/cluster-document", query, None).data
    click.echo(
        json.dumps(found, indent=2, ensure_ascii=False) if settings.json else write_document(found), nl=settings.json
    )


COMMANDS = {"diff": diff, "apply": apply, "export": export}
"""Commands that are not generated from operations."""
