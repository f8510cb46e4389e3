"""Error codes of the wire protocol are members of ErrorCode: a bare integer says nothing, and a search for the code does not find it."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.local import ROOT

PRODUCT = ("brokerd", "controlplane")
WITHOUT_WIRE = Path("brokerd/cluster")
"""Modules that brokers and controller share do not import the wire protocol: `error` of a stored result is a number there."""


def is_code(name: str) -> bool:
    return name in ("error", "error_code") or name.endswith(("_error", "_error_code"))


def name_of(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def is_bare(node: ast.expr | None) -> bool:
    """An integer, or an expression whose value may be one."""
    match node:
        case ast.Constant(value=value):
            return type(value) is int
        case ast.UnaryOp(operand=operand):
            return is_bare(operand)
        case ast.IfExp(body=body, orelse=orelse):
            return is_bare(body) or is_bare(orelse)
        case ast.BoolOp(values=items) | ast.Tuple(elts=items) | ast.Set(elts=items) | ast.List(elts=items):
            return any(map(is_bare, items))
        case ast.Call(func=ast.Name(id="frozenset" | "set" | "tuple"), args=items):
            return any(map(is_bare, items))
        case _:
            return False


def code_positions(trees: dict[Path, ast.Module]) -> dict[str, set[int]]:
    """{name of a class or function: positions of its arguments that are error codes}."""
    positions: dict[str, set[int]] = defaultdict(set)
    for tree in trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                names = [
                    s.target.id for s in node.body if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)
                ]
            elif isinstance(node, ast.FunctionDef):
                names = [a.arg for a in node.args.args if a.arg not in ("self", "cls")]
            else:
                continue
            positions[node.name] |= {i for i, name in enumerate(names) if is_code(name)}
    return positions


def bare_codes(tree: ast.Module, positions: dict[str, set[int]]) -> Iterator[int]:
    """Lines with an integer where an error code belongs."""
    for node in ast.walk(tree):
        match node:
            case ast.keyword(arg=str(name), value=value) if is_code(name) and is_bare(value):
                yield value.lineno
            case ast.Compare(left=left, comparators=others):
                sides = [left, *others]
                if any(is_code(name_of(s)) for s in sides) and any(map(is_bare, sides)):
                    yield node.lineno
            case ast.Assign(targets=targets, value=value):
                if any(is_code(name_of(t)) for t in targets) and is_bare(value):
                    yield node.lineno
            case ast.AnnAssign(target=target, value=value) if is_code(name_of(target)) and is_bare(value):
                yield node.lineno
            case ast.Call(func=func, args=args):
                at = positions.get(name_of(func), set())
                if any(i < len(args) and is_bare(args[i]) for i in at):
                    yield node.lineno
            case ast.FunctionDef(args=a):
                positional = a.posonlyargs + a.args
                defaults = [*zip(positional[len(positional) - len(a.defaults) :], a.defaults, strict=True)]
                defaults += [(k, d) for k, d in zip(a.kwonlyargs, a.kw_defaults, strict=True) if d is not None]
                if any(is_code(arg.arg) and is_bare(default) for arg, default in defaults):
                    yield node.lineno


def find_bare_codes(trees: dict[Path, ast.Module]) -> list[str]:
    positions = code_positions(trees)
    return [f"{path}:{line}" for path, tree in trees.items() for line in bare_codes(tree, positions)]


def test_no_error_code_is_a_bare_integer() -> None:
    paths = [p.relative_to(ROOT) for top in PRODUCT for p in sorted((ROOT / top).rglob("*.py"))]
    trees = {p: ast.parse((ROOT / p).read_text()) for p in paths if not p.is_relative_to(WITHOUT_WIRE)}
    assert len(trees) > 200
    assert find_bare_codes(trees) == []


@pytest.mark.parametrize(
    "line",
    [
        "done(error=3)",
        "response.error_code = 6",
        "failed = answer.error_code == 27",
        "retry = part.error_code in (3, 6)",
        "RETRIABLE = result.error in frozenset({3, 6})",
        "reply(error_code=E.NONE if known else 3)",
        "class Answer:\n    error: int\nAnswer(3)",
        "def reject(request, error=35): ...",
        "error: int = -1",
    ],
)
def test_a_bare_integer_is_detected(line: str) -> None:
    assert find_bare_codes({Path("x.py"): ast.parse(line)})


@pytest.mark.parametrize(
    "line", ["done(error=ErrorCode.NONE)", "if answer.error_code: ...", "errors = 3", "error = str(e)"]
)
def test_other_values_are_not_reported(line: str) -> None:
    assert not find_bare_codes({Path("x.py"): ast.parse(line)})
