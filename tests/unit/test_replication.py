"""What a follower asks of its leader: each change once, everything anew when the session is lost, and nothing it cannot vouch for."""

from __future__ import annotations

from uuid import UUID

from brokerd.cluster.model import Now, TopicPartition
from brokerd.replication import (
    FETCH_PARTITIONS_MAX,
    SESSION_LOST,
    Answered,
    AppendFetched,
    Effect,
    Failed,
    OutOfRange,
    PartitionAnswer,
    Position,
    Ready,
    Replication,
    SendFetch,
    WakeAt,
)

TPS = [TopicPartition(UUID(int=7), i) for i in range(3)]
NOT_LEADER = 6


class Follower:
    """Follows three partitions; its logs are plain numbers."""

    def __init__(self, tps: list[TopicPartition] = TPS) -> None:
        self.ends: dict[TopicPartition, int | None] = dict.fromkeys(tps, 0)
        self.ms = 1000
        self.core = Replication(self.position)
        for tp in tps:
            self.core.follow(tp, 1)

    def position(self, tp: TopicPartition) -> Position | None:
        end = self.ends[tp]
        return None if end is None else Position(end, 1, 0)

    def hears(self, event: Answered | Failed | Ready) -> list[Effect]:
        return self.core.handle(event, Now(self.ms, 0))

    def sends(self) -> SendFetch:
        (sent,) = self.hears(Ready())
        assert isinstance(sent, SendFetch)
        self.core.validate()
        return sent

    def answered(self, *answers: PartitionAnswer, session: int = 5, error: int = 0) -> list[Effect]:
        effects = self.hears(Answered(answers, error, session))
        for effect in effects:
            if isinstance(effect, AppendFetched):
                self.ends[effect.tp] = (self.ends[effect.tp] or 0) + len(effect.records)
        return effects


def records(tp: TopicPartition, count: int = 1, high_watermark: int = 0) -> PartitionAnswer:
    return PartitionAnswer(tp, 0, high_watermark, 0, b"r" * count)


def named(sent: SendFetch) -> dict[int, int]:
    return {f.tp.partition: f.position.fetch_offset for f in sent.partitions}


def test_all_are_named_once_and_then_what_changed() -> None:
    follower = Follower()
    sent = follower.sends()
    assert (named(sent), sent.session_id, sent.session_epoch) == ({0: 0, 1: 0, 2: 0}, 0, 0)
    assert not follower.hears(Ready()), "one in flight"
    follower.answered(*(records(tp, 0) for tp in TPS))
    sent = follower.sends()
    assert (named(sent), sent.session_id, sent.session_epoch) == ({}, 5, 1)
    follower.answered(records(TPS[1], 4))
    sent = follower.sends()
    assert (named(sent), sent.session_epoch) == ({1: 4}, 2)


def test_a_lost_session_is_begun_anew_at_once() -> None:
    for error in sorted(SESSION_LOST):
        follower = Follower()
        follower.sends()
        follower.answered()
        follower.sends()
        assert follower.answered(session=0, error=error) == []
        sent = follower.sends()
        assert (named(sent), sent.session_epoch) == ({0: 0, 1: 0, 2: 0}, 0), error


def test_an_answer_of_another_session_and_any_other_error_are_failures_with_a_pause() -> None:
    for session, error in ((6, 0), (0, 0), (5, 77)):
        follower = Follower()
        follower.sends()
        follower.answered()
        follower.sends()
        assert follower.answered(session=session, error=error) == [WakeAt(follower.ms + follower.core.backoff_ms)]
        assert follower.sends().session_epoch == 0


def test_an_error_of_a_full_fetch_is_no_reason_to_hurry() -> None:
    follower = Follower()
    follower.sends()
    assert follower.answered(session=0, error=70) == [WakeAt(follower.ms + follower.core.backoff_ms)]


def test_after_a_lost_connection_the_old_session_is_named_to_be_ended() -> None:
    follower = Follower()
    follower.sends()
    follower.answered()
    follower.sends()
    follower.hears(Failed())
    sent = follower.sends()
    assert (named(sent), sent.session_id, sent.session_epoch) == ({0: 0, 1: 0, 2: 0}, 5, 0)


def test_a_leader_without_sessions_is_asked_for_all_each_time() -> None:
    follower = Follower()
    for _ in range(3):
        sent = follower.sends()
        assert (len(named(sent)), sent.session_id, sent.session_epoch) == (3, 0, 0)
        follower.answered(session=0)


