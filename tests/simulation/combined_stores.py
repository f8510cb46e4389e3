"""The loads of `combined` whose topics have another way to store or to acknowledge records."""

from __future__ import annotations

from typing import Any

from tests.simulation.clients import Producer, Reader
from tests.simulation.combined_loads import RETENTIONS, Load
from tests.simulation.majority import MAJORITY
from tests.simulation.pipelined import PipelinedProducer
from tests.simulation.run import LOGS, led


class MajorityLoad(Load):
    """A topic with majority acknowledgements, with retention and growth. The rules are in `majority.MajorityChecker`."""

    kept = ("votes",)

    def create(self) -> None:
        self.topic("votes", 2, **MAJORITY, **self.world.rng.choice(LOGS))

    def begin(self, duration_s: float) -> None:
        places = [("votes", 0), ("votes", 1)]
        self.clients: list[Any] = [Producer(self.cluster, self.history, f"v{p}", t, p, 500) for t, p in places]
        self.clients.append(PipelinedProducer(self.cluster, self.history, "vq", places, 500))
        self.readers = [Reader(self.cluster, self.history, f"vr{p}", t, p) for t, p in places]

        def grown(name: str, count: int) -> None:
            if not self.clients[0].stopped:
                self.clients.append(Producer(self.cluster, self.history, f"v{count - 1}", name, count - 1, 500))
                self.readers.append(Reader(self.cluster, self.history, f"vr{count - 1}", name, count - 1))

        self.operate_topics(duration_s, self.kept, (3,), grown, {"votes": RETENTIONS})

    def finish(self) -> None:
        for reader in self.readers:
            end = led(self.cluster, reader.topic, reader.partition).core.high_watermark
            self.cluster.until(lambda r=reader, e=end: r.offset == e, 20, f"{reader.name} at the end")  # type: ignore[misc]
            reader.stopped = True

    def judge(self) -> None:
        self.history.judge(self.cluster, self.kept)
