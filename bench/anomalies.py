"""Anomalies that the rule finds in recorded traffic: `python -m bench.anomalies`.

The traffic is the demo's data: scheduled departures of a year from the airports of New York, each flight as some records per second of its ten
minutes. It has mornings, nights, weekends, changes of the schedule and holidays. The rule of the console runs over each ten minutes from the
fifteenth day on, with the values that it would have had then.
"""

from __future__ import annotations

import argparse
from collections import Counter
from datetime import UTC, datetime

from controlplane.devcluster.demo import flights_file, rows, scheduled_departure
from controlplane.domain.alert_thresholds import RULES, ThresholdName
from controlplane.domain.anomaly import CONFIRMED_S, DAYS_MAX, HOURS_MAX, WATCHED_OF, WINDOW_S, judge

DAY, HOUR = 86_400 // WINDOW_S, 3_600 // WINDOW_S


def traffic(scale: float) -> dict[int, float]:
    """Records per second of each ten minutes, zero where no flight departs."""
    flights: Counter[int] = Counter()
    for row in rows(flights_file()):
        year, month, day, clock = scheduled_departure(row)
        at = datetime(year, month, day, clock // 100 % 24, clock % 100, tzinfo=UTC)
        flights[int(at.timestamp()) // WINDOW_S] += 1
    return {i: scale * flights[i] for i in range(min(flights), max(flights) + 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=100, help="Records per second of one flight.")
    parser.add_argument(
        "--limit",
        type=float,
        default=RULES[ThresholdName.ANOMALY_DISTANCE].default,
        help="The threshold anomaly_distance.",
    )
    parser.add_argument("--hours", action="store_true", help="Compare with hours only, as in the first days.")
    options = parser.parse_args()
    values = traffic(options.scale)
    watched = WATCHED_OF["cluster.records_per_s"]
    first = min(values) + DAYS_MAX * DAY
    unconfirmed, found, lasting, before = 0, [], 0, None
    for i in range(first, max(values) + 1):
        days = [] if options.hours else [values[i - d * DAY] for d in range(1, DAYS_MAX + 1)]
        hours = [values[i - h * HOUR] for h in range(1, HOURS_MAX + 1)]
        judged = judge(watched, values[i], days, hours, options.limit)
        lasting = (lasting + 1 if judged.state == before else 1) if judged.unusual else 0
        before = judged.state
        unconfirmed += lasting == 1
        if lasting == 1 + CONFIRMED_S // WINDOW_S:
            found.append((datetime.fromtimestamp(i * WINDOW_S, UTC), judged))
    print(f"{(max(values) - first) / DAY:.0f} days, {max(values) - first} comparisons")
    print(f"anomalies: {len(found)} confirmed, {unconfirmed} before the confirmation")
    for at, judged in found:
        print(f"{at:%Y-%m-%d %H:%M} {judged.state}: {judged.value:,.0f}, usually {judged.usual:,.0f}")


if __name__ == "__main__":
    main()
