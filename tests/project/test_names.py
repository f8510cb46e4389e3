"""Names of functions say what the function does or returns. A single participle or preposition does not: `_found`, `answered`, `_with`."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator

import pytest

from tests.cluster.local import ROOT
from tests.project.test_structure import product_files

PARTICIPLE = re.compile(
    r"(?!seed|need|feed|speed|proceed|succeed)[a-z]+ed|found|made|seen|held|kept|taken|begun|given|known|shown|built|spent|told|put|lost|cut|set|born|drawn|chosen|done"
    r"|sent|left|said|read|written"
)
PREPOSITION = re.compile(
    r"about|above|after|again|alone|along|at|back|before|behind|below|between|beyond|both|by|each|everywhere|exactly|from|here|in|into|now|of|on|once|one"
    r"|other|out|over|same|since|some|then|there|to|under|until|up|upto|whole|with|within|without"
)
BOUNDS = {"callback": 0, "notification": 0, "private participle": 1, "private preposition": 0}
"""Functions with such a name. Lower a bound when functions get a better name; never raise one."""
CALLBACKS_OF_TESTS_MAX = 0
"""Callbacks in tests with such a name. Lower it when they get a better name; never raise it."""
VERBS = {"done", "read", "put", "cut", "set"}
"""Participles that are also imperatives. `done` is the name of callbacks that end an operation."""


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
    if nested and returns == "None" and is_participle and word not in VERBS:
        return "callback"
    if not function.name.startswith("_"):
        return "notification" if returns == "None" and is_participle and word not in VERBS else None
    return "private participle" if is_participle else "private preposition"


@pytest.fixture(scope="module")
def vague_names() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {kind: [] for kind in BOUNDS}
    for path in product_files():
        for function, nested in functions(ast.parse((ROOT / path).read_text())):
            if (kind := kind_of(function, nested=nested)) is not None:
                found[kind].append(f"{path}:{function.lineno} {function.name}")
    return found


@pytest.mark.parametrize("kind", BOUNDS)
def test_a_vague_name_of_a_function_is_not_added(kind: str, vague_names: dict[str, list[str]]) -> None:
    """Name a callback or a notification by its event (`on_response`), another function by its verb (`find_topic`) or by its result (`topic_error`)."""
    assert len(vague_names[kind]) <= BOUNDS[kind], vague_names[kind]


def test_a_vague_name_of_a_callback_is_not_added_to_the_tests() -> None:
    """Name it by its event: `on_response`, `on_delivery`. A function with `self` replaces a method."""
    names = [
        f"{path.relative_to(ROOT)}:{function.lineno} {function.name}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for function, nested in functions(ast.parse(path.read_text()))
        if kind_of(function, nested=nested) == "callback" and not any(a.arg == "self" for a in function.args.args)
    ]
    assert len(names) <= CALLBACKS_OF_TESTS_MAX, names


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
    def appended(self) -> None: ...
    def set(self) -> None: ...
"""
    kinds = {f.name: kind_of(f, nested=nested) for f, nested in functions(ast.parse(source))}
    assert {name: kind for name, kind in kinds.items() if kind is not None} == {
        "answered": "callback",
        "_found": "private participle",
        "_with": "private preposition",
        "appended": "notification",
    }


STORED_ANSWERS = {"answer": 3, "answered": 14, "answered_at": 3}
"""Columns of the database with the old word, and the number of product files that name them. Lower a number when files go; never raise one."""


def identifiers(source: str) -> Iterator[str]:
    """The names that a file binds or uses: variables, attributes, parameters, keyword arguments, functions and classes."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME:
            yield token.string


def test_what_a_server_sends_is_called_a_response() -> None:
    """The name of a response has the word `response`, and that of a query's result the word `result`, as in Kafka. `answer` has no second meaning here."""
    files: dict[str, set[str]] = {}
    for path in product_files():
        for name in identifiers((ROOT / path).read_text()):
            if "answer" in name.lower():
                files.setdefault(name, set()).add(str(path))
    assert not {name: paths for name, paths in files.items() if len(paths) > STORED_ANSWERS.get(name, 0)}


def test_the_identifiers_of_a_source() -> None:
    assert set(identifiers("answers = f(on_answer=1)  # answer\nx = 'answer'")) == {"answers", "f", "on_answer", "x"}


ABSTRACT = re.compile(
    r"acting|agrees|alive|asks?|blind|calm|cell|cold|completing|ends|eager|excess|facts|fails|forgetful|forgetting|full|generous|going|half|hang|hasty|headless"
    r"|hesitating|high|holds|hosts|ignoring|judge|keeping|keeps|kinds|knows|lagging|lasting|late|later|leading|leads|look|looks|meaning|meanwhile|misfits|more"
    r"|mute|needing|nothing|nulls|ongoing|owning|owns|part|passes|passing|place|places|plain|play|quick|quiet|ran|raw|says?|scene|second|settle|shorter|sides"
    r"|silent|slow|slowly|small|sound|stable|steps?|story|strict|stuck|sure|swells|tear|three|turn|two|unblock|undecided|unfit|unwell|waits?|waiting|ways|whole"
    r"|wide|work|works|wrote"
)
"""Words that name a helper of a test without saying what it does or returns."""
STANDARD_NAMES = {"done", "now", "read", "put", "cut", "set", "wait"}
"""Imperatives, the callback that ends an operation, and the time of a clock."""
HELPERS_MAX = {"function": 16, "method": 26}
"""Helpers of tests with such a name. Features of third-party clients (`tests/foreign`) and causes of stuck moves are functions whose name is an identifier
of a result. Lower a bound when helpers get a better name; never raise one."""


