"""The job `replay`: rows of a table back into a topic, by time, key or filter. Does not contain: transactions (`pipeline.lake.replaying`)."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import ClassVar

from pipeline.jobs.base import Job, ReportTable, RunContext
from pipeline.lake.archiving import existing_table
from pipeline.lake.replaying import REPLAYED_DDL, PartitionReplayer, TableReplay
from pipeline.lake.tables import positions
from pipeline.source import Settings, SourceCluster
from weir_common.files import replace_text


@dataclass(frozen=True)
class ReplayToTopic(Job):
    name: ClassVar[str] = "replay"

    table: str
    topics: list[str]
    since: str
    until: str
    key: str
    where: str
    keeps_partition: bool

    def run(self, context: RunContext) -> None:
        if len(self.topics) != 1:
            raise ValueError("a replay has one target topic")
        replay = self._replay(context)
        replay.condition()
        options = {**context.kafka_options(), "subscribe": replay.topic}
        settings = Settings.parse(options, streaming=False)
        partitions = sorted(replay.ends)
        there = SourceCluster(settings).partitions()[replay.topic]
        if self.keeps_partition and (lacking := set(partitions) - set(there)):
            raise ValueError(
                f"topic {replay.topic} has no partition {min(lacking)}; add partitions, or do not keep the partition of the records"
            )
        client = {k: v for k, v in settings.client.items() if not k.startswith("isolation.")}
        replayer = PartitionReplayer(context.lake, replay, client)
        frame = (
            context.spark().createDataFrame([(p,) for p in partitions], "partition int").repartition(len(partitions))
        )
        found = frame.mapInArrow(lambda batches: replayer(batches), REPLAYED_DDL).collect()
        rows = sorted((r["partition"], r["records"]) for r in found)
        context.update_status(rows=sum(n for _, n in rows), batches=1)
        context.report(ReportTable(f"Replayed to {replay.topic}", ("partition of the table", "records"), rows))

    def _replay(self, context: RunContext) -> TableReplay:
        """The replay of this run: its ends are fixed at the first start."""
        path = context.folder / "replay.json"
        if not path.exists():
            table = existing_table(context.lake.open(), self.table)
            if table is None:
                raise ValueError(f"the lake has no table {self.table}")
            replay = TableReplay(
                context.run.name,
                self.table,
                self.topics[0],
                positions(table),
                self.since,
                self.until,
                self.key,
                self.where,
                self.keeps_partition,
            )
            replace_text(path, json.dumps(asdict(replay)))
        values = json.loads(path.read_text())
        return TableReplay(**{**values, "ends": {int(p): o for p, o in values["ends"].items()}})
