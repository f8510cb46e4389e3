"""The long run: one talk after another, the problems found, and statistics."""

from __future__ import annotations

import json
import struct
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from brokerd.cluster.model import TopicPartition
from brokerd.wire import framing
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.records import Record, build
from tests.fuzz.dialog_run import TOO_MUCH_TIME, ClientConnection, Outcome, run_dialog
from tests.fuzz.dialogs import Step, dialog_of, frame, unauthenticated_only
from tests.fuzz.reader import clients_logs, unreadable
from tests.fuzz.stage import Stage, client_context, make_pki

TALKS_PER_STAGE = 2_000
PROBE_EVERY = 50
KEPT_PER_PROBLEM = 3
SHRINK_TRIES = 60


class Run:
    def __init__(self, work: Path, found: Path) -> None:
        self._pki = make_pki(work / "pki")
        self._found, self._stats = found, work / "stats.json"
        found.mkdir(parents=True, exist_ok=True)
        self._context = client_context(self._pki)
        self.stage = Stage(self._pki)
        self.dialogs = self.unauthenticated = self.steps = self.sent = self.response_bytes = self.stages = 0
        self.cpu_s = self.cpu_s_max = 0.0
        self.peak_max = self.unauthenticated_peak_max = 0
        self.unauthenticated_cpu_s_max = 0.0
        self.rss: list[int] = []
        self.problems: Counter[str] = Counter()
        self.slow_once = 0
        """Talks that took too much CPU once, and not when they were repeated at once: the machine was slow, not the broker."""
        self.began, self._written = time.time(), 0.0

    def run_case(self, data: bytes) -> None:
        steps = dialog_of(data)
        ends = self._end_offsets()
        outcome = run_dialog(self.stage, steps, self._context)
        if (
            TOO_MUCH_TIME in outcome.problems
            and TOO_MUCH_TIME not in run_dialog(self.stage, steps, self._context).problems
        ):
            self.slow_once += 1
            del outcome.problems[TOO_MUCH_TIME]
        outcome.problems.update(self._unreadable(ends))
        self._count(steps, outcome)
        if self.dialogs % PROBE_EVERY == 0 and (trouble := self._service_problem()) is not None:
            outcome.problems["the broker no longer serves"] = trouble
        for name, text in outcome.problems.items():
            self.problems[name] += 1
            if self.problems[name] <= KEPT_PER_PROBLEM:
                self._keep(name, text, steps)
        if outcome.problems or self.dialogs % TALKS_PER_STAGE == 0:
            self.restart_stage()
        if time.time() - self._written > 5:
            self.write()

    def _end_offsets(self) -> dict[TopicPartition, int]:
        return {r.tp: r.log.end_offset for r in clients_logs(self.stage.broker)}

    def _unreadable(self, ends: Mapping[TopicPartition, int]) -> dict[str, str]:
        """Batches written since `ends` that no consumer could read."""
        for replica in clients_logs(self.stage.broker):
            if (reason := unreadable(replica, ends.get(replica.tp, 0))) is not None:
                return {"accepted and unreadable": f"{replica.tp}: {reason}"}
        return {}

    def restart_stage(self) -> None:
        self.stage.close()
        self.stage = Stage(self._pki)
        self.stages += 1
        self.rss.append(_resident())

    def _count(self, steps: list[Step], outcome: Outcome) -> None:
        unauthenticated = unauthenticated_only(steps)
        self.dialogs += 1
        self.unauthenticated += unauthenticated
        self.steps += len(steps)
        self.sent += sum(len(s[2]) // 2 for s in steps if len(s) > 2)
        self.response_bytes += outcome.response_bytes
        self.cpu_s += outcome.cpu_s
        self.cpu_s_max, self.peak_max = max(self.cpu_s_max, outcome.cpu_s), max(self.peak_max, outcome.peak_bytes)
        if unauthenticated:
            self.unauthenticated_cpu_s_max = max(self.unauthenticated_cpu_s_max, outcome.cpu_s)
            self.unauthenticated_peak_max = max(self.unauthenticated_peak_max, outcome.peak_bytes)

    def _service_problem(self) -> str | None:
        """Why the broker no longer serves a correct client; None if it does."""
        client = ClientConnection(self.stage, "PLAINTEXT", None)
        r = m.ProduceRequest
        data = build([Record(0, 1, b"k", b"well")])
        topic = r.TopicProduceData(name="plain", partition_data=[r.PartitionProduceData(index=0, records=data)])
        client.send(frame(ApiKey.PRODUCE, 9, r(acks=-1, timeout_ms=1_000, topic_data=[topic])))
        client.sock.setblocking(False)
        response = b""
        for _ in range(200):
            self.stage.run_iteration()
            try:
                response += client.sock.recv(65_536)
            except BlockingIOError:
                continue
            if len(response) >= 4 and len(response) >= 4 + struct.unpack_from(">i", response)[0]:
                break
        else:
            self.stage.pass_time(20)
            return "a produce request is not answered"
        client.close()
        self.stage.run_iteration(3)
        reported = framing.decode_response(ApiKey.PRODUCE, 9, memoryview(response[4:]))[1]
        code = reported.responses[0].partition_responses[0].error_code
        return None if code == 0 else f"a produce request is answered with {code}"

    def _keep(self, name: str, text: str, steps: list[Step]) -> None:
        steps = self._smaller(name, steps)
        slug = "".join(c if c.isalnum() else "-" for c in name)[:60].strip("-")
        path = self._found / f"{slug}-{self.problems[name]}.json"
        path.write_text(json.dumps({"problem": name, "report": text[-4_000:], "steps": steps}, indent=1))
        print(f"found: {name} ({path.name})\n{text[-1_500:]}", flush=True)

    def _smaller(self, name: str, steps: list[Step]) -> list[Step]:
        """Removes the steps that the problem does not need; each attempt uses its own stage."""

        def still_fails(fewer: list[Step]) -> bool:
            self.restart_stage()
            return name in run_dialog(self.stage, fewer, self._context).problems

        if not still_fails(steps):
            return steps  # the problem needs earlier dialogs
        at, tries = len(steps) - 1, 0
        while at >= 0 and tries < SHRINK_TRIES:
            if not steps[at][0].startswith("open"):
                tries += 1
                fewer = steps[:at] + steps[at + 1 :]
                if still_fails(fewer):
                    steps = fewer
            at -= 1
        return steps

    def write(self) -> None:
        self._written = time.time()
        self._stats.write_text(
            json.dumps(
                {
                    "seconds": round(time.time() - self.began),
                    "dialogs": self.dialogs,
                    "unauthenticated only": self.unauthenticated,
                    "steps": self.steps,
                    "bytes sent": self.sent,
                    "bytes answered": self.response_bytes,
                    "stages": self.stages,
                    "CPU s per talk": round(self.cpu_s / max(1, self.dialogs), 5),
                    "CPU s of the longest": round(self.cpu_s_max, 2),
                    "CPU s of the longest, unauthenticated": round(self.unauthenticated_cpu_s_max, 2),
                    "MiB of the largest": self.peak_max >> 20,
                    "KiB of the largest, unauthenticated": self.unauthenticated_peak_max >> 10,
                    "MiB resident at each tenth new stage": [r >> 20 for r in self.rss[::10]],
                    "slow one time, not when repeated": self.slow_once,
                    "problems": self.problems,
                },
                indent=1,
            )
        )


def _resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
