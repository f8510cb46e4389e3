"""Publishes changes in the shapes of `live_events`.

Invariant: an update is sent only if it contains a change. Values come from memory. Moves, changes and jobs are polled once per second.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from django.db.models import Q

from brokerd.cluster.configs import controller_defaults
from brokerd.cluster.cordons import is_cordoned, leadership_disabled
from brokerd.cluster.image import Image
from controlplane.clients.group_samples import Key
from controlplane.clients.share_groups import DescribedShareGroup, SharePartitionOffset
from controlplane.domain import wait_reason
from controlplane.domain.alert_cases import disk_severity
from controlplane.domain.alert_thresholds import ThresholdName
from controlplane.domain.message_metrics import MessageMetrics, values
from controlplane.monitoring import live_events, live_shapes
from controlplane.monitoring.group_metrics import PartitionLag, owners_of, pace
from controlplane.monitoring.hub import Hub
from controlplane.monitoring.projection import BrokerSums, Difference, broker_sums
from controlplane.monitoring.samples import BROKER_RATES, MetricsCache, SampleChanges
from controlplane.monitoring.share_group_lag import ShareGroupLag
from controlplane.selectors.alert_thresholds import current_thresholds
from controlplane.selectors.topic_configs import min_insync
from weir_common.phrases import phrase_to_json

if TYPE_CHECKING:
    from controlplane.selectors.moves import MoveRow

PARTITIONS_PER_UPDATE = 500
"""Partitions in one update. Larger changes are split, so that no browser stalls."""


MOVES_FOLLOWED, JOBS_FOLLOWED = 50, 20
"""The newest moves and jobs, whose every change is published. Older ones are published while they run or when their state changes."""


def move_shape(row: MoveRow) -> live_shapes.MoveShape:
    """The update of a move."""
    return {
        "id": row.id,
        "state": row.state,
        "parts": row.parts,
        "parts_ended": row.parts_ended,
        "parts_rejected": row.parts_rejected,
        "bytes_total": row.bytes_total,
        "bytes_done": row.bytes_done,
        "bytes_per_s": row.bytes_per_s,
        "percent": row.percent,
        "eta_s": row.eta_s,
        "needs_bytes_per_s": row.needs_bytes_per_s,
        "waits_for": wait_reason.to_json(row.waits_for),
        "throttle_bytes_per_s": row.throttle_bytes_per_s,
        "producers_p99_ms": row.producers_p99_ms,
        "note": row.note,
        "note_phrase": phrase_to_json(row.note),
        "can": row.can,
    }


class LivePublisher:
    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._published: dict[object, object] = {}
        self._image = Image()
        self._broker_sums: dict[int, BrokerSums] | None = None
        """Sums over all partitions of the current image; None: not computed yet."""
        self._transition: int | None = None
        """Id of the newest published state change of a move."""
        self._running_jobs: set[int] = set()

    def image(self, image: Image, difference: Difference, metrics: MetricsCache) -> None:
        """Publish the changes of an image. Called after its projection."""
        self._image = image
        self._broker_sums = None
        for topic_id, indexes in difference.partitions.items():
            topic = image.topics.get(topic_id)
            if topic is not None:
                self._partitions(topic.name, str(topic_id), sorted(indexes), metrics)
        names = {image.topics[i].name for i in difference.topics if i in image.topics}
        if names or difference.topics_gone:
            self._topics(names, difference.topics_gone, metrics)
        if difference.brokers:
            self._brokers(metrics)

    def samples(self, changed: SampleChanges, metrics: MetricsCache) -> None:
        """Publish the changes of one round of samples."""
        by_topic: dict[str, list[int]] = {}
        for name, index in changed.offsets | changed.sizes | changed.lagging | changed.traffic:
            by_topic.setdefault(name, []).append(index)
        for name, indexes in by_topic.items():
            topic = self._image.topic_named(name)
            if topic is not None:
                self._partitions(name, str(topic.topic_id), sorted(indexes), metrics)
        if changed.topics:
            self._topics(changed.topics, [], metrics)
        self._groups(changed, metrics)
        self._share_groups(changed, metrics)
        self._brokers(metrics)

    def periodic(self) -> None:
        """Publish the overview, changes, moves and jobs. Called once per second."""
        from controlplane.models import Change
        from controlplane.selectors import overview
        from controlplane.selectors.common import as_dict

        self._publish_if_changed(
            live_events.CLUSTER,
            "cluster",
            as_dict(overview.overview()),
            ignore=("age_s", "sample_age_s", "observed_at"),
        )
        newest = Change.objects.order_by("-id").values_list("id", flat=True).first()
        pending = Change.objects.filter(outcome="pending").count()
        self._publish_if_changed(live_events.CHANGES, "changes", {"id": newest, "pending": pending})
        self._moves()
        self._jobs()

    def messages(self, latest: Mapping[str, MessageMetrics], now_ms: int) -> None:
        """Publish half messages, delayed messages and dead letters. Called once per collection."""
        if self._published.get("messages") is latest:
            return
        self._published["messages"] = latest
        shapes, thresholds = [], current_thresholds()
        for name, sampled in latest.items():
            metrics = values(sampled, now_ms)
            overdue_s = metrics.get("delayed_overdue_s")
            shape = {
                "name": name,
                "half_checks": sampled.half_checks,
                "delayed_next_at": None if sampled.delayed_next_at is None else sampled.delayed_next_at.isoformat(),
                "delayed_late": overdue_s is not None
                and overdue_s >= thresholds.value_for(ThresholdName.DELAYED_OVERDUE, name),
                **metrics,
            }
            if self._published.get(("messages", name)) != shape:
                self._published["messages", name] = shape
                shapes.append(shape)
        for key in [k for k in self._published if isinstance(k, tuple) and k[0] == "messages" and k[1] not in latest]:
            del self._published[key]
        for first in range(0, len(shapes), PARTITIONS_PER_UPDATE):
            self._hub.publish(live_events.MESSAGES, {"topics": shapes[first : first + PARTITIONS_PER_UPDATE]})

    def _moves(self) -> None:
        """Publish moves in progress, all moves with a changed state, and other changes of the newest moves (such as a planned throttle).
        A move is marked as published only after publication, so that it is read again after a database error."""
        from controlplane.models import Move, MoveTransition
        from controlplane.models.move import WORKING_STATES
        from controlplane.selectors import moves

        newest = MoveTransition.objects.order_by("-id").values_list("id", flat=True).first() or 0
        if self._transition is None:
            self._transition = newest
        changed = MoveTransition.objects.filter(id__gt=self._transition).values_list("move_id", flat=True).distinct()
        versions = dict(Move.objects.order_by("-id").values_list("id", "version")[:MOVES_FOLLOWED])
        others = Q(state__in=WORKING_STATES) | Q(pk__in=list(changed[:MOVES_FOLLOWED]))
        versions |= dict(Move.objects.filter(others).values_list("id", "version")[: 2 * MOVES_FOLLOWED])
        touched = sorted(pk for pk, version in versions.items() if self._published.get(("move", pk)) != version)
        if touched:
            rows = moves.move_rows(touched)
            standings: dict[object, object] = {("standing", r.id): (r.state, r.waits_for) for r in rows}
            listed = any(self._published.get(key) != standing for key, standing in standings.items())
            self._hub.publish(live_events.MOVES, {"moves": [move_shape(r) for r in rows], "listed": listed})
            self._published.update((("move", pk), versions[pk]) for pk in touched)
            self._published.update(standings)
        self._transition = newest

    def _jobs(self) -> None:
        """Publish the newest archive jobs, the running jobs, and the jobs that were running when they were last published."""
        from controlplane.models import ArchiveJob
        from controlplane.models.job import ArchiveState

        ended = (ArchiveState.STOPPED, ArchiveState.FAILED)
        newest = list(ArchiveJob.objects.order_by("-id").values_list("id", flat=True)[:JOBS_FOLLOWED])
        followed = ~Q(state__in=ended) | Q(pk__in=[*newest, *self._running_jobs])
        jobs = list(ArchiveJob.objects.filter(followed).order_by("-id"))
        shapes: list[live_shapes.ArchiveShape] = []
        for job in jobs:
            shape: live_shapes.ArchiveShape = {
                "id": job.pk,
                "state": job.state,
                "rows": job.rows,
                "batches": job.batches,
                "restarts": job.restarts,
                "pid": job.pid,
                "heartbeat_at": job.heartbeat_at.isoformat() if job.heartbeat_at else None,
                "note": job.note,
            }
            if self._published.get(("job", job.pk)) != shape:
                shapes.append(shape)
        if shapes:
            self._hub.publish(live_events.ARCHIVES, {"jobs": shapes})
        for shape in shapes:
            self._published["job", shape["id"]] = shape
        self._running_jobs = {j.pk for j in jobs if j.state not in ended}

    # -- shapes --------------------------------------------------------------------------------------------------------
    def _publish_if_changed(self, kind: str, key: str, data: dict[str, object], ignore: tuple[str, ...] = ()) -> None:
        current = {k: v for k, v in data.items() if k not in ignore}
        if self._published.get(key) != current:
            self._published[key] = current
            self._hub.publish(kind, data)

    def _partitions(self, name: str, topic_id: str, indexes: list[int], metrics: MetricsCache) -> None:
        topic = self._image.topic_named(name)
        if topic is None:
            return
        alive = {b.broker_id for b in self._image.live_brokers()}
        configured = min_insync(topic.configs, controller_defaults(self._image.broker_configs))
        shapes: list[live_shapes.PartitionShape] = []
        for index in indexes:
            state = topic.partitions.get(index)
            if state is None:
                continue
            start, end = metrics.offsets.get((name, index), (None, None))
            rate = metrics.traffic.partitions.get((name, index))
            leader = state.leader_id
            shapes.append(
                {
                    "index": index,
                    "leader": leader,
                    "leader_epoch": state.leader_epoch,
                    "replicas": list(state.replicas),
                    "isr": list(state.isr_ids),
                    "adding": list(state.adding),
                    "down": [b for b in state.replicas if b not in alive],
                    "min_isr": state.effective_min_insync(configured),
                    "removing": list(state.removing),
                    "start_offset": start,
                    "end_offset": end,
                    "size_bytes": metrics.size_of((name, index), state.leader),
                    "bytes_in_per_s": rate.bytes_in if rate else None,
                    "bytes_out_per_s": rate.bytes_out if rate else None,
                }
            )
        for first in range(0, len(shapes), PARTITIONS_PER_UPDATE):
            self._hub.publish(
                live_events.PARTITIONS,
                {"topic": name, "topic_id": topic_id, "partitions": shapes[first : first + PARTITIONS_PER_UPDATE]},
            )

    def _topics(self, names: set[str], gone: list[str], metrics: MetricsCache) -> None:
        from controlplane.monitoring.projection import topic_sums

        alive = {b.broker_id for b in self._image.live_brokers()}
        defaults = controller_defaults(self._image.broker_configs)
        shapes: list[live_shapes.TopicShape] = []
        for name in sorted(names):
            topic = self._image.topic_named(name)
            if topic is None:
                continue
            sums, sampled = topic_sums(topic, alive, defaults), metrics.topics.get(name)
            shapes.append(
                {
                    "name": name,
                    "partitions": sums.partition_count,
                    "under_replicated": sums.under_replicated,
                    "under_min_isr": sums.under_min_isr,
                    "offline": sums.offline,
                    "reassigning": sums.reassigning,
                    "not_preferred": sums.not_preferred,
                    "internal": sums.internal,
                    "size_bytes": sampled.size_bytes if sampled else None,
                    "size_as_of_ms": sampled.size_as_of_ms if sampled else None,
                    "records": sampled.records if sampled else None,
                    "records_per_s": sampled.records_per_s if sampled else None,
                    "bytes_in_per_s": sampled.bytes_in_per_s if sampled else None,
                    "bytes_out_per_s": sampled.bytes_out_per_s if sampled else None,
                    "replication_bytes_in_per_s": sampled.replication_bytes_in_per_s if sampled else None,
                }
            )
        if shapes or gone:
            self._hub.publish(live_events.TOPICS, {"topics": shapes, "gone": gone})

    def _brokers(self, metrics: MetricsCache) -> None:
        totals: dict[int, int] = {}
        for by_broker in metrics.sizes.values():
            for broker_id, (size, _) in by_broker.items():
                totals[broker_id] = totals.get(broker_id, 0) + size
        if self._broker_sums is None:
            self._broker_sums = broker_sums(self._image)
        shapes = [
            {
                "broker_id": i,
                "alive": s.state.alive,
                "leaders": s.leaders,
                "replicas": s.replicas,
                "replicas_out_of_sync": s.replicas_out_of_sync,
                "size_bytes": totals.get(i, 0 if metrics.replica_counts.get(i) == 0 else None),
                "total_bytes": metrics.space.get(i, (None, None))[0],
                "free_bytes": metrics.space.get(i, (None, None))[1],
                "disk_alert": _disk_alert(metrics, i),
                **dict(zip(BROKER_RATES, rates.values, strict=True) if (rates := metrics.traffic.broker(i)) else ()),
                "answered": metrics.answered.get(i),
                "cordoned": is_cordoned(s.configs),
                "leads": not leadership_disabled(s.configs),
                "replicas_on_disk": metrics.replica_counts_in_rows.get(i),
                "dirs_failed": metrics.directories.get(i, {}).get("dirs_failed", []),
                "dirs_slow": metrics.directories.get(i, {}).get("dirs_slow", []),
                "started_ms": metrics.starts.in_row(i),
                "size_as_of_ms": metrics.responded_ms.get(i)
                if not s.state.alive or metrics.answered.get(i) is False
                else None,
            }
            for i, s in sorted(self._broker_sums.items())
        ]
        self._publish_if_changed(live_events.BROKERS, "brokers", {"brokers": shapes})

    def _groups(self, changed: SampleChanges, metrics: MetricsCache) -> None:
        shapes = []
        statuses_changed = False
        for name in sorted(changed.groups):
            group = metrics.groups.get(name)
            if group is None:
                continue
            statuses_changed |= self._published.get(("status", name), group.status) != group.status
            self._published["status", name] = group.status
            shapes.append(
                {
                    "group_id": name,
                    "state": group.sample.state,
                    "member_count": len(group.sample.members),
                    "lag_records": group.lag_records,
                    "lag_ms_max": group.lag_ms_max,
                    "lag_at_least": group.lag_at_least,
                    "status": group.status.value,
                    **pace(group),
                }
            )
            owners = owners_of(group.sample)

            def shape(key: Key, partition_lag: PartitionLag) -> live_shapes.PartitionLagShape:
                member = owners.get(key)  # noqa: B023  called within this iteration
                return {
                    "topic": key[0],
                    "index": key[1],
                    "committed": group.sample.committed.get(key),  # noqa: B023
                    "end_offset": partition_lag.end,
                    "lag_records": partition_lag.records,
                    "lag_ms": None if partition_lag.age is None else partition_lag.age.ms,
                    "lag_at_least": partition_lag.age is not None and partition_lag.age.at_least,
                    "status": partition_lag.status.value,
                    "block": partition_lag.block.value,
                    "retention_in_s": None if partition_lag.forecast is None else partition_lag.forecast.in_s,
                    "client_id": member.client_id if member else "",
                }

            self._hub.publish(
                live_events.LAG, {"group_id": name, "partitions": [shape(k, v) for k, v in sorted(group.lags.items())]}
            )
        if shapes or changed.groups_gone:
            for name in changed.groups_gone:
                self._published.pop(("status", name), None)
            data = {"groups": shapes, "gone": sorted(changed.groups_gone), "statuses_changed": statuses_changed}
            self._hub.publish(live_events.GROUPS, data)

    def _share_groups(self, changed: SampleChanges, metrics: MetricsCache) -> None:
        if not changed.share_groups and not changed.share_groups_gone:
            return
        latest = metrics.share_groups.latest
        shapes = [
            _share_group(latest[name], metrics.share_lags.groups[name])
            for name in sorted(changed.share_groups)
            if name in latest
        ]
        gone = sorted(changed.share_groups_gone)
        self._hub.publish(live_events.SHARE_GROUPS, {"groups": shapes, "gone": gone, "total": len(latest)})


def _share_group(group: DescribedShareGroup, lags: ShareGroupLag) -> live_shapes.ShareGroupShape:
    def partition(x: SharePartitionOffset) -> live_shapes.SharePartitionShape:
        found = lags.partitions[x.topic, x.index]
        return {
            "topic": x.topic,
            "index": x.index,
            "start_offset": x.start,
            "lag_records": x.lag,
            "lag_ms": None if found.age is None else found.age.ms,
            "lag_at_least": found.age is not None and found.age.at_least,
            "status": found.status.value,
            "block": found.block.value,
        }

    age = lags.age
    return {
        "group_id": group.group_id,
        "state": group.state,
        "member_count": len(group.members),
        "lag_records": group.lag_records,
        "lag_ms_max": None if age is None else age.ms,
        "lag_at_least": age is not None and age.at_least,
        "status": lags.status.value,
        "partitions_unknown": group.partitions_unknown,
        "partitions": [partition(x) for x in group.offsets],
    }


def _disk_alert(metrics: MetricsCache, broker_id: int) -> str:
    total, free = metrics.space.get(broker_id, (None, None))
    return str(disk_severity(total, free, metrics.thresholds, broker_id) or "")
