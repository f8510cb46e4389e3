"""Names of functions say what the function does or returns. A single participle or preposition does not: `_found`, `answered`, `_with`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.cluster.local import ROOT
from tests.project.test_structure import product_files

PARTICIPLE = re.compile(
    r"(?!seed|need|feed|speed|proceed|succeed)[a-z]+ed|found|made|seen|held|kept|taken|begun|given|known|shown|built|spent|told|put|lost|cut|set|born|drawn|chosen|done"
    r"|sent|left|said|read"
)
PREPOSITION = re.compile(
    r"about|above|after|again|alone|along|at|back|before|behind|below|between|beyond|both|by|each|everywhere|exactly|from|here|in|into|now|of|on|once|one"
    r"|other|out|over|same|since|some|then|there|to|under|until|up|upto|whole|with|within|without"
)
BOUNDS = {"callback": 0, "private participle": 1, "private preposition": 0}
"""Functions with such a name. Lower a bound when functions get a better name; never raise one. `done` is the name of callbacks that end an operation."""


def functions(node: ast.AST, *, nested: bool = False) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, bool]]:
    """Each function below `node`, and whether it is inside another function."""
    for child in ast.iter_child_nodes(node):
        is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        if is_function:
            yield child, nested
        yield from functions(child, nested=is_function or (nested and not isinstance(child, ast.ClassDef)))


def kind_of(function: ast.FunctionDef | ast.AsyncFunctionDef, *, nested: bool) -> str | None:
    """The key of BOUNDS for a vague name, None for any other name. Predicates (`-> bool`) and properties may be participles."""
    returns = ast.unparse(function.returns) if function.returns is not None else ""
    word = function.name.lstrip("_")
    is_participle = PARTICIPLE.fullmatch(word) is not None
    if not (is_participle or PREPOSITION.fullmatch(word)) or returns == "bool" or function.decorator_list:
        return None
    if nested and returns == "None" and is_participle and word not in {"done", "read", "put", "cut", "set"}:
        return "callback"
    if not function.name.startswith("_"):
        return None
    return "private participle" if is_participle else "private preposition"


@pytest.fixture(scope="module")
def vague() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {kind: [] for kind in BOUNDS}
    for path in product_files():
        for function, nested in functions(ast.parse((ROOT / path).read_text())):
            if (kind := kind_of(function, nested=nested)) is not None:
                found[kind].append(f"{path}:{function.lineno} {function.name}")
    return found


@pytest.mark.parametrize("kind", BOUNDS)
def test_a_vague_name_of_a_function_is_not_added(kind: str, vague: dict[str, list[str]]) -> None:
    """Name a callback by its event (`on_response`), another function by its verb (`find_topic`) or by its result (`topic_error`)."""
    assert len(vague[kind]) <= BOUNDS[kind], vague[kind]


def test_the_kinds_of_vague_names() -> None:
    source = """
def outer():
    def answered(response) -> None: ...
    def on_response(response) -> None: ...

class A:
    def _found(self) -> int: ...
    def _with(self) -> int: ...
    def _expired(self) -> bool: ...
    def _feed(self) -> int: ...
"""
    kinds = {f.name: kind_of(f, nested=nested) for f, nested in functions(ast.parse(source))}
    assert {name: kind for name, kind in kinds.items() if kind is not None} == {
        "answered": "callback",
        "_found": "private participle",
        "_with": "private preposition",
    }


VAGUE_PARAMETER = re.compile(
    r"_?(?:found|given|said|made|kept|known|seen|told|asked|shown|mine|own|ours|rest|these|those|who|whose|of)"
)
PARAMETERS_MAX = 1
"""Parameters of product functions with a name that does not say what they hold. Lower it when parameters get a better name; never raise it."""


def vague_parameters(source: str) -> list[str]:
    return [
        f"{function.lineno} {function.name}({argument.arg})"
        for function, _ in functions(ast.parse(source))
        for argument in [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
        if VAGUE_PARAMETER.fullmatch(argument.arg)
    ]


def test_a_vague_name_of_a_parameter_is_not_added() -> None:
    """Name a parameter by what it holds: `partitions`, `matches`, `stored`, not `found` or `known`."""
    vague = [f"{path}:{name}" for path in product_files() for name in vague_parameters((ROOT / path).read_text())]
    assert len(vague) <= PARAMETERS_MAX, vague


def test_the_vague_names_of_parameters() -> None:
    source = "def f(found, matches, *, own, of): ...\nclass A:\n    def g(self, known, read): ..."
    assert vague_parameters(source) == ["1 f(found)", "1 f(own)", "1 f(of)", "3 g(known)"]
