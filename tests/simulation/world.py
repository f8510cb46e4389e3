"""One seed, one queue of events, one virtual clock: everything is deterministic.

A node is a process: it can be killed, frozen and thawed, and its clocks can differ. An iteration of its event loop may cost time (`World.spend`): the
process is busy until then. Events for a frozen or busy node wait and are handled in the order of an epoll iteration: first what arrived, then timers. Does
not contain Kafka or ZooKeeper.
"""

from __future__ import annotations

import hashlib
import heapq
import random
from collections import Counter, deque
from collections.abc import Callable

from brokerd.cluster.model import Now
from brokerd.net.fair_scheduler import FairScheduler
from brokerd.net.loop import Loop, Timer

MS = 1_000
S = 1_000_000
WALL_MS, MONO_MS = 1_790_000_000_000, 1_000_000
"""The clocks at the start."""
PPM = 1_000_000
Event = Callable[[], None]


class World:
    """Time is in microseconds since the start. `story` is the trace; equal hashes of it mean equal runs."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.now_us = 0
        self.reached: Counter[str] = Counter()
        self.story: deque[str] = deque(maxlen=3000)
        self.events = self.faults = 0
        self._hash = hashlib.blake2b(digest_size=16)
        self._queue: list[tuple[int, int, Event]] = []
        self._number = 0
        self._busy_since_us = self._busy = 0
        self.watchers: list[Event] = []
        """Checkers, called after every event."""
        self.current = ""
        """Name of the node that acted last."""
        self.spent_us = 0
        """Cost of the current loop iteration so far: its messages leave that much later, and its process is busy until then."""
        self.turning = False
        self.touched: set[str] = set()
        """Names of the nodes that were active in this event."""

    def after(self, delay_us: int, event: Event) -> None:
        self._number += 1
        heapq.heappush(self._queue, (self.now_us + max(0, delay_us), self._number, event))

    @property
    def moment_us(self) -> int:
        """The current time within a loop iteration."""
        return self.now_us + self.spent_us

    def spend(self, us: int) -> None:
        if self.turning:
            self.spent_us += us

    def deliver(self, what: str) -> None:
        line = f"{self.now_us / S:10.6f} {what}"
        self.story.append(line)
        self._hash.update(line.encode())

    @property
    def fingerprint(self) -> str:
        return self._hash.hexdigest()

    def run(self, until_us: int, stop: Callable[[], bool] = lambda: False) -> bool:
        """Runs events until the time is reached. True if `stop` returned true before."""
        while self._queue and self._queue[0][0] <= until_us:
            at, _, event = heapq.heappop(self._queue)
            if at - self._busy_since_us > MS:
                self._busy_since_us, self._busy = at, 0
            self._busy += 1
            if self._busy > 20_000:
                raise RuntimeError(f"time stands still at {at / S} s: an event repeats without a pause")
            self.now_us = at
            self.events += 1
            self.touched.clear()
            event()
            for watcher in self.watchers:
                watcher()
            if stop():
                return True
        self.now_us = max(self.now_us, until_us)
        return False

    def between(self, low_us: int, high_us: int) -> int:
        return self.rng.randint(low_us, high_us)

    def chance(self, share: float) -> bool:
        return self.rng.random() < share


class Node:
    """A process on its own machine."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.life = 0
        self.alive = True
        self.frozen = False
        self.wall_skew_ms = 0
        self.drift_ppm = 0
        """Its monotonic clock is that much faster than the others, in parts per million."""
        self.on_death: list[Event] = []
        self._arrived: deque[tuple[int, Event]] = deque()
        self._due: deque[tuple[int, Event]] = deque()
        self._turn: deque[tuple[int, Event]] = deque()
        """The rest of the current loop iteration: what had arrived at its start, then the timers that were due."""
        self.busy_until_us = 0
        self._resumes = False
        self.loop = SimLoop(self)

    def clock(self) -> Now:
        ms = self.world.now_us // MS
        mono_ms = self.world.now_us * (PPM + self.drift_ppm) // (PPM * MS) if self.drift_ppm else ms
        return Now(MONO_MS + mono_ms, WALL_MS + ms + self.wall_skew_ms)

    def us_until(self, mono_ms: int) -> int:
        """Microseconds until the monotonic clock shows this time."""
        if not self.drift_ppm:
            return (mono_ms - self.clock().mono_ms) * MS
        return -(-(mono_ms - MONO_MS) * MS * PPM // (PPM + self.drift_ppm)) - self.world.now_us

    # -- faults and events ------------------------------------------------------------------------------------------------
    def post(self, delay_us: int, event: Event, *, timer: bool = False) -> None:
        """Runs `event` in this process, unless it has died by then."""
        life = self.life

        def run_or_queue() -> None:
            if life != self.life:
                return
            # Also when others wait for an iteration that starts at this moment: the order of arrival is the order of a connection.
            if self.frozen or self._turn or self._arrived or self._due or self.world.now_us < self.busy_until_us:
                (self._due if timer else self._arrived).append((life, event))
                self._resume_later()
            else:
                self.enter(event)

        self.world.after(delay_us, run_or_queue)

    def request_us(self, size: int) -> int:
        """The cost of a request of this size for the process, before the cost of its handler."""
        return 0

    def _resume_later(self) -> None:
        if not self._resumes and not self.frozen:
            self._resumes = True
            life = self.life
            self.world.after(
                self.busy_until_us - self.world.now_us, lambda: self._resume() if life == self.life else None
            )

    def _resume(self) -> None:
        self._resumes = False
        while not self.frozen:
            if not self._turn:
                self._turn += self._arrived
                self._turn += self._due
                self._arrived.clear()
                self._due.clear()
                if not self._turn:
                    return
            if self.world.now_us < self.busy_until_us:
                self._resume_later()
                return
            life, event = self._turn.popleft()
            if life == self.life:
                self.enter(event)

    def enter(self, event: Event) -> None:
        self.world.current = self.name
        self.world.touched.add(self.name)
        world, outer = self.world, (self.world.turning, self.world.spent_us)
        world.turning, world.spent_us = True, 0
        try:
            self.loop.wake(self.clock())
            event()
            self.loop.scheduler.run()
            if self.loop.scheduler.pending:
                self.post(0, lambda: None)  # the next iteration
            for hook in self.loop.after_iteration:
                hook()
        finally:
            spent_us = world.spent_us
            self.busy_until_us = max(self.busy_until_us, world.now_us) + spent_us
            world.turning, world.spent_us = outer
        if spent_us:
            self.on_iteration(spent_us)

    def on_iteration(self, spent_us: int) -> None:
        """Called after each loop iteration with its cost."""

    def freeze(self) -> None:
        if self.alive and not self.frozen:
            self.frozen = True
            self.world.deliver(f"{self.name} frozen")

    def resume(self) -> None:
        if not self.frozen:
            return
        self.frozen = False
        self.world.deliver(f"{self.name} thawed")
        self._resume()

    def crash(self) -> None:
        """kill -9."""
        self.life += 1
        self.alive = self.frozen = False
        self._arrived.clear()
        self._due.clear()
        self._turn.clear()
        self._resumes = False
        self.busy_until_us = 0
        self.world.deliver(f"{self.name} killed")
        for hook in self.on_death:
            hook()
        self.on_death.clear()

    def live(self) -> None:
        self.alive = True
        self.loop = SimLoop(self)
        self.world.deliver(f"{self.name} started")


class SimLoop(Loop):
    """The event loop's timers in virtual time. File descriptors are ignored."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.scheduler = FairScheduler(lambda: node.world.moment_us / S)
        self._callbacks_done = 0
        self.now = node.clock()
        self.after_iteration = []
        self.watch_gaps(1 << 62, lambda gap_ms: None)

    def register(self, fd: int, events: int, callback: Callable[[int], None]) -> None:
        pass

    def modify(self, fd: int, events: int) -> None:
        pass

    def unregister(self, fd: int) -> None:
        pass

    def call_at(self, mono_ms: int, callback: Callable[[Now], None]) -> Timer:
        timer = Timer(callback)
        delay_us = self._node.us_until(mono_ms)
        self._node.post(delay_us, lambda: None if timer.cancelled else timer.callback(self.now), timer=True)
        return timer

    def run_iteration(self) -> None:
        raise AssertionError("a simulated loop is turned by its world")

    def close(self) -> None:
        pass
