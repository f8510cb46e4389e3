"""Identity of the processes that Spark jobs run in."""

from __future__ import annotations

import os

import pytest

from controlplane.clients import spark

pytestmark = pytest.mark.django_db


def test_a_process_with_a_reused_pid_is_another_process() -> None:

    assert not spark.is_alive(os.getpid(), 12345.0)
    assert not spark.is_alive(None, None)
