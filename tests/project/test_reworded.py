"""No state, code or cause depends on the words of a message: the unit tests of the decisions run with other words.

A test that fails then compares words itself, at the statement that failed. Every other test must pass: it compares states, error codes,
kinds and causes, which a decision by the words of a message would change.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.project import reworded_source

ROOT = Path(__file__).parents[2]
DECISIONS = (
    "tests/unit/controlplane/domain",
    "tests/unit/controlplane/controller",
    "tests/unit/coordinator",
    "tests/unit/replication/test_partition.py",
    "tests/unit/replication/test_fetch_client.py",
    "tests/unit/cluster/test_requests.py",
    "tests/unit/apis/test_fetch_conditions.py",
)
ABOUT_WORDS_SHARE_MAX = 0.15
"""The largest share of tests that compare words."""
LITERALS_MIN = 500


def compares_words(path: Path, line: int) -> bool:
    """Whether the statement of a test at this line (from 0) compares a text: with a literal of several words, by `in` or by a pattern. A parameter of a test counts
    like the literals of its values."""
    statements = [
        n
        for n in ast.walk(ast.parse(path.read_text()))
        if isinstance(n, ast.stmt) and n.lineno <= line + 1 <= (n.end_lineno or n.lineno)
    ]
    texts = {name for n in statements if isinstance(n, ast.FunctionDef) for name in _text_parameters(n)}
    if not statements:
        return False
    found = max(statements, key=lambda n: n.lineno)
    head: Sequence[ast.AST] = [found]
    match found:
        case ast.With(items=items):
            head = items
        case ast.Assert(test=test):
            head = [test]  # not the message of the assertion
        case ast.Raise():
            head = []
    return any(_is_text(n) or (isinstance(n, ast.Name) and n.id in texts) for part in head for n in ast.walk(part))


def _text_parameters(function: ast.FunctionDef) -> Iterator[str]:
    """The parameters of a parametrized test one of whose values is a text of several words."""
    for decorator in function.decorator_list:
        match decorator:
            case ast.Call(func=ast.Attribute(attr="parametrize"), args=[names, ast.List(elts=rows), *_]):
                columns = ast.literal_eval(names)
                columns = [n.strip() for n in columns.split(",")] if isinstance(columns, str) else list(columns)
                for row in rows:
                    values = row.elts if isinstance(row, ast.Tuple) else [row]
                    yield from (name for name, value in zip(columns, values, strict=False) if _is_text(value))


def _is_text(node: ast.AST) -> bool:
    match node:
        case ast.Constant(value=str(value)):
            return len(reworded_source.WORD.findall(value)) > 1
        case ast.Compare(
            left=ast.Constant(value=str()) | ast.Name(), ops=[ast.In() | ast.NotIn()], comparators=[right]
        ):
            return not (isinstance(right, ast.Name) and right.id.isupper())  # a set of states
        case ast.keyword(arg="match"):
            return True
        case ast.Attribute(attr="startswith" | "endswith"):
            return True
    return False


@pytest.mark.timeout(900)
def test_states_and_codes_stay_when_every_message_is_reworded(tmp_path: Path) -> None:
    report, written = tmp_path / "failures", tmp_path / "counts"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tests.project.reworded", "-p", "no:randomly", *DECISIONS],
        cwd=ROOT,
        env=os.environ | {"REWORDED_FAILURES": str(report), "REWORDED_COUNTS": str(written)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stdout[-3_000:] + done.stderr[-3_000:]
    counts = json.loads(written.read_text())
    assert counts["literals"] >= LITERALS_MIN, "the messages were not changed"
    failures = [json.loads(line) for line in report.read_text().splitlines()] if report.exists() else []
    dependent = [(test, text) for test, path, line, text in failures if not compares_words(Path(path), line)]
    assert not dependent, "these outcomes depend on the words of a message:\n" + "\n".join(map(str, dependent))
    assert len(failures) <= ABOUT_WORDS_SHARE_MAX * counts["tests"], (
        f"{len(failures)} of {counts['tests']} compare words"
    )


SAMPLE = """
WAITING = "waiting for the leader"

def note(n):
    return f"Following the leader since {n} ms" if n else WAITING

def state(text):
    return "following" if text.startswith("Following the") or text == "waiting for the leader" else "ready"
"""


@pytest.mark.parametrize("n", [0, 5])
def test_a_state_by_the_words_of_a_message_is_detected(n: int) -> None:
    plain: dict[str, object] = {}
    changed: dict[str, object] = {}
    exec(SAMPLE, plain)
    exec(reworded_source.compile_reworded(SAMPLE, "sample.py"), changed)
    assert plain["state"](plain["note"](n)) == "following"  # type: ignore[operator]
    assert changed["state"](changed["note"](n)) == "ready"  # type: ignore[operator]
    assert len(changed["note"](n)) == len(plain["note"](n))  # type: ignore[operator]


@pytest.mark.parametrize(
    "text", ["following", "min.insync.replicas", "%s: error=%d", "DROP TRIGGER IF EXISTS", "a-b c.d"]
)
def test_names_keys_and_formats_keep_their_letters(text: str) -> None:
    assert eval(reworded_source.compile_reworded(f"[{text!r}]", "sample.py", "eval")) == [text]


def test_the_message_of_an_assertion_is_no_comparison_of_words(tmp_path: Path) -> None:
    test = tmp_path / "test_sample.py"
    test.write_text(
        'assert state == "ready", f"does not end: {state}"\nassert note == "does not end"\nassert "x" in note\n'
    )
    assert [compares_words(test, line) for line in range(3)] == [False, True, True]
