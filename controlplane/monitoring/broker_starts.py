"""The starts of broker processes, as the brokers report them: columns of their rows, and an event for a start after an unclean shutdown.

Invariant: a start that a row already has is no event, also after a restart of the monitor. The first start that a broker reports is no event, because an
earlier version did not report any.
"""

from __future__ import annotations

from datetime import datetime

from brokerd.cluster.model import ProcessStart
from controlplane.clients.broker_samples import BrokerSample
from controlplane.domain import cluster_events
from controlplane.domain.times import ms_of_utc, utc_of_ms
from controlplane.models import Broker
from controlplane.monitoring.projection import write_events


class BrokerStarts:
    """`reported`: the start of each broker, by its latest response."""

    def __init__(self) -> None:
        self.reported: dict[int, ProcessStart] = {}
        self._in_rows: dict[int, int] | None = None
        """The starts in the rows, Unix ms; None before they are read."""

    def apply(self, sample: BrokerSample) -> None:
        if sample.start is not None:
            self.reported[sample.broker_id] = sample.start

    def in_row(self, broker_id: int) -> int | None:
        """The start in the row of a broker, Unix ms. Live updates use it: a page that reloads its panel then reads the same value."""
        return (self._in_rows or {}).get(broker_id)

    def columns(self, broker_id: int) -> dict[str, object]:
        """Values for the row of the broker; empty if it has not reported its start."""
        start = self.reported.get(broker_id)
        return {} if start is None else {"started_at": utc_of_ms(start.at_ms), "unclean_start": start.unclean}

    def write_events(self, now: datetime) -> None:
        """Write the events of starts that no row has. Call it in the transaction that writes the rows, before them."""
        if self._in_rows is None:
            rows = Broker.objects.exclude(started_at=None).values_list("broker_id", "started_at")
            self._in_rows = {broker_id: ms_of_utc(at) for broker_id, at in rows if at is not None}
        unclean = []
        for broker_id, start in sorted(self.reported.items()):
            in_row = self._in_rows.get(broker_id)
            if start.unclean and in_row is not None and in_row != start.at_ms:
                unclean.append(broker_id)
            self._in_rows[broker_id] = start.at_ms
        write_events([cluster_events.unclean_start_event(i) for i in unclean], now)
