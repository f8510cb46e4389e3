"""Evaluation of a filter expression on records, in a process with limits of time and memory.

CEL has no loops without an end and no access to the system, but an expression over a large record can still take minutes or gigabytes. So it is never
evaluated in this process. Invariants: a record that ends the process is not evaluated again, and ENDS_MAX of them end the filter. The process ends with
its `ExpressionProcess`, and with this program. Does not contain: the evaluation (`clients.expression_worker`), texts (`domain.record_expression`).
"""

from __future__ import annotations

import marshal
import os
import select
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from brokerd.wire.records import Record
from controlplane.clients.expression_worker import EVALUATION_CPU_SECONDS, MEMORY_BYTES
from controlplane.domain.errors import Rejected
from controlplane.domain.record_expression import (
    NOT_BOOLEAN,
    RECORD_BYTES_MAX,
    TOO_LARGE,
    batch_of,
    reason_of,
    rejection,
    size_of,
)
from weir_common.phrases import sentence

WORKER = Path(__file__).with_name("expression_worker.py")

RESPONSE_SECONDS = 30.0
"""Time without a byte of the process. Its own limits are in CPU time, so this is reached only on a machine that is overloaded or stopped."""

ENDS_MAX = 3
"""Maximum number of records of one read that may end the process."""

ENDED = f"it needs more than {EVALUATION_CPU_SECONDS * 1000:.0f} ms of CPU time or {MEMORY_BYTES >> 30} GiB of memory"
MISSING = "Filter expressions need the Python package cel-expr-python: install the extra weir[formats]."

Variables = Callable[[int, Record], tuple[object, ...]]
"""The values of the variables for a record of a partition."""


class _ProcessEnded(Exception):
    """The process has ended, or did not respond."""


class ExpressionProcess:
    """An `ExpressionFilter`. Not thread-safe. Raises Rejected for an expression that is not understood. Close it."""

    def __init__(self, expression: str, variables: Variables) -> None:
        self.variables = variables
        self._expression = expression
        self._process: subprocess.Popen[bytes] | None = None
        self._received = b""
        self._ends = 0
        self._start()

    def __enter__(self) -> ExpressionProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def evaluate(self, partition: int, records: Sequence[Record]) -> list[bool | str]:
        if size_of(records[0]) > RECORD_BYTES_MAX:
            return [TOO_LARGE]
        batch = [r for r in batch_of(records) if size_of(r) <= RECORD_BYTES_MAX]
        # The results are of the first records: a large one ends the batch.
        batch = [r for r, given in zip(batch, records, strict=False) if r is given]
        try:
            data = marshal.dumps([list(self.variables(partition, r)) for r in batch])
        except (ValueError, RecursionError):
            return self._singly(partition, batch)
        results: list[bool | str] = []
        try:
            self._send(data)
            while (response := self._receive()) is not None:
                results.append(_result(response))
        except _ProcessEnded:
            self._ends += 1
            self._restart()
            results.append(ENDED)
        return results

    def _singly(self, partition: int, batch: Sequence[Record]) -> list[bool | str]:
        """A record of the batch is nested too deeply to be sent."""
        return ["it is nested too deeply"] if len(batch) == 1 else self.evaluate(partition, batch[:1])

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    # -- the process -----------------------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._received = b""
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            bufsize=0,
        )
        try:
            if self._receive() != "ready":
                raise Rejected(MISSING, "expression")
            self._send(marshal.dumps(self._expression))
            error = self._receive()
        except _ProcessEnded:
            self.close()
            raise Rejected(
                sentence("The expression cannot be compiled: {detail}.", detail=ENDED), "expression"
            ) from None
        except BaseException:
            self.close()
            raise
        if error:
            self.close()
            raise rejection(str(error), self._expression)

    def _restart(self) -> None:
        self.close()
        if self._ends >= ENDS_MAX:
            raise Rejected(
                sentence(
                    "The expression was stopped: for {ends} records {detail}. Use fewer nested macros, and compare shorter parts of the value.",
                    ends=self._ends,
                    detail=ENDED,
                ),
                "expression",
            )
        self._start()

    def _send(self, data: bytes) -> None:
        assert self._process is not None and self._process.stdin is not None
        rest = memoryview(struct.pack(">I", len(data)) + data)
        try:
            while rest:
                rest = rest[os.write(self._process.stdin.fileno(), rest) :]
        except OSError:
            raise _ProcessEnded from None

    def _receive(self) -> Any:
        head = self._read_exactly(4)
        return marshal.loads(self._read_exactly(struct.unpack(">I", head)[0]))  # noqa: S302 - written by our own worker.

    def _read_exactly(self, count: int) -> bytes:
        assert self._process is not None and self._process.stdout is not None
        deadline = time.monotonic() + RESPONSE_SECONDS
        source = self._process.stdout.fileno()
        while len(self._received) < count:
            readable, _, _ = select.select([source], [], [], max(0.0, deadline - time.monotonic()))
            data = os.read(source, 256 * 1024) if readable else b""
            if not data:
                raise _ProcessEnded
            self._received += data
        found, self._received = self._received[:count], self._received[count:]
        return found


def _result(response: tuple[int, str]) -> bool | str:
    kind, error = response
    return NOT_BOOLEAN if kind == 3 else reason_of(error) if kind == 2 else kind == 1
