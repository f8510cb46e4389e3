"""The process that validates one value with a JSON Schema, and ends.

Invariant: it has CPU_SECONDS of CPU time and MEMORY_BYTES of memory. The kernel ends it above them, also inside a regular expression. Input: a JSON list of the
schema's ID, text and references, and the text of the value. Output: see `main`. Does not contain: the validation (`domain.json_schema_encoding`).
"""

from __future__ import annotations

import json
import resource
import signal
import sys

CPU_SECONDS = 1.0
"""CPU time of one validation. A value of 1 MB without patterns takes some tenths."""
MEMORY_BYTES = 1024 * 1024 * 1024
"""Address space of the process."""


def main() -> None:
    """Writes {"faults": [[path, sentence]]}, or {"unavailable": why the schema cannot be used}."""
    from controlplane.domain.json_schema_encoding import encode_json
    from controlplane.domain.value_faults import ValueMisfit
    from weir_common.phrases import reason_of, sentence, text_to_json
    from weir_common.schema_formats import Schema, SchemaType, SchemaUnavailable, load_library

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    schema_id, definition, references, text = json.load(sys.stdin)
    schema = Schema(schema_id, SchemaType.JSON, definition, tuple((name, found) for name, found in references))
    result: dict[str, object] = {"faults": []}
    try:
        load_library("jsonschema")  # before the limit of time
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        encode_json(schema, text)
    except ValueMisfit as misfit:
        result = {"faults": [[fault.path, text_to_json(fault.sentence)] for fault in misfit.faults]}
    except SchemaUnavailable as error:
        result = {"unavailable": text_to_json(reason_of(error))}
    except RecursionError:
        too_deep = sentence("Schema ID {id}, or the value, is nested too deeply.", id=schema_id)
        result = {"unavailable": text_to_json(too_deep)}
    signal.setitimer(signal.ITIMER_PROF, 0)
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
