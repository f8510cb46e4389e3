"""Tests that docs/invariants.md, docs/moves.md, docs/faults.md and docs/console-features.md name exist, and limits have a reason. Does not check that a test covers its invariant."""

from __future__ import annotations

import ast
import re
from itertools import zip_longest

from tests.cluster.local import ROOT


def test_every_invariant_names_a_test_that_exists() -> None:
    text = (ROOT / "docs" / "invariants.md").read_text()
    rows = [
        line for line in text.splitlines() if line.startswith("| ") and not line.startswith(("| invariant", "|---"))
    ]
    without = [row for row in rows if not re.search(r"`test_\w+`", row)]
    assert {int(n) for n in re.findall(r"^\| (\d+)\. ", text, flags=re.M)} == set(range(1, 11)) and not without
    others = [(ROOT / "docs" / name).read_text() for name in ("moves.md", "faults.md", "console-features.md")]
    named = set(re.findall(r"`(test_\w+)`", "".join([text, *others])))
    written = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), flags=re.M)
    }
    assert named <= written, named - written


def test_every_limit_says_its_unit_and_its_reason() -> None:
    """In the control plane, a docstring with the reason follows each constant named .._MAX."""
    silent, seen = [], 0
    for path in (ROOT / "controlplane").rglob("*.py"):
        body = ast.parse(path.read_text()).body
        for node, after in zip_longest(body, body[1:]):
            targets = (
                node.targets
                if isinstance(node, ast.Assign)
                else [node.target]
                if isinstance(node, ast.AnnAssign)
                else []
            )
            for target in targets:
                if not (isinstance(target, ast.Name) and target.id.endswith("_MAX")):
                    continue
                seen += 1
                sentence = after.value if isinstance(after, ast.Expr) else None
                if not (isinstance(sentence, ast.Constant) and isinstance(sentence.value, str)):
                    silent.append(f"{path.relative_to(ROOT)}: {target.id}")
    assert seen > 20 and not silent, silent
