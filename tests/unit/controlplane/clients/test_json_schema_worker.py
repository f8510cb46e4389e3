"""The process that validates one value: its responses, and its end above the limit of time."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import Any

from tests.cluster.local import ROOT
from weir_common.phrases import TranslatableText, text_from_json


def result_of(definition: Any, text: str) -> tuple[int, Any]:
    """(exit code, result) for a schema of this definition and a value."""
    done = subprocess.run(
        [sys.executable, "-m", "controlplane.clients.json_schema_worker"],
        input=json.dumps([5, json.dumps(definition), [], text]).encode(),
        stdout=subprocess.PIPE,
        cwd=ROOT,
        timeout=120,
        check=False,
    )
    return done.returncode, json.loads(done.stdout) if done.stdout else None


def test_the_response_has_the_faults_or_why_the_schema_cannot_be_used() -> None:
    assert result_of({"type": "integer"}, "1") == (0, {"faults": []})
    code, result = result_of({"type": "integer"}, '"x"')
    ((path, stored),) = result["faults"]
    fault = text_from_json(stored)
    assert (code, path, fault) == (0, "$", 'The value must be an integer, but it is the text "x".')
    assert isinstance(fault, TranslatableText)
    code, result = result_of({"type": "nonsense"}, "1")
    reason = text_from_json(result["unavailable"])
    assert code == 0 and reason.startswith("Schema ID 5 is not a valid JSON Schema (SchemaError: ")
    assert isinstance(reason, TranslatableText)


def test_the_kernel_ends_a_validation_without_a_response() -> None:
    assert result_of({"pattern": "^(a+)+$"}, json.dumps("a" * 60 + "!")) == (-signal.SIGPROF, None)
