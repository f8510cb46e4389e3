"""One seed, one queue of events, one virtual clock: nothing here happens by itself or by chance.

A node is a process: it can be killed, frozen and thawed, and its clocks can differ. What reaches a frozen node waits, and is met in the order
of an epoll turn: first what arrived, then the timers. Called by the ensemble, the network and the nodes. Must not come in: Kafka, ZooKeeper.
"""

from __future__ import annotations

import hashlib
import heapq
import random
from collections import Counter, deque
from collections.abc import Callable

from brokerd.cluster.model import Now
from brokerd.net.loop import Loop, Timer

MS = 1_000
S = 1_000_000
WALL_MS = 1_790_000_000_000
Event = Callable[[], None]


class World:
    """Time is in microseconds since the beginning. `trace` is the story; its hash tells whether two runs were the same."""

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
        self.touched: set[str] = set()
        """Names of the nodes that did something in this event."""

    def after(self, delay_us: int, event: Event) -> None:
        self._number += 1
        heapq.heappush(self._queue, (self.now_us + max(0, delay_us), self._number, event))

    def tell(self, what: str) -> None:
        line = f"{self.now_us / S:10.6f} {what}"
        self.story.append(line)
        self._hash.update(line.encode())

    @property
    def fingerprint(self) -> str:
        return self._hash.hexdigest()

    def run(self, until_us: int, stop: Callable[[], bool] = lambda: False) -> bool:
        """Let time pass; True when `stop` said so before the time was up."""
        while self._queue and self._queue[0][0] <= until_us:
            at, _, event = heapq.heappop(self._queue)
            if at - self._busy_since_us > MS:
                self._busy_since_us, self._busy = at, 0
            self._busy += 1
            if self._busy > 20_000:
                raise RuntimeError(f"time stands still at {at / S} s: something is done over and over without a pause")
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
    """A process on a machine of its own."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.life = 0
        self.alive = True
        self.frozen = False
        self.wall_skew_ms = 0
        self.on_death: list[Event] = []
        self._arrived: deque[tuple[int, Event]] = deque()
        self._due: deque[tuple[int, Event]] = deque()
        self.loop = SimLoop(self)

    def clock(self) -> Now:
        ms = self.world.now_us // MS
        return Now(1_000_000 + ms, WALL_MS + ms + self.wall_skew_ms)

    # -- what happens to it ------------------------------------------------------------------------------------------------
    def post(self, delay_us: int, event: Event, *, timer: bool = False) -> None:
        """Let `event` happen in this process, unless it has died by then."""
        life = self.life

        def due() -> None:
            if life != self.life:
                return
            if self.frozen:
                (self._due if timer else self._arrived).append((life, event))
            else:
                self.enter(event)

        self.world.after(delay_us, due)

    def enter(self, event: Event) -> None:
        self.world.current = self.name
        self.world.touched.add(self.name)
        self.loop.wake(self.clock())
        event()
        for hook in self.loop.after_turn:
            hook()

    def freeze(self) -> None:
        if self.alive and not self.frozen:
            self.frozen = True
            self.world.tell(f"{self.name} frozen")

    def thaw(self) -> None:
        if not self.frozen:
            return
        self.frozen = False
        self.world.tell(f"{self.name} thawed")
        for waiting in (self._arrived, self._due):
            while waiting:
                life, event = waiting.popleft()
                if life == self.life:
                    self.enter(event)

    def die(self) -> None:
        """kill -9."""
        self.life += 1
        self.alive = self.frozen = False
        self._arrived.clear()
        self._due.clear()
        self.world.tell(f"{self.name} killed")
        for hook in self.on_death:
            hook()
        self.on_death.clear()

    def live(self) -> None:
        self.alive = True
        self.loop = SimLoop(self)
        self.world.tell(f"{self.name} started")


class SimLoop(Loop):
    """The loop's timers in virtual time. Descriptors mean nothing here."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.now = node.clock()
        self.after_turn = []
        self.gap_ms_max = 1 << 62
        self.stood_still = lambda gap_ms: None

    def register(self, fd: int, events: int, callback: Callable[[int], None]) -> None:
        pass

    def modify(self, fd: int, events: int) -> None:
        pass

    def unregister(self, fd: int) -> None:
        pass

    def call_at(self, mono_ms: int, callback: Callable[[Now], None]) -> Timer:
        timer = Timer(callback)
        delay_us = (mono_ms - self._node.clock().mono_ms) * MS
        self._node.post(delay_us, lambda: None if timer.cancelled else timer.callback(self.now), timer=True)
        return timer

    def turn(self) -> None:
        raise AssertionError("a simulated loop is turned by its world")

    def close(self) -> None:
        pass
