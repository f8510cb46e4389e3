"""The mutator itself, and a small fixed sample of its mutants; `make mutants` runs them all."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any

import pytest

from tests.simulation import mutate
from tests.simulation.mutate import NAMES, TARGETS, functions_of, mutants_of, run_mutant, source_of


def test_each_kind_of_change_is_made() -> None:
    names = [m.name for m in mutants_of(TARGETS["truncation"])]
    assert "truncation_point: never if `local_epoch < epoch`" in names
    assert "truncation_point: negate if `local_epoch < epoch`" in names
    assert "truncation_point: `local_epoch < epoch` -> `local_epoch <= epoch`" in names
    assert "truncation_point: drop `end_offset` of `min(local_end, end_offset, log_end)`" in names
    assert "truncation_point: `min(local_end, log_end)`: min -> max" in names
    wider = [m.name for t in ("election", "producers") for m in mutants_of(TARGETS[t])]
    for kind in (
        "drop `not state.elr` of and",
        "drop filter `s not in leaving`",
        "`state.leader_epoch + 1` -> `state.leader_epoch`",
    ):
        assert any(kind in name for name in wider), kind


def test_what_the_documentation_calls_equivalent_is_made_by_the_mutator() -> None:
    made = {f"{name} {m.name}" for name, target in TARGETS.items() for m in mutants_of(target)}
    assert mutate.equivalent() <= made, "the code has changed: run `make mutants` for these again"


@pytest.mark.parametrize("target", ["transaction", "partition"])
def test_the_unit_tests_detect_no_change_where_there_is_none(target: str) -> None:
    mutant = mutants_of(TARGETS[target])[0]
    at: Any = dict(functions_of(ast.parse(source_of(TARGETS[target]).read_text()), TARGETS[target].functions))
    node = at[mutant.function]
    for step in mutant.path:
        node = node[step] if isinstance(step, int) else getattr(node, step)
    assert NAMES[run_mutant(TARGETS[target], replace(mutant, replacement=node), seeds=1, units_only=True)] == "SURVIVED"


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("truncation", "truncation_point: negate if `local_epoch < epoch`"),
        ("truncation", "truncation_point: drop `end_offset` of `min(local_end, end_offset, log_end)`"),
        ("producers", "Producers.check: never if `header.producer_epoch < producer.epoch`"),
        ("producers", "Producers.check: drop `last == header.last_sequence` of and"),
        ("election", "remove_offline_replicas: drop filter `s not in leaving`"),
    ],
)
def test_a_mutant_of_the_sample_is_detected(target: str, name: str) -> None:
    mutant = next(m for m in mutants_of(TARGETS[target]) if m.name == name)
    code = run_mutant(TARGETS[target], mutant, seeds=1)
    assert NAMES[code] in ("unit test", "scene", "world")
