"""Runbooks: one for each kind of alert."""

from __future__ import annotations

import pytest

from console import runbooks
from controlplane.domain.alert_types import AlertKind
from tests.cluster.local import ROOT


@pytest.mark.parametrize("kind", list(AlertKind))
def test_each_kind_of_alert_has_a_runbook_with_steps(kind: AlertKind) -> None:
    text = runbooks.html(kind)
    assert text is not None and text.count("<h1>") == 1 and text.count("<li>") >= 2


def test_there_is_no_runbook_of_an_unknown_kind() -> None:
    assert runbooks.html("../../SECURITY") is None
    assert {p.stem for p in (ROOT / "docs" / "runbooks").glob("*.md")} == set(AlertKind)
