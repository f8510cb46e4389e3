"""A small mutator: changes single branches of the cores that protect data, and reports which changes no test detects.

`python -m tests.simulation.mutate --target election` changes one clause, condition, bound or branch at a time in the running code (no file is written),
in its own process: first the unit tests of the module, then the directed scenes, then a fixed number of seeded worlds. Mutants that survive all of
them are printed; the table in docs/simulation.md explains for each known survivor why its behaviour is equivalent.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib
import os
import re
import resource
import sys
import time
import types
from collections import Counter
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CPU_S_MAX = 240
UNIT_CPU_S_MAX = 60
"""Time limits of one mutant, and of its unit tests: an endless loop counts as detected."""
MEMORY_BYTES_MAX = 4 << 30
SEEDS = 3
UNIT, SCENE, WORLD, SURVIVED, STOPPED, EQUIVALENT = 11, 12, 13, 14, 15, 16
"""Exit codes of a mutant's process: which stage detected it. Any other end counts as STOPPED: detected by an endless loop or too much memory."""
NAMES = {
    UNIT: "unit test",
    SCENE: "scene",
    WORLD: "world",
    SURVIVED: "SURVIVED",
    STOPPED: "endless",
    EQUIVALENT: "equivalent",
}
DOCS = Path(__file__).parents[2] / "docs" / "simulation.md"
NOT_RULES = frozenset({"validate", "describe", "__init__", "to_json", "from_json"})
"""Functions that are tests themselves, or without behaviour."""


@dataclass(frozen=True)
class Target:
    module: str
    functions: tuple[str, ...]
    """Names of functions; a class name stands for all its methods."""
    units: tuple[str, ...]
    scenes: tuple[str, ...] = ()
    """`module:test` of directed scenes with a seed parameter."""
    world: str = ""
    """Module whose `live` is the world; empty: the ordinary one."""


CLASSIC, SAFETY = "tests.simulation.test_classic", "tests.simulation.test_safety"
TARGETS = {
    "truncation": Target(
        "brokerd.replication.fetch_client",
        ("truncation_point",),
        ("tests/unit/replication/test_fetch_client.py",),
        (CLASSIC,),
    ),
    "producers": Target(
        "brokerd.storage.producers",
        ("Producers",),
        ("tests/unit/storage/test_producers.py", "tests/unit/storage/test_transaction_index.py"),
    ),
    "election": Target(
        "brokerd.cluster.election",
        (
            "elect_leader",
            "_unproven",
            "_with_leader",
            "remove_offline_replicas",
            "with_new_broker_epoch",
            "with_new_leader_epoch",
            "with_isr",
        ),
        (
            "tests/unit/cluster/test_election.py",
            "tests/unit/controlplane/controller/test_elections.py",
            "tests/unit/controlplane/controller/test_proposals.py",
        ),
        (CLASSIC, SAFETY),
    ),
    "majority": Target(
        "brokerd.cluster.majority",
        (
            "quorum",
            "electors_needed",
            "electors",
            "live_electors",
            "can_elect",
            "start_vote",
            "candidates",
            "elect",
            "elect_uncleanly",
            "_with_leader",
            "with_isr",
            "remove_offline_replicas",
        ),
        ("tests/unit/cluster/test_majority.py", "tests/unit/controlplane/controller/test_votes.py"),
        ("tests.simulation.test_majority_votes",),
        world="tests.simulation.majority",
    ),
    "partition": Target(
        "brokerd.replication.partition",
        ("Partition",),
        ("tests/unit/replication/test_partition.py", "tests/unit/replication/test_partition_roles.py"),
        (CLASSIC, SAFETY),
    ),
    "group": Target(
        "brokerd.coordinator.classic.group",
        ("Group",),
        (
            "tests/unit/coordinator/classic/test_group_requests.py",
            "tests/unit/coordinator/classic/test_group_timers.py",
            "tests/unit/coordinator/classic/test_group_commits.py",
            "tests/unit/coordinator/classic/test_offsets.py",
            "tests/unit/coordinator/classic/test_group.py",
            "tests/unit/coordinator/consumer/test_mixed_group.py",
        ),
    ),
    "transaction": Target(
        "brokerd.coordinator.transactions.transaction",
        ("Transaction",),
        (
            "tests/unit/coordinator/transactions/test_transaction.py",
            "tests/unit/coordinator/transactions/test_transaction_rejections.py",
        ),
        world="tests.simulation.exactly_once",
    ),
}


# -- mutants ---------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Mutant:
    function: str
    line: int
    what: str
    path: tuple[Any, ...]
    """From the function's node to the replaced node: attribute names and list indices."""
    replacement: ast.AST

    @property
    def name(self) -> str:
        return f"{self.function}: {self.what}"


SWAPPED = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}


