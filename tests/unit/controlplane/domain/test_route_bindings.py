"""Checks of the bindings of a form."""

from __future__ import annotations

from controlplane.domain.route_bindings import binding_problem, have_equal_meaning, path_in_binding

KEY = {"target": "t", "match": {"kind": "key", "value": "k"}}


def test_the_path_of_a_problem_is_inside_of_the_binding() -> None:
    assert binding_problem(KEY) is None
    wrong = {"target": "t", "match": {"kind": "headers_all", "headers": [{"name": "a"}, {"name": ""}]}}
    problem = binding_problem(wrong)
    assert problem is not None and problem.path == ("match", "headers", "1", "name") and "1 to" in problem.reason
    assert path_in_binding("bindings.3.target") == ("target",) and path_in_binding("bindings") == ()


def test_defaults_do_not_change_the_meaning() -> None:
    assert have_equal_meaning([KEY], [{**KEY, "sample_percent": 100, "sample_by": "key", "drop_key": False}])
    assert not have_equal_meaning([KEY], [{**KEY, "drop_key": True}])
    assert not have_equal_meaning([KEY], [{**KEY, "target": "a b"}]), "an invalid binding is like no other"