def vague_helpers(source: str) -> list[tuple[str, str]]:
    """`(key of HELPERS_MAX, "line name")` of each function or method that is no test and has a vague name of one word."""
    found = []

    def visit(node: ast.AST, *, in_class: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                word = child.name.strip("_")
                is_vague = any(pattern.fullmatch(word) for pattern in (PARTICIPLE, PREPOSITION, ABSTRACT))
                if is_vague and word not in STANDARD_NAMES:
                    found.append(("method" if in_class else "function", f"{child.lineno} {child.name}"))
            visit(child, in_class=isinstance(child, ast.ClassDef))

    visit(ast.parse(source), in_class=False)
    return found


@pytest.mark.parametrize("kind", HELPERS_MAX)
def test_a_vague_name_of_a_helper_is_not_added_to_the_tests(kind: str) -> None:
    """Name a function by its verb (`write_records`), a fixture or factory by its noun (`two_brokers`), a predicate with `is_` or `has_`."""
    names = [
        f"{path.relative_to(ROOT)}:{name}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for found, name in vague_helpers(path.read_text())
        if found == kind
    ]
    assert len(names) <= HELPERS_MAX[kind], names


def test_the_vague_names_of_helpers() -> None:
    source = """
def written(): ...
def write_records():
    def hasty(): ...

class Client:
    def asked(self): ...
    def read(self): ...

@pytest.fixture
def scene(): ...
"""
    assert vague_helpers(source) == [
        ("function", "2 written"),
        ("function", "4 hasty"),
        ("method", "7 asked"),
        ("function", "11 scene"),
    ]


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


ONE_LETTER_LINES_MAX = 8
"""Lines within which a name of one letter is used."""
ONE_LETTER_NAMES_MAX = 0
"""Parameters and variables of one letter that are used further away. Lower it when they get a better name; never raise it."""
BYTE_WALKS = ("brokerd/wire/", "brokerd/storage/key_hashes.py")
"""Code that walks bytes, partly compiled, names a position `p` and a length `n`."""
SCOPES = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.Lambda,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)


def bound_names(scope: ast.AST) -> set[str]:
    """The parameters and variables of one function, lambda or comprehension."""
    names: set[str] = set()
    pending = list(ast.iter_child_nodes(scope))
    while pending:
        node = pending.pop()
        if isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        if not isinstance(node, SCOPES):
            pending += ast.iter_child_nodes(node)
    return names


def lines_of(name: str, node: ast.AST) -> Iterator[int]:
    """Lines below `node` that use the name, without scopes that bind it again."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, SCOPES) and name in bound_names(child):
            continue
        if (isinstance(child, ast.Name) and child.id == name) or (isinstance(child, ast.arg) and child.arg == name):
            yield child.lineno
        yield from lines_of(name, child)


def long_lived_letters(source: str) -> list[str]:
    """`line function(letter)` of each name of one letter whose uses are more than ONE_LETTER_LINES_MAX lines apart. `i` and `j` are indexes."""
    found = []
    for function, _ in functions(ast.parse(source)):
        for letter in sorted(name for name in bound_names(function) if len(name) == 1 and name not in "ij_"):
            lines = list(lines_of(letter, function))
            if max(lines) - min(lines) > ONE_LETTER_LINES_MAX:
                found.append(f"{function.lineno} {function.name}({letter})")
    return found


def test_a_name_of_one_letter_is_used_within_few_lines() -> None:
    """Name a value by its noun: `topic`, `event`, `response_type`. A letter is for a comprehension or a loop of a few lines."""
    letters = [
        f"{path}:{name}"
        for path in product_files()
        if not str(path).startswith(BYTE_WALKS)
        for name in long_lived_letters((ROOT / path).read_text())
    ]
    assert len(letters) <= ONE_LETTER_NAMES_MAX, letters


def test_the_long_lived_letters() -> None:
    pause = "\n    pass" * ONE_LETTER_LINES_MAX
    assert long_lived_letters(f"def f(t):{pause}\n    return t") == ["1 f(t)"]
    assert long_lived_letters(f"def f(t):\n    return t{pause}\n    return [t for t in ()]") == []
    assert long_lived_letters(f"def f(i):\n    g = i{pause}\n    return i") == []
    assert long_lived_letters(f"def f():\n    t = 1\n    return t{pause}") == []
