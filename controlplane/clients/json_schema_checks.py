"""Validation of a value with a JSON Schema, in a process with limits of time and memory.

A pattern of a schema is a regular expression of Python, which may need exponential time, and so may nested references. So no schema of the registry is
evaluated in this process. Invariant: the process ends before `encode_limited` returns. Does not contain: the validation
(`clients.json_schema_worker`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import controlplane
from controlplane.clients.json_schema_worker import CPU_SECONDS, MEMORY_BYTES
from controlplane.domain.value_faults import ValueFault, ValueMisfit
from weir_common.phrases import sentence, text_from_json
from weir_common.schema_formats import Schema, SchemaUnavailable

RESPONSE_SECONDS = 30.0
"""Elapsed time of the process. Its own limit is CPU time, so this is reached only on a machine that is overloaded or stopped."""
ROOT = Path(controlplane.__file__).parents[1]


def encode_limited(schema: Schema, text: str) -> bytes:
    """The text, if its value is valid. Raises ValueMisfit, SchemaUnavailable, also for a schema that needs too much time, and ValueError for text that is
    not JSON."""
    json.loads(text)
    data = text.encode()
    request = json.dumps([schema.id, schema.text, schema.references, text]).encode()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "controlplane.clients.json_schema_worker"],
            input=request,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])},
            cwd="/",
            timeout=RESPONSE_SECONDS,
            check=True,
        )
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
        raise SchemaUnavailable(
            sentence(
                "The value was not checked with schema ID {id}: it needs more than {ms} ms of CPU time or {gib} GiB of memory. A pattern of the schema "
                "with nested repetitions, for example (a+)+, is a usual cause. Change the pattern, or produce with another format.",
                id=schema.id,
                ms=f"{CPU_SECONDS * 1000:.0f}",
                gib=MEMORY_BYTES >> 30,
            )
        ) from None
    result = json.loads(done.stdout)
    if reason := result.get("unavailable"):
        raise SchemaUnavailable(text_from_json(reason))
    if result["faults"]:
        raise ValueMisfit([ValueFault(path, text_from_json(text)) for path, text in result["faults"]])
    return data
