"""Periodic search for hanging transactions. Its rows are the input of an alert.

Invariants: one search at a time, on a thread that may wait for brokers. A search has a limited number of partitions; the next one continues where it
ended. Only a transaction that an earlier search has found open is judged, so ordinary ones cause no request to a coordinator. A row is deleted only
after the leader of its partition has answered. Does not contain: the verdict (`domain.transactions`), the alert (`domain.alert`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from concurrent.futures import Executor

from django.db import DatabaseError, connection, transaction
from django.db.models import Q
from django.utils import timezone

from brokerd.cluster.model import TRANSACTION_STATE_TOPIC
from controlplane.domain.transactions import PartitionTransaction, TransactionVerdict
from controlplane.models import HangingTransaction, ObservedPartition
from controlplane.selectors import hanging_transactions
from controlplane.selectors import transactions as selectors

log = logging.getLogger(__name__)

SEARCH_MS = 15_000
"""Milliseconds between the starts of two searches. They limit how long an alert stays after the abort of its transaction."""

SEARCH_FIRST_MS = 5_000
"""Milliseconds before the first search: the brokers are known by then."""

PARTITIONS_MAX = 1_000
"""Maximum number of partitions of one search, a few requests to each leader. Ten thousand partitions are searched in two and a half minutes."""

OPEN_MS_MIN = 30_000
"""Milliseconds since a search found a transaction open before it is judged. Most transactions are shorter."""

ROWS_MAX = 1_000
"""Maximum number of rows of one search. The alert names three of them."""

PartitionName = tuple[str, int]
OpenKey = tuple[str, int, int, int]
"""Topic, partition, producer id, first offset."""


class HangingTransactionMonitor:
    def __init__(self, now_ms: int) -> None:
        self._due_ms = now_ms + SEARCH_FIRST_MS
        self._running = False
        self._position: PartitionName | None = None
        """The last partition of the previous search; None: the next one starts at the first partition."""
        self._open_since_ms: dict[OpenKey, int] = {}

    def poll(self, pool: Executor, now_ms: int) -> None:
        """Start a search on a thread of the pool if one is due and none runs."""
        if not self._running and now_ms >= self._due_ms:
            self._running, self._due_ms = True, now_ms + SEARCH_MS
            pool.submit(self._run_search, now_ms)

    def _run_search(self, now_ms: int) -> None:
        try:
            self.search(now_ms)
        except DatabaseError as e:
            log.warning("database unavailable, hanging transactions are not searched: error=%s", e)
        except Exception:  # A bug must not end the searches.
            log.exception("search for hanging transactions failed, retrying")
        finally:
            connection.close()
            self._running = False

    def search(self, now_ms: int) -> None:
        """Search once for hanging transactions, and write the rows. Raises DatabaseError."""
        coordinated = ObservedPartition.objects.filter(topic__name=TRANSACTION_STATE_TOPIC).exists()
        if not coordinated and not HangingTransaction.objects.exists():
            # No transaction was ever started. If the topic was lost, known transactions stay listed until their partitions show that they ended, because a
            # lost topic is a cause of hanging transactions.
            return
        known = {_row_key(row): row.pk for row in HangingTransaction.objects.all()}
        leaders = self._choose({(topic, index) for topic, index, _, _ in known})
        brokers = selectors.living_brokers()
        responses = selectors.scan_leaders(brokers, leaders)
        described: set[PartitionName] = set()
        for response in responses:
            requested = {(topic, i) for topic, indexes in leaders[response.broker_id].items() for i in indexes}
            if response.value is not None and response.value.described == len(requested):
                described |= requested
        found = {_key(t): t for a in responses if a.value for t in a.value.transactions}
        self._note_open(found, described, now_ms)
        suspects = [t for key, t in found.items() if key in known or now_ms - self._open_since_ms[key] >= OPEN_MS_MIN]
        judged = hanging_transactions.verdicts(suspects, brokers)
        undetermined = {_key(t) for t, v, _ in judged if v is TransactionVerdict.UNDETERMINED}
        hanging = {_key(t): (v, name) for t, v, name in judged if v.hangs}
        kept = hanging.keys() | undetermined
        ended = [pk for key, pk in known.items() if key[:2] in described and key not in kept]
        self._write(hanging, ended)

    def _choose(self, spots_with_rows: Iterable[PartitionName]) -> dict[int, dict[str, list[int]]]:
        """The partitions of this search by leader: the next ones, and those with rows."""
        rows = ObservedPartition.objects.order_by("topic__name", "index")
        columns = ("topic__name", "index", "leader")
        after = rows
        if self._position is not None:
            topic, index = self._position
            after = rows.filter(Q(topic__name__gt=topic) | Q(topic__name=topic, index__gt=index))
        chosen = list(after.values_list(*columns)[:PARTITIONS_MAX])
        self._position = chosen[-1][:2] if len(chosen) == PARTITIONS_MAX else None
        spots = {(topic, index): leader for topic, index, leader in chosen}
        topics = {topic for topic, _ in spots_with_rows}
        for topic, index, leader in rows.filter(topic__name__in=topics).values_list(*columns) if topics else ():
            if (topic, index) in spots_with_rows:
                spots[topic, index] = leader
        leaders: dict[int, dict[str, list[int]]] = {}
        for (topic, index), leader in spots.items():
            if leader is not None:
                leaders.setdefault(leader, {}).setdefault(topic, []).append(index)
        return leaders

    def _note_open(self, open_keys: Iterable[OpenKey], described: set[PartitionName], now_ms: int) -> None:
        open_keys = set(open_keys)
        kept = {k: at for k, at in self._open_since_ms.items() if k in open_keys or k[:2] not in described}
        self._open_since_ms = dict.fromkeys(open_keys, now_ms) | kept

    @staticmethod
    def _write(hanging: dict[OpenKey, tuple[TransactionVerdict, str | None]], ended: list[int]) -> None:
        with transaction.atomic():
            HangingTransaction.objects.filter(pk__in=ended).delete()
            rows = list(HangingTransaction.objects.values_list("pk", "topic", "partition"))
            topics = {topic for _, topic, _ in rows}
            existing = set(ObservedPartition.objects.filter(topic__name__in=topics).values_list("topic__name", "index"))
            gone = [pk for pk, topic, partition in rows if (topic, partition) not in existing]
            HangingTransaction.objects.filter(pk__in=gone).delete()
            now = timezone.now()
            for (topic, partition, producer_id, start_offset), (verdict, name) in list(hanging.items())[:ROWS_MAX]:
                HangingTransaction.objects.update_or_create(
                    topic=topic,
                    partition=partition,
                    producer_id=producer_id,
                    start_offset=start_offset,
                    defaults={"verdict": verdict, "transactional_id": name or "", "checked_at": now},
                )


def _key(t: PartitionTransaction) -> OpenKey:
    return t.topic, t.index, t.producer_id, t.start_offset


def _row_key(row: HangingTransaction) -> OpenKey:
    return row.topic, row.partition, row.producer_id, row.start_offset