def replacements(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Possible replacements of this node."""
    match node:
        case ast.BoolOp(op=op, values=values):
            word = "and" if isinstance(op, ast.And) else "or"
            for i, gone in enumerate(values):
                rest = [v for j, v in enumerate(values) if j != i]
                yield f"drop `{ast.unparse(gone)}` of {word}", rest[0] if len(rest) == 1 else ast.BoolOp(op, rest)
        case ast.Compare(ops=[op], left=left, comparators=[right]) if type(op) in SWAPPED:
            other = ast.Compare(left, [SWAPPED[type(op)]()], [right])
            yield f"`{ast.unparse(node)}` -> `{ast.unparse(other)}`", other
        case ast.If(test=test, body=body, orelse=orelse):
            if not isinstance(test, ast.UnaryOp):
                yield f"negate if `{ast.unparse(test)}`", ast.If(ast.UnaryOp(ast.Not(), test), body, orelse)
            yield f"never if `{ast.unparse(test)}`", ast.If(ast.Constant(False), body, orelse)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield f"`{ast.unparse(test)}` always", body
            yield f"`{ast.unparse(test)}` never", orelse
        case ast.Call(func=ast.Name(id=("min" | "max") as name), args=args, keywords=keywords):
            other = ast.Name("max" if name == "min" else "min", ast.Load())
            yield f"`{ast.unparse(node)}`: {name} -> {other.id}", ast.Call(other, args, keywords)
            for i, gone in enumerate(args) if len(args) > 1 else ():
                rest = [a for j, a in enumerate(args) if j != i]
                less = rest[0] if len(rest) == 1 else ast.Call(node.func, rest, keywords)
                yield f"drop `{ast.unparse(gone)}` of `{ast.unparse(node)}`", less
        case ast.Call(func=ast.Name(id=("any" | "all") as name), args=args):
            other = ast.Name("all" if name == "any" else "any", ast.Load())
            yield f"`{ast.unparse(node)}`: {name} -> {other.id}", ast.Call(other, args, [])
        case ast.BinOp(left=left, op=(ast.Add() | ast.Sub()), right=ast.Constant(value=1)):
            yield f"`{ast.unparse(node)}` -> `{ast.unparse(left)}`", left
        case ast.comprehension(target=target, iter=iterated, ifs=[_, *_] as ifs, is_async=is_async):
            for i, gone in enumerate(ifs):
                rest = [c for j, c in enumerate(ifs) if j != i]
                yield f"drop filter `{ast.unparse(gone)}`", ast.comprehension(target, iterated, rest, is_async)


def walk(node: ast.AST, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], ast.AST]]:
    yield path, node
    for name, value in ast.iter_fields(node):
        for i, child in enumerate(value) if isinstance(value, list) else ((None, value),):
            if isinstance(child, ast.AST):
                yield from walk(child, (*path, name) if i is None else (*path, name, i))


def functions_of(tree: ast.Module, wanted: tuple[str, ...]) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name in wanted:
            yield node.name, node
        if isinstance(node, ast.ClassDef) and node.name in wanted:
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef) and inner.name not in NOT_RULES:
                    yield f"{node.name}.{inner.name}", inner


def mutants_of(target: Target) -> list[Mutant]:
    tree = ast.parse(source_of(target).read_text())
    out = []
    for name, function in functions_of(tree, target.functions):
        for path, node in walk(function):
            for what, replacement in replacements(node):
                line = getattr(node, "lineno", 0) or node.target.lineno  # type: ignore[attr-defined]
                out.append(Mutant(name, line, what, path, replacement))
    return out


def source_of(target: Target) -> Path:
    return Path(importlib.import_module(target.module).__file__ or "")


def apply(target: Target, mutant: Mutant) -> None:
    """Changes the function in place: every module that has imported it runs the mutant."""
    file = source_of(target)
    tree = ast.parse(file.read_text())
    function = dict(functions_of(tree, target.functions))[mutant.function]
    at: Any = function
    *way, last = mutant.path
    for step in way:
        at = at[step] if isinstance(step, int) else getattr(at, step)
    replacement = copy.deepcopy(mutant.replacement)
    if isinstance(last, int):
        at[last] = replacement
    else:
        setattr(at, last, replacement)
    ast.fix_missing_locations(tree)
    living: Any = importlib.import_module(target.module)
    for part in mutant.function.split("."):
        living = living.__dict__[part] if isinstance(living, type) else getattr(living, part)
    living = getattr(living, "fget", None) or getattr(living, "__func__", None) or living
    living.__code__ = code_named(compile(tree, str(file), "exec"), mutant.function)


def code_named(code: types.CodeType, name: str) -> types.CodeType:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            if constant.co_qualname == name:
                return constant
            if name.startswith(f"{constant.co_qualname}."):
                return code_named(constant, name)
    raise LookupError(name)


# -- detection -------------------------------------------------------------------------------------------------------
UNIT_OPTIONS = ("-x", "-q", "-p", "timeout", "-p", "_hypothesis_pytestplugin", "--hypothesis-profile=mutant")


def prepare_units() -> None:
    """Settings of pytest for all mutants: only the plugins that the tests need. Hypothesis draws the same examples each time and shrinks none."""
    import hypothesis

    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    generate = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
    hypothesis.settings.register_profile("mutant", deadline=None, derandomize=True, phases=generate, database=None)


def units_notice(target: Target) -> bool:
    import pytest

    return pytest.main([*UNIT_OPTIONS, *target.units]) != 0


def scenes_notice(target: Target) -> bool:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S_MAX, CPU_S_MAX))
    for name in target.scenes:
        module = importlib.import_module(name)
        for test in [t for t in vars(module) if t.startswith("test_")]:
            try:
                getattr(module, test)(1)
            except (AssertionError, RuntimeError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError):
                return True
    return False


def worlds_notice(target: Target, seeds: int) -> bool:
    from tests.simulation.run import run

    life = importlib.import_module(target.world).live if target.world else None
    return any(run(seed, life=life).violation is not None for seed in range(1, seeds + 1))


def run_mutant(target: Target, mutant: Mutant, seeds: int, *, units_only: bool = False) -> int:
    """Exit code of the mutant's process. `units_only`: the directed scenes and the worlds do not run."""
    pid = os.fork()
    if pid:
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        return code if code in NAMES else STOPPED
    resource.setrlimit(resource.RLIMIT_CPU, (UNIT_CPU_S_MAX, CPU_S_MAX))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    looks: list[tuple[int, Callable[[], bool]]] = [
        (UNIT, lambda: units_notice(target)),
        (SCENE, lambda: scenes_notice(target)),
        (WORLD, lambda: worlds_notice(target, seeds)),
    ]
    prepare_units()
    apply(target, mutant)
    os._exit(next((code for code, notices in (looks[:1] if units_only else looks) if notices()), SURVIVED))


def equivalent() -> frozenset[str]:
    """The survivors that the documentation explains: `target function: change`."""
    return frozenset(re.findall(r"^\| (\w+ [\w.]+: .+?) \|", DOCS.read_text(), re.M))


def run_target(
    name: str,
    *,
    seeds: int = SEEDS,
    only: str = "",
    every: int = 1,
    again: Set[str] = frozenset(),
    units_only: bool = False,
) -> tuple[Counter[int], list[str]]:
    """(number of mutants per detecting stage, names of the unexplained survivors)."""
    target, known = TARGETS[name], equivalent()
    for module in ("pytest", "tests.simulation.run", *target.scenes):
        importlib.import_module(module)  # imported before the fork
    found: Counter[int] = Counter()
    survivors = []
    for mutant in mutants_of(target)[::every]:
        if only not in mutant.name:
            continue
        began = time.monotonic()
        full = f"{name} {mutant.name}"
        if again and full not in again:
            continue
        if full in known:
            found[EQUIVALENT] += 1
            continue
        code = run_mutant(target, mutant, seeds, units_only=units_only)
        found[code] += 1
        if code == SURVIVED:
            survivors.append(full)
        print(f"{NAMES[code]:10} {time.monotonic() - began:5.1f} s  {full} (line {mutant.line})", flush=True)
    return found, survivors


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutate", description=__doc__)
    parser.add_argument("--target", choices=list(TARGETS), action="append", help="default: all")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="worlds per mutant that no other stage detects")
    parser.add_argument("--only", default="", help="mutants whose name contains this")
    parser.add_argument("--every", type=int, default=1, help="only each n-th mutant")
    parser.add_argument(
        "--again", type=Path, help="only those that survived, according to this output of an earlier run"
    )
    parser.add_argument("--units", action="store_true", help="only the unit tests, no scenes and no worlds")
    parser.add_argument("--list", action="store_true", help="list the mutants without running them")
    arguments = parser.parse_args()
    left = False
    again = (
        frozenset(re.findall(r"^  survived: (.+)$", arguments.again.read_text(), re.M))
        if arguments.again
        else frozenset()
    )
    for name in arguments.target or TARGETS:
        if arguments.list:
            print(
                "\n".join(
                    f"{name} {m.name} (line {m.line})" for m in mutants_of(TARGETS[name]) if arguments.only in m.name
                )
            )
            continue
        found, survivors = run_target(
            name,
            seeds=arguments.seeds,
            only=arguments.only,
            every=arguments.every,
            again=again,
            units_only=arguments.units,
        )
        print(f"{name}: " + ", ".join(f"{found[code]} {NAMES[code]}" for code in NAMES if found[code]))
        print("".join(f"  survived: {s}\n" for s in survivors), end="", flush=True)
        left = left or bool(survivors)
    return int(left)


if __name__ == "__main__":
    sys.exit(main())
