"""A response that waits for several parts. A look-up of old records delivers some parts later.

Does not contain: the parts, and what a request does when its client disconnects (`net/request`).
"""

from __future__ import annotations

from collections.abc import Callable

from brokerd.replication.history_reads import HistoryReadResult


class CombinedResponse:
    """A response of several parts, some of which come later. `done` is called when all parts are complete."""

    def __init__(self, done: Callable[[], None]) -> None:
        self._left, self._done = 1, done

    def expect(self) -> None:
        """Increase the number of parts that the response waits for. The part calls `part_done` when it is complete."""
        self._left += 1

    def deferred_part(self, put: Callable[[HistoryReadResult], None]) -> Callable[[HistoryReadResult], None]:
        self.expect()

        def on_result(result: HistoryReadResult) -> None:
            put(result)
            self.part_done()

        return on_result

    def part_done(self) -> None:
        self._left -= 1
        if not self._left:
            self._done()
