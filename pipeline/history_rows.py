"""Rows of the control plane's database that the jobs about metrics read: chunks of the history (decision 054), changes, events of the cluster. SQL
only, because the pipeline does not load Django; a test creates the rows with Django's models.

Invariant: nothing is written. Does not contain: tables of the lake.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from sqlalchemy import Engine, bindparam, create_engine, text

from weir_common.history_codes import BLOCK_SERIES, CHUNK_VALUES, MINUTE_S, STEP_S, unpack, value_of
from weir_common.lake_catalog import SQL_DRIVERS

DATABASE_VARIABLE = "WEIR_DATABASE_URL"

DAY_S = 86_400

FINE_S = 86_400
"""Seconds that values of 10 s are kept. Later they are averages of a minute."""

ROWS_PER_READ = 10_000
"""Changes or events in memory at a time."""

COMMITTED_S = 600
"""Age of a change from which no transaction with a smaller id is open any more."""


@dataclass(frozen=True, slots=True)
class Series:
    """One metric of one subject."""

    id: int
    subject: str
    metric: str


@dataclass(frozen=True, slots=True)
class MinuteChunk:
    """Averages of a minute from `begins` (Unix seconds) on. `codes`: `weir_common.history_codes.unpack`."""

    series_id: int
    begins: int
    codes: bytes


@dataclass(frozen=True, slots=True)
class RecordedChange:
    """A change by an operator (`source` change) or an event of the cluster (event). `actor`, `outcome`: empty for events."""

    source: str
    id: int
    at: datetime
    actor: str
    kind: str
    subject_kind: str
    subject: str
    outcome: str
    text: str


class HistoryRows:
    """`database`: an SQLite file, or empty for the PostgreSQL database of the environment."""

    def __init__(self, database: str, environment: Mapping[str, str] = os.environ) -> None:
        """Raises ValueError without a database."""
        url = environment.get(DATABASE_VARIABLE, "")
        if not database and not url:
            raise ValueError(f"the database of the control plane is unknown; set {DATABASE_VARIABLE}")
        if database:
            self._engine: Engine = create_engine(
                f"sqlite:///file:{database}?mode=ro&uri=true", connect_args={"timeout": 20}
            )
        else:
            scheme, _, rest = url.partition(":")
            self._engine = create_engine(f"{SQL_DRIVERS[scheme]}:{rest}")

    def series(self) -> list[Series]:
        """All series by subject and metric."""
        rows = self._rows("SELECT id, subject, metric FROM controlplane_historyseries")
        return sorted((Series(*row) for row in rows), key=lambda s: (s.subject, s.metric))

    def first_day(self, since: date = date(1970, 1, 1)) -> date | None:
        """The first day from `since` on with an average of a minute; None without any."""
        sql = "SELECT min(begins) FROM controlplane_historychunk WHERE step_s = :step AND begins >= :first"
        begins = next(self._rows(sql, step=MINUTE_S, first=day_s(since)))[0]
        return None if begins is None else datetime.fromtimestamp(begins, UTC).date()

    def is_settled(self, day: date, now: datetime) -> bool:
        """Return whether all values of the day are averages of a minute, which do not change any more."""
        end = day_s(day) + DAY_S
        if now.timestamp() < end + FINE_S:
            return False
        finer = self._rows(
            "SELECT (SELECT count(*) FROM controlplane_historyframe WHERE at < :until)"
            " + (SELECT count(*) FROM controlplane_historychunk WHERE step_s = :step AND begins < :until)",
            until=end,
            step=STEP_S,
        )
        return not int(next(finer)[0])

    def chunks(self, day: date, series: Iterable[Series]) -> list[MinuteChunk]:
        """The averages of a minute of one day."""
        rows = self._rows(
            "SELECT series_id, begins, codes FROM controlplane_historychunk"
            " WHERE series_id IN :ids AND step_s = :step AND begins >= :first AND begins < :until",
            ids=[s.id for s in series],
            step=MINUTE_S,
            first=day_s(day),
            until=day_s(day) + DAY_S,
        )
        return [MinuteChunk(i, begins, bytes(codes)) for i, begins, codes in rows]

    def changes(self, after: int, now: datetime) -> list[RecordedChange]:
        """The next changes with an outcome, in the order of ids, up to the first one that is pending or too new."""
        rows = self._rows(
            "SELECT id, at, actor, verb, object_kind, object_name, outcome, comment FROM controlplane_change"
            " WHERE id > :after ORDER BY id LIMIT :most",
            after=after,
            most=ROWS_PER_READ,
        )
        found = []
        for i, at, actor, verb, kind, name, outcome, comment in rows:
            when = instant(at)
            if outcome == "pending" or not _is_committed(when, now):
                break
            found.append(RecordedChange("change", i, when, actor, verb, kind, name, outcome, comment))
        return found

    def events(self, after: int, now: datetime) -> list[RecordedChange]:
        """The next events of the cluster, in the order of ids, up to the first one that is too new."""
        rows = self._rows(
            "SELECT id, at, kind, subject, text FROM controlplane_clusterevent WHERE id > :after ORDER BY id LIMIT :most",
            after=after,
            most=ROWS_PER_READ,
        )
        found = []
        for i, at, kind, subject, words in rows:
            when = instant(at)
            if not _is_committed(when, now):
                break
            found.append(
                RecordedChange("event", i, when, "", kind, "broker" if subject else "cluster", subject, "", words)
            )
        return found

    def disk_bytes(self) -> dict[str, int]:
        """The size of the disk of each live broker, by subject (`broker:ID`)."""
        rows = self._rows("SELECT broker_id, total_bytes FROM controlplane_broker WHERE alive AND total_bytes > 0")
        return {f"broker:{broker_id}": total for broker_id, total in rows}

    def values(self, series: Sequence[Series], since_s: int, until_s: int) -> dict[int, list[tuple[int, float]]]:
        """(time, value) of [since_s, until_s) by id of the series, in the order of time, at the resolution that is stored."""
        found: dict[int, list[tuple[int, float]]] = {s.id: [] for s in series}
        rows = self._rows(
            "SELECT series_id, step_s, begins, codes FROM controlplane_historychunk"
            " WHERE series_id IN :ids AND begins < :until AND begins > :since - step_s * :length",
            ids=list(found),
            until=until_s,
            since=since_s,
            length=CHUNK_VALUES,
        )
        for i, step_s, begins, codes in rows:
            for n, code in enumerate(unpack(bytes(codes))):
                at = begins + n * step_s
                if since_s <= at < until_s and (value := value_of(code)) is not None:
                    found[i].append((at, value))
        blocks: dict[int, list[int]] = {}
        for i in found:
            blocks.setdefault(i // BLOCK_SERIES, []).append(i)
        frames = self._rows(
            "SELECT block, at, codes FROM controlplane_historyframe WHERE block IN :ids AND at >= :since AND at < :until",
            ids=list(blocks),
            since=since_s,
            until=until_s,
        )
        for block, at, stored in frames:
            codes = bytes(stored)
            for i in blocks[block]:
                place = 2 * (i % BLOCK_SERIES)
                code = int.from_bytes(codes[place : place + 2], "little")
                if (value := value_of(code)) is not None:
                    found[i].append((at, value))
        return {i: sorted(values) for i, values in found.items()}

    def _rows(self, sql: str, **values: Any) -> Iterator[Sequence[Any]]:
        statement = text(sql)
        if "ids" in values:
            statement = statement.bindparams(bindparam("ids", expanding=True))
        with self._engine.connect() as connection:
            yield from connection.execute(statement, values).fetchall()


def day_s(day: date) -> int:
    """Unix seconds of the begin of a day (UTC)."""
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())


def instant(value: object) -> datetime:
    """A time of a row: SQLite returns text without a time zone, PostgreSQL a time with one."""
    found = datetime.fromisoformat(value) if isinstance(value, str) else value
    assert isinstance(found, datetime)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found


def _is_committed(at: datetime, now: datetime) -> bool:
    return at <= now - timedelta(seconds=COMMITTED_S)
