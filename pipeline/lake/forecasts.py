"""The table `metrics.forecasts`: each forecast of the job `forecast` once. The position of the table is the last run: a driver that is started again
adds nothing. Does not contain: statistics (`pipeline.forecasting`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import DoubleType, NestedField, StringType, TimestamptzType

from pipeline.lake import history
from pipeline.lake.conditions import at_least
from pipeline.lake.tables import Step, no_step
from pipeline.lake.writing import write_arrow
from weir_common.lake import COLUMN_MEANINGS, FORECASTS

FORECASTS_SCHEMA = Schema(
    NestedField(1, "subject", StringType(), required=True, doc=COLUMN_MEANINGS["forecast_subject"]),
    NestedField(2, "metric", StringType(), required=True),
    NestedField(
        history.TIMESTAMP_ID, "timestamp", TimestamptzType(), required=True, doc=COLUMN_MEANINGS["forecast_time"]
    ),
    NestedField(4, "value", DoubleType(), required=True),
    NestedField(5, "level", DoubleType(), required=True, doc=COLUMN_MEANINGS["forecast_level"]),
    NestedField(6, "low", TimestamptzType(), doc=COLUMN_MEANINGS["forecast_low"]),
    NestedField(7, "median", TimestamptzType()),
    NestedField(8, "high", TimestamptzType()),
    NestedField(9, "until", TimestamptzType(), required=True, doc=COLUMN_MEANINGS["horizon"]),
)
_TIME = pa.timestamp("us", tz="UTC")
FORECASTS_ARROW = pa.schema(
    [
        pa.field("subject", pa.string(), nullable=False),
        pa.field("metric", pa.string(), nullable=False),
        pa.field("timestamp", _TIME, nullable=False),
        pa.field("value", pa.float64(), nullable=False),
        pa.field("level", pa.float64(), nullable=False),
        *(pa.field(name, _TIME) for name in ("low", "median", "high")),
        pa.field("until", _TIME, nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class StoredForecast:
    """Forecast of the time at which a metric reaches a level: median and interval; None = after `until`."""

    subject: str
    metric: str
    timestamp: datetime
    value: float
    level: float
    low: datetime | None
    median: datetime | None
    high: datetime | None
    until: datetime


def forecasts_table(catalog: Catalog) -> Table:
    return history.ensure_table(catalog, FORECASTS, FORECASTS_SCHEMA)


def store(table: Table, forecasts: Sequence[StoredForecast], run: str, step: Step = no_step) -> bool:
    """Add the forecasts of a run. False if they are there already."""
    assumed = history.position_text(table)
    if assumed == run:
        return False
    rows = pa.Table.from_pylist([asdict(f) for f in forecasts], schema=FORECASTS_ARROW)
    files = [file for _, file in write_arrow(table, rows)] if forecasts else []
    step("written")
    return history.commit(table, assumed, run, files, run, step)


def read_forecasts(table: Table, since: datetime) -> list[StoredForecast]:
    """The forecasts since a time, the oldest first."""
    rows = table.scan(row_filter=at_least("timestamp", since)).to_arrow().sort_by("timestamp")
    return [StoredForecast(**row) for row in rows.to_pylist()]
