"""Exactly-once transfer under leader changes, lost and late responses, zombies and lost target records, against a model of the target partition."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from brokerd.delivery import transfer as t
from brokerd.delivery.journal import (
    Confirmation,
    JournalEntry,
    ProducerIdentity,
    TransferEntry,
    replay,
)
from brokerd.wire.errors import ErrorCode as E

PRODUCER = ProducerIdentity(7, 0)


class Target:
    """A target partition: sequence numbers as in Kafka, with a window of five batches. `records`: the offsets it has received."""

    def __init__(self) -> None:
        self.batches: list[TransferEntry] = []

    @property
    def records(self) -> list[int]:
        return [offset for b in self.batches for offset in b.offsets]

    def receive(self, entry: TransferEntry) -> E:
        if not self.batches:
            self.batches.append(entry)
            return E.NONE
        last = self.batches[-1]
        if entry.producer.epoch < last.producer.epoch:
            return E.INVALID_PRODUCER_EPOCH
        if entry.producer.epoch > last.producer.epoch:
            if entry.base_sequence:
                return E.OUT_OF_ORDER_SEQUENCE_NUMBER
        elif entry in self.batches[-5:]:
            return E.NONE
        elif entry.base_sequence != last.next_sequence:
            return E.OUT_OF_ORDER_SEQUENCE_NUMBER
        self.batches.append(entry)
        return E.NONE


class World:
    """One front partition with several leaders in succession. Requests to the target arrive late, twice or never; responses, too."""

    def __init__(self, seed: int) -> None:
        self.rng, self.now_ms = random.Random(seed), 0
        self.target, self.transfer = Target(), t.Transfer()
        self.journal: list[JournalEntry] = []
        self.replicated = 0
        self.base = 0
        """Journal entries that the current leader found."""
        self.requests: list[tuple[t.Transfer, t.Send]] = []
        self.responses: list[tuple[t.Transfer, t.BatchResponseReceived]] = []
        self.pending = list(range(100))
        self.blocked: list[E] = []
        self.lead()

    def lead(self) -> None:
        """A new leader has what was replicated, and nothing else."""
        del self.journal[self.replicated :]
        self.base = len(self.journal)
        state = replay(self.journal, 0, t.OPEN_MAX)
        self.pending = [o for o in range(100) if o not in state.transferred]
        self.transfer = t.Transfer()
        self.run(t.BeginTransfer(state, PRODUCER))

    def run(self, event: t.TransferEvent) -> None:
        for effect in self.transfer.handle(event, self.now_ms):
            if isinstance(effect, t.AppendJournal):
                self.journal += effect.entries
            elif isinstance(effect, t.Send):
                self.requests.append((self.transfer, effect))
            elif isinstance(effect, t.Transferred):
                assert set(effect.offsets) <= set(self.target.records)
            else:
                self.blocked.append(effect.error)
        self.transfer.validate()

    def select(self) -> None:
        if self.pending and self.transfer.capacity:
            size = self.rng.randint(1, 4)
            offsets, self.pending = tuple(self.pending[:size]), self.pending[size:]
            self.run(t.Select(offsets))

    def replicate(self) -> None:
        if self.replicated < len(self.journal):
            # Entries of one append are one batch, so they are replicated together.
            self.replicated = len(self.journal)
            self.run(t.JournalReplicated(self.replicated - self.base))

    def deliver(self, *, twice: bool = False) -> None:
        """A connection keeps the order of its requests. A request that is sent twice stays in the network."""
        if self.requests:
            sender, send = self.requests[0] if twice else self.requests.pop(0)
            self.responses.append((sender, t.BatchResponseReceived(send.number, self.target.receive(send.entry))))

    def respond(self) -> None:
        if self.responses:
            to, response = self.responses.pop(self.rng.randrange(len(self.responses)))
            if to is self.transfer:
                self.run(response)

    def pass_time(self, ms: int) -> None:
        self.now_ms += ms
        self.run(t.TransferTick())

    def lose_request(self) -> None:
        if self.requests:
            sender, send = self.requests.pop(0)
            self.responses.append((sender, t.BatchResponseReceived(send.number, E.REQUEST_TIMED_OUT)))

    def lose_response(self) -> None:
        if self.responses:
            to, response = self.responses.pop()
            self.responses.append((to, t.BatchResponseReceived(response.number, E.NETWORK_EXCEPTION)))

    def run_until_idle(self) -> None:
        for _ in range(3_000):
            if not self.pending and not self.requests and not self.responses and self.transfer.wake_at_ms is None:
                break
            self.select()
            self.replicate()
            self.deliver()
            self.respond()
            self.pass_time(50)


@pytest.mark.parametrize("seed", range(300))
def test_each_record_is_transferred_once_over_leader_changes_and_lost_messages(seed: int) -> None:
    world = World(seed)
    steps = [world.select, world.replicate, world.deliver, world.respond, world.lose_request, world.lose_response]
    for _ in range(400):
        step = world.rng.choice(steps)
        if world.rng.random() < 0.03:
            world.lead()
        elif world.rng.random() < 0.1:
            world.deliver(twice=True)
        else:
            step()
        world.pass_time(world.rng.choice((0, 1, 150)))
    world.run_until_idle()
    assert sorted(world.target.records) == list(range(100))
    assert isinstance(world.journal[-1], Confirmation)


@pytest.mark.parametrize("seed", range(50))
def test_records_are_transferred_in_the_selected_order_while_no_leader_changes(seed: int) -> None:
    world = World(seed)
    for _ in range(300):
        world.rng.choice([world.select, world.replicate, world.deliver, world.respond, world.lose_request])()
        world.pass_time(20)
    world.run_until_idle()
    assert world.target.records == list(range(100))


def test_records_that_an_unclean_election_lost_are_no_obstacle_and_unacknowledged_ones_are_sent_again() -> None:
    world = World(1)
    for _ in range(30):
        world.select()
        world.replicate()
        world.deliver()
        world.respond()
    lost = world.target.batches[-3:]
    del world.target.batches[-3:]
    world.run_until_idle()
    gone = {o for b in lost for o in b.offsets}
    records = world.target.records
    assert len(records) == len(set(records)) and set(range(100)) - set(records) <= gone
    assert world.target.batches[-1].producer.epoch > 0


def test_an_entry_that_is_not_replicated_is_not_sent() -> None:
    world = World(2)
    world.select()
    assert world.journal and not world.requests
    world.replicate()
    assert [send.entry for _, send in world.requests] == world.journal


def test_a_new_leader_repeats_unconfirmed_entries_unchanged_and_no_confirmed_ones() -> None:
    world = World(3)
    world.select()
    world.replicate()
    (first,) = world.journal
    world.lead()
    assert [send.entry for _, send in world.requests][-1] == first
    world.run_until_idle()
    world.replicate()
    world.lead()
    assert not world.requests


def test_a_permanent_rejection_is_reported_and_blocks_later_records() -> None:
    world = World(4)
    world.select()
    world.replicate()
    (_, send), *_ = world.requests
    world.run(t.BatchResponseReceived(send.number, E.MESSAGE_TOO_LARGE))
    assert world.blocked == [E.MESSAGE_TOO_LARGE]
    world.requests.clear()
    world.pass_time(t.RETRY_MS)
    assert [s.entry for _, s in world.requests] == [send.entry]


def test_at_most_five_entries_are_open() -> None:
    world = World(5)
    for _ in range(20):
        world.select()
    assert world.transfer.capacity == 0 and len(world.journal) == t.OPEN_MAX


def test_a_leader_that_resigned_does_nothing() -> None:
    world = World(6)
    world.select()
    world.run(t.Resign())
    world.run(t.JournalReplicated(1))
    assert not world.requests and not world.transfer.capacity and world.transfer.wake_at_ms is None


def offsets_of(entries: Iterable[TransferEntry]) -> list[int]:
    return [o for e in entries for o in e.offsets]


def test_a_deleted_record_proves_that_its_entry_was_acknowledged() -> None:
    entries = [TransferEntry(PRODUCER, i, (i,)) for i in range(4)]
    assert offsets_of(replay(entries, 2, 5).unconfirmed) == [2, 3]
    assert offsets_of(replay(entries, 0, 3).unconfirmed) == [1, 2, 3]
    state = replay([*entries, Confirmation(PRODUCER, 4)], 0, 5)
    assert (state.unconfirmed, state.next_sequence, state.transferred) == ((), 4, frozenset(range(4)))


def test_one_entry_is_sent_at_a_time() -> None:
    world = World(7)
    for _ in range(3):
        world.select()
        world.replicate()
    assert len(world.requests) == 1
    world.deliver()
    world.respond()
    assert len(world.requests) == 1
