"""The manifests as kustomize renders them; skipped where neither kustomize nor kubectl is installed (`make manifests`)."""

from __future__ import annotations

import pytest

from tests.deploy.rendered import problems, program, render_manifests

pytestmark = pytest.mark.skipif(not program(), reason="needs kustomize or kubectl")


def test_rendered_manifests_are_valid_and_complete() -> None:
    assert problems(render_manifests(program())) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("name: weir-secrets-", "name: absent-", "does not exist"),
        ("registry.example/weir:0.1.0", "weir", "was not replaced"),
        ("namespace: weir", "namespace: default", "namespace default"),
        ("kind: StatefulSet", "kind: StatefulSets", "not valid"),
        ("tickTime=2000", "tickTime=1000", "another content"),
    ],
)
def test_each_kind_of_problem_is_found(old: str, new: str, said: str) -> None:
    text = render_manifests(program())
    assert old in text
    assert any(said in line for line in problems(text.replace(old, new, 1)))