def test_who_follows_no_more_or_cannot_vouch_for_its_log_is_forgotten() -> None:
    follower = Follower()
    follower.sends()
    follower.answered()
    follower.core.unfollow(TPS[0])
    follower.ends[TPS[1]] = None  # not flushed yet
    follower.core.look(TPS[1])
    sent = follower.sends()
    assert named(sent) == {} and sent.forgotten == (TPS[0], TPS[1])
    follower.answered()
    follower.ends[TPS[1]] = 3
    follower.core.look(TPS[1])
    sent = follower.sends()
    assert named(sent) == {1: 3} and sent.forgotten == ()


def test_a_partition_with_an_error_waits_outside_the_session() -> None:
    follower = Follower()
    follower.sends()
    follower.answered(PartitionAnswer(TPS[2], NOT_LEADER, -1, -1, b""))
    assert follower.sends().forgotten == (TPS[2],)
    follower.answered()
    follower.ms += follower.core.backoff_ms
    assert named(follower.sends()) == {2: 0}


def test_a_refused_answer_is_asked_for_again_later() -> None:
    follower = Follower()
    follower.sends()
    follower.hears(Answered((records(TPS[0], 5),), 0, 5))
    follower.core.refused(TPS[0], Now(follower.ms, 0))
    assert follower.sends().forgotten == (TPS[0],)
    follower.answered()
    follower.ms += 1000
    assert named(follower.sends()) == {0: 0}


def test_one_followed_anew_is_named_again_even_where_it_stood() -> None:
    """An answer may have come in between, and been dropped: with the watermark that the leader believes it told."""
    follower = Follower()
    follower.sends()
    follower.answered()
    follower.sends()
    follower.core.unfollow(TPS[0])
    assert follower.answered(records(TPS[0], 0, high_watermark=9)) == []
    follower.core.follow(TPS[0], 1)
    assert named(follower.sends()) == {0: 0}


def test_an_answer_of_an_older_epoch_is_dropped_and_the_new_one_is_named() -> None:
    follower = Follower()
    follower.sends()
    follower.core.follow(TPS[0], 2)
    assert follower.answered(records(TPS[0], 5)) == []
    sent = follower.sends()
    assert [(f.tp, f.leader_epoch, f.position.fetch_offset) for f in sent.partitions] == [(TPS[0], 2, 0)]


def test_an_answer_for_a_log_that_was_cut_meanwhile_is_dropped() -> None:
    follower = Follower()
    follower.ends[TPS[0]] = 8
    follower.sends()
    follower.ends[TPS[0]] = 6
    assert follower.answered(records(TPS[0], 5)) == []
    assert named(follower.sends()) == {0: 6}


def test_out_of_range_pauses_and_names_the_new_place() -> None:
    follower = Follower()
    follower.sends()
    assert follower.answered(PartitionAnswer(TPS[0], 1, -1, 40, b"")) == [OutOfRange(TPS[0], 40)]
    follower.ends[TPS[0]] = 40
    follower.sends()
    follower.answered()
    follower.ms += follower.core.backoff_ms
    assert named(follower.sends()) == {0: 40}


def test_more_than_a_request_names_go_in_turn_and_do_not_wait() -> None:
    many = [TopicPartition(UUID(int=7), i) for i in range(FETCH_PARTITIONS_MAX + 5)]
    for session, second in ((5, 5), (0, FETCH_PARTITIONS_MAX)):
        follower = Follower(many)
        first = follower.sends()
        assert len(first.partitions) == FETCH_PARTITIONS_MAX and not first.wait
        follower.answered(session=session)
        sent = follower.sends()
        assert len(sent.partitions) == second and sent.wait == bool(session)
        assert set(named(sent)) >= set(range(FETCH_PARTITIONS_MAX, FETCH_PARTITIONS_MAX + 5)), "never their turn"


def test_nothing_to_ask_for_is_no_fetch() -> None:
    follower = Follower()
    follower.sends()
    follower.answered(*(PartitionAnswer(tp, NOT_LEADER, -1, -1, b"") for tp in TPS))
    assert follower.hears(Ready()) == [WakeAt(follower.ms + follower.core.backoff_ms)]
    follower.ms += follower.core.backoff_ms
    assert follower.sends().session_epoch == 0
