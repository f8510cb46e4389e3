"""The process that evaluates a filter expression: compiles one expression, then answers batches of records.

It is started by its path and imports the standard library and the CEL library only, so that it starts quickly and holds no secret that an expression could
read. Invariants: a record has EVALUATION_CPU_SECONDS of CPU time and the process MEMORY_BYTES of memory. The kernel ends the process above them, also
inside the library.
Frames on both pipes: four bytes of length, then a value of `marshal`. Does not contain: what the texts of errors mean (`domain.record_expression`).
"""

from __future__ import annotations

import marshal
import resource
import signal
import struct
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import IO, Any

EVALUATION_CPU_SECONDS = 0.25
"""CPU time of the evaluation of one record, and of the compilation."""

BATCH_CPU_SECONDS = 0.2
"""CPU time after which a batch is answered in part. The reader looks at its own limits then."""

MEMORY_BYTES = 1024 * 1024 * 1024
"""Address space of the process. The library alone takes 200 MiB."""

VARIABLE_TYPES = {
    "key": "DYN",
    "value": "DYN",
    "headers": "DYN",
    "partition": "INT",
    "offset": "INT",
    "timestamp": "TIMESTAMP",
}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST_MS = 253_402_300_799_999
"""The end of the year 9999, the largest timestamp of CEL."""


def read_frame(source: IO[bytes]) -> Any:
    """Read the next object of the parent process. Returns None at the end of the stream."""
    head = source.read(4)
    return marshal.loads(source.read(struct.unpack(">I", head)[0])) if len(head) == 4 else None  # noqa: S302 - from the parent process.


def write_frame(target: IO[bytes], value: Any) -> None:
    data = marshal.dumps(value)
    target.write(struct.pack(">I", len(data)) + data)
    target.flush()


def compile_expression(text: str) -> tuple[Any, str]:
    """(the expression, "") or (None, the error)."""
    from cel_expr_python import cel

    types = {name: getattr(cel.Type, kind) for name, kind in VARIABLE_TYPES.items()}
    types["headers"] = cel.Type.Map(cel.Type.STRING, cel.Type.DYN)
    try:
        expression = cel.NewEnv(variables=types).compile(text)
    except Exception as error:  # noqa: BLE001 - the library raises RuntimeError, and ValueError for text that is no UTF-8.
        return None, str(error) or type(error).__name__
    result_type = expression.return_type().name()
    if result_type not in ("BOOL", "DYN"):
        return None, f"ERROR: <input>:1:1: the result is {result_type.lower()}, not true or false"
    return expression, ""


def evaluate(expression: Any, values: list[Any]) -> tuple[int, str]:
    """(1, ""): it matches. (0, ""): it does not. (2, the error). (3, ""): the result is no boolean."""
    data = dict(zip(VARIABLE_TYPES, values, strict=True))
    data["timestamp"] = EPOCH + timedelta(milliseconds=min(max(data["timestamp"], -1), LAST_MS))
    try:
        result = expression.eval(data=data)
        found = result.value()
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - a value that the library cannot hold is the fault of one record.
        return 2, str(error) or type(error).__name__
    if isinstance(found, bool):
        return int(found), ""
    return (2, str(found)) if result.type().name() == "ERROR" else (3, "")


def main() -> None:
    source, target = sys.stdin.buffer, sys.stdout.buffer
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    try:
        import cel_expr_python.cel  # noqa: F401 - before the first limit of time.
    except ImportError:
        write_frame(target, "missing")
        return
    write_frame(target, "ready")
    signal.setitimer(signal.ITIMER_PROF, EVALUATION_CPU_SECONDS)
    expression, error = compile_expression(read_frame(source))
    signal.setitimer(signal.ITIMER_PROF, 0)
    write_frame(target, error)
    while expression is not None and (batch := read_frame(source)) is not None:
        began = time.process_time()
        for values in batch:
            signal.setitimer(signal.ITIMER_PROF, EVALUATION_CPU_SECONDS)
            # Each response is sent immediately: it survives the end of the process at a later record.
            write_frame(target, evaluate(expression, values))
            if time.process_time() - began >= BATCH_CPU_SECONDS:
                break
        signal.setitimer(signal.ITIMER_PROF, 0)
        write_frame(target, None)


if __name__ == "__main__":
    main()
