import pytest

from engine.identity.keys import Identity
from engine.signaling.envelope import (
    CLOCK_SKEW_SECONDS,
    LIFETIME_SECONDS,
    make_answer,
    make_call,
    make_offer,
    seal_description,
)
from engine.signaling.machine import (
    CALL_SPACING_SECONDS,
    FIRST_RETRY_SECONDS,
    LONGEST_RETRY_SECONDS,
    STABLE_SECONDS,
    Abandon,
    Action,
    IntroductionMachine,
    MakeAnswer,
    MakeCall,
    MakeOffer,
    Phase,
    SendPayload,
    UseAnswer,
)
from engine.signaling.messages import Offer, SignalingError, SignedEnvelope, decode_envelope, encode_envelope
from tests.helpers.introductions import FINGERPRINT, identities, sdp_text

RUN = b"r" * 32
WALL = 1_800_000_000.0
SMALL, LARGE, OTHER = identities(3)
OFFER_SDP, ANSWER_SDP = sdp_text(), sdp_text(setup="active")


def machine(identity: Identity, run: bytes = RUN) -> IntroductionMachine:
    return IntroductionMachine(identity, run, connect_timeout_seconds=20.0)


def only(actions: list[Action]) -> Action:
    assert len(actions) == 1
    return actions[0]


def payload_of(actions: list[Action]) -> bytes:
    action = only(actions)
    assert isinstance(action, SendPayload)
    return action.payload


class Pair:
    """Two machines; `now` is the same for both."""

    def __init__(self) -> None:
        self.small, self.large = machine(SMALL), machine(LARGE)
        self.offer_attempt = self.answer_attempt = 0

    def offer(self, now: float = 0.0, nonce: bytes = b"1" * 16, wall: float = WALL) -> bytes:
        self.large.on_joined((SMALL.peer_id,), now)
        action = only(self.small.on_joined((LARGE.peer_id,), now))
        assert isinstance(action, MakeOffer)
        self.offer_attempt = action.attempt
        return payload_of(self.small.on_local_sdp(LARGE.peer_id, action.attempt, OFFER_SDP, nonce, wall))

    def answer(self, offer: bytes, now: float = 0.0, nonce: bytes = b"2" * 16) -> bytes:
        action = only(self.large.on_envelope(SMALL.peer_id, offer, now, WALL))
        assert isinstance(action, MakeAnswer)
        assert action.transport.fingerprints == (("sha-256", FINGERPRINT),)
        self.answer_attempt = action.attempt
        return payload_of(self.large.on_local_sdp(SMALL.peer_id, action.attempt, ANSWER_SDP, nonce, WALL))

    def connect(self, now: float = 0.0) -> None:
        answer = self.answer(self.offer(now), now)
        action = only(self.small.on_envelope(LARGE.peer_id, answer, now, WALL))
        assert isinstance(action, UseAnswer)
        self.small.on_up(LARGE.peer_id, self.offer_attempt, now)
        self.large.on_up(SMALL.peer_id, self.answer_attempt, now)


def test_an_introduction_from_beginning_to_end() -> None:
    pair = Pair()
    pair.connect()
    assert pair.small.phase(LARGE.peer_id) is Phase.UP
    assert pair.large.phase(SMALL.peer_id) is Phase.UP
    assert pair.small.wake_at() is None
    assert pair.large.wake_at() is None


def test_only_the_smaller_id_offers() -> None:
    assert machine(LARGE).on_joined((SMALL.peer_id,), 0.0) == []
    assert isinstance(only(machine(SMALL).on_joined((LARGE.peer_id,), 0.0)), MakeOffer)


def test_nobody_offers_to_themselves() -> None:
    assert machine(SMALL).on_joined((SMALL.peer_id,), 0.0) == []


def test_an_offer_from_the_larger_id_is_refused() -> None:
    offer = make_offer(LARGE, SMALL.peer_id, RUN, b"1" * 16, OFFER_SDP, WALL)
    with pytest.raises(SignalingError, match="larger peer id"):
        machine(SMALL).on_envelope(LARGE.peer_id, seal_description(offer, LARGE)[0], 0.0, WALL)


def test_a_swapped_fingerprint_breaks_the_signature() -> None:
    pair = Pair()
    envelope, offer = decode_envelope(pair.offer())
    swapped = envelope.payload.replace(FINGERPRINT.encode(), b":".join([b"CD"] * 32))
    assert swapped != envelope.payload
    forged = encode_envelope(SignedEnvelope(payload=swapped, signature=envelope.signature))
    with pytest.raises(SignalingError, match="signature of the offer is not its sender's"):
        pair.large.on_envelope(SMALL.peer_id, forged, 0.0, WALL)
    assert pair.large.phase(SMALL.peer_id) is Phase.IDLE
    assert isinstance(offer, Offer)


def test_an_envelope_signed_by_another_is_refused() -> None:
    offer = make_offer(SMALL, LARGE.peer_id, RUN, b"1" * 16, OFFER_SDP, WALL)
    payload, _ = seal_description(offer, OTHER)
    with pytest.raises(SignalingError, match="signature"):
        machine(LARGE).on_envelope(SMALL.peer_id, payload, 0.0, WALL)


def test_a_room_that_misattributes_is_refused() -> None:
    pair = Pair()
    with pytest.raises(SignalingError, match="from another peer than the room does"):
        pair.large.on_envelope(OTHER.peer_id, pair.offer(), 0.0, WALL)


def test_an_envelope_for_another_peer_is_refused() -> None:
    with pytest.raises(SignalingError, match="addressed to another peer"):
        machine(OTHER).on_envelope(SMALL.peer_id, Pair().offer(), 0.0, WALL)


def test_another_run_is_refused_with_both_hashes() -> None:
    with pytest.raises(SignalingError, match="is for project 7272727272727272, this computer trains 7878787878787878"):
        machine(LARGE, b"x" * 32).on_envelope(SMALL.peer_id, Pair().offer(), 0.0, WALL)


def test_a_repeated_offer_is_refused_and_changes_nothing() -> None:
    pair = Pair()
    offer = pair.offer()
    pair.answer(offer)
    with pytest.raises(SignalingError, match="repeated"):
        pair.large.on_envelope(SMALL.peer_id, offer, 1.0, WALL + 1.0)
    assert pair.large.phase(SMALL.peer_id) is Phase.CONNECTING


@pytest.mark.parametrize("late", [0.0, LIFETIME_SECONDS, LIFETIME_SECONDS + CLOCK_SKEW_SECONDS])
def test_an_offer_in_time_is_taken(late: float) -> None:
    assert machine(LARGE).on_envelope(SMALL.peer_id, Pair().offer(), 0.0, WALL + late)


def test_an_expired_offer_is_refused() -> None:
    late = WALL + LIFETIME_SECONDS + CLOCK_SKEW_SECONDS + 1.0
    with pytest.raises(SignalingError, match="expired 121 seconds ago"):
        machine(LARGE).on_envelope(SMALL.peer_id, Pair().offer(), 0.0, late)


def test_an_offer_from_the_future_is_refused() -> None:
    with pytest.raises(SignalingError, match="clock 121 seconds ahead"):
        machine(LARGE).on_envelope(SMALL.peer_id, Pair().offer(), 0.0, WALL - CLOCK_SKEW_SECONDS - 1.0)


def test_an_answer_to_another_offer_is_refused() -> None:
    pair = Pair()
    pair.offer()
    stray = make_offer(SMALL, LARGE.peer_id, RUN, b"9" * 16, OFFER_SDP, WALL)
    answer = make_answer(LARGE, stray, b"h" * 32, b"2" * 16, ANSWER_SDP, WALL)
    with pytest.raises(SignalingError, match="refers to another offer"):
        pair.small.on_envelope(LARGE.peer_id, seal_description(answer, LARGE)[0], 0.0, WALL)
    assert pair.small.phase(LARGE.peer_id) is Phase.OFFERED


def test_an_answer_to_nothing_is_refused() -> None:
    stray = make_offer(SMALL, LARGE.peer_id, RUN, b"9" * 16, OFFER_SDP, WALL)
    answer = make_answer(LARGE, stray, b"h" * 32, b"2" * 16, ANSWER_SDP, WALL)
    with pytest.raises(SignalingError, match="came to no offer"):
        machine(SMALL).on_envelope(LARGE.peer_id, seal_description(answer, LARGE)[0], 0.0, WALL)


@pytest.mark.parametrize(("kind", "setup"), [("offer", "active"), ("answer", "actpass")])
def test_the_dtls_role_fits_the_kind(kind: str, setup: str) -> None:
    offer = make_offer(SMALL, LARGE.peer_id, RUN, b"1" * 16, sdp_text(setup=setup), WALL)
    answer = make_answer(LARGE, offer, b"h" * 32, b"1" * 16, sdp_text(setup=setup), WALL)
    sender, receiver = (SMALL, LARGE) if kind == "offer" else (LARGE, SMALL)
    payload, _ = seal_description(offer if kind == "offer" else answer, sender)
    with pytest.raises(SignalingError, match=f"the {kind} has the DTLS role {setup}"):
        machine(receiver).on_envelope(sender.peer_id, payload, 0.0, WALL)


@pytest.mark.parametrize("payload", [b"", b"\x00", b"garbage", bytes(50_000)])
def test_garbage_is_refused(payload: bytes) -> None:
    with pytest.raises(SignalingError):
        machine(LARGE).on_envelope(SMALL.peer_id, payload, 0.0, WALL)


def test_no_answer_means_another_offer_later() -> None:
    pair = Pair()
    pair.offer()
    assert pair.small.wake_at() == 20.0
    assert pair.small.on_tick(19.9) == []
    assert only(pair.small.on_tick(20.0)) == Abandon(LARGE.peer_id, 1, "no connection within 20 seconds")
    retry_at = pair.small.wake_at()
    assert retry_at is not None
    assert 20.0 + 0.75 * FIRST_RETRY_SECONDS <= retry_at <= 20.0 + 1.25 * FIRST_RETRY_SECONDS
    assert only(pair.small.on_tick(retry_at)) == MakeOffer(LARGE.peer_id, 2)


def test_retries_slow_down_to_a_limit() -> None:
    small, now, waits = machine(SMALL), 0.0, []
    action = only(small.on_joined((LARGE.peer_id,), now))
    for _ in range(12):
        assert isinstance(action, MakeOffer)
        small.on_failed(LARGE.peer_id, action.attempt, now)
        wake_at = small.wake_at()
        assert wake_at is not None
        waits.append(wake_at - now)
        now = wake_at
        action = only(small.on_tick(now))
    assert waits[0] <= 1.25 * FIRST_RETRY_SECONDS
    assert waits[5] > 10 * waits[0]
    assert max(waits) <= 1.25 * LONGEST_RETRY_SECONDS


def test_a_link_that_held_starts_its_retries_afresh() -> None:
    pair = Pair()
    pair.connect()
    for held, limit in ((1.0, 1.25), (1.0, 2.5), (STABLE_SECONDS, 1.25)):
        pair.small.on_up(LARGE.peer_id, pair.offer_attempt, 100.0)
        pair.small.on_failed(LARGE.peer_id, pair.offer_attempt, 100.0 + held)
        wake_at = pair.small.wake_at()
        assert wake_at is not None
        assert 0.75 * limit / 1.25 <= wake_at - 100.0 - held <= limit
        action = only(pair.small.on_tick(wake_at))
        assert isinstance(action, MakeOffer)
        pair.offer_attempt = action.attempt


def test_an_offer_replaces_a_link_that_the_offerer_gave_up() -> None:
    pair = Pair()
    pair.connect()
    fresh = Pair()  # the smaller one was started again
    actions = pair.large.on_envelope(SMALL.peer_id, fresh.offer(nonce=b"3" * 16), 5.0, WALL)
    assert actions[0] == Abandon(SMALL.peer_id, pair.answer_attempt, "the other computer connects anew")
    assert isinstance(actions[1], MakeAnswer)
    assert actions[1].attempt > pair.answer_attempt


def test_what_comes_late_for_an_older_try_is_passed_over() -> None:
    pair = Pair()
    pair.offer()
    pair.small.on_tick(20.0)
    assert pair.small.on_local_sdp(LARGE.peer_id, 1, OFFER_SDP, b"4" * 16, WALL) == []
    pair.small.on_up(LARGE.peer_id, 1, 20.0)
    pair.small.on_failed(LARGE.peer_id, 1, 20.0)
    assert pair.small.phase(LARGE.peer_id) is Phase.RESTING


def test_a_peer_that_left_is_not_tried_again() -> None:
    small = machine(SMALL)
    action = only(small.on_joined((LARGE.peer_id,), 0.0))
    assert isinstance(action, MakeOffer)
    small.on_absent(LARGE.peer_id)
    small.on_failed(LARGE.peer_id, action.attempt, 1.0)
    assert small.wake_at() is None
    assert not small.is_present(LARGE.peer_id)
    assert isinstance(only(small.on_present(LARGE.peer_id, 2.0)), MakeOffer)


def test_a_link_outlives_the_rooms_idea_of_presence() -> None:
    pair = Pair()
    pair.connect()
    pair.small.on_absent(LARGE.peer_id)
    assert pair.small.phase(LARGE.peer_id) is Phase.UP
    assert pair.small.on_joined((), 1.0) == []
    assert pair.small.phase(LARGE.peer_id) is Phase.UP


def test_no_offers_while_the_room_is_lost() -> None:
    small = machine(SMALL)
    action = only(small.on_joined((LARGE.peer_id,), 0.0))
    assert isinstance(action, MakeOffer)
    small.on_lost()
    small.on_failed(LARGE.peer_id, action.attempt, 1.0)
    assert small.wake_at() is None
    assert small.on_tick(1000.0) == []
    assert isinstance(only(small.on_joined((LARGE.peer_id,), 1001.0)), MakeOffer)


def test_joining_again_leaves_good_links_alone() -> None:
    pair = Pair()
    pair.connect()
    assert pair.small.on_joined((LARGE.peer_id,), 5.0) == []
    assert pair.small.on_present(LARGE.peer_id, 5.0) == []


def a_call(nonce: bytes = b"9" * 16) -> bytes:
    return payload_of(machine(LARGE).call(SMALL.peer_id, nonce, WALL))


def test_the_larger_id_calls_when_a_link_that_was_wanted_is_gone() -> None:
    pair = Pair()
    pair.connect()
    actions = pair.large.on_failed(SMALL.peer_id, pair.answer_attempt, 40.0, wanted=True)
    assert actions == [MakeCall(SMALL.peer_id)]
    assert pair.large.on_failed(SMALL.peer_id, pair.answer_attempt, 41.0, wanted=True) == []
    call = payload_of(pair.large.call(SMALL.peer_id, b"9" * 16, WALL))
    gave_up, again = pair.small.on_envelope(LARGE.peer_id, call, 40.0, WALL)
    assert gave_up == Abandon(LARGE.peer_id, pair.offer_attempt, "the other computer lost the connection")
    assert isinstance(again, MakeOffer)


def test_the_smaller_id_and_an_unwanted_end_call_nobody() -> None:
    pair = Pair()
    pair.connect()
    assert pair.small.on_failed(LARGE.peer_id, pair.offer_attempt, 40.0, wanted=True) == []
    assert pair.large.on_failed(SMALL.peer_id, pair.answer_attempt, 40.0) == []


def test_a_call_waits_for_the_room() -> None:
    pair = Pair()
    pair.connect()
    pair.large.on_lost()
    assert pair.large.on_failed(SMALL.peer_id, pair.answer_attempt, 40.0, wanted=True, moved=True) == []
    assert pair.large.on_joined((SMALL.peer_id,), 50.0) == [MakeCall(SMALL.peer_id)]
    assert pair.large.on_joined((SMALL.peer_id,), 51.0) == []


def test_an_offer_that_comes_first_makes_the_call_needless() -> None:
    pair = Pair()
    pair.connect()
    pair.large.on_lost()
    pair.large.on_failed(SMALL.peer_id, pair.answer_attempt, 40.0, wanted=True)
    pair.small.on_failed(LARGE.peer_id, pair.offer_attempt, 40.0)
    again = only(pair.small.on_tick(60.0))
    assert isinstance(again, MakeOffer)
    offer = payload_of(pair.small.on_local_sdp(LARGE.peer_id, again.attempt, OFFER_SDP, b"3" * 16, WALL))
    pair.large.on_envelope(SMALL.peer_id, offer, 60.0, WALL)
    assert pair.large.on_joined((SMALL.peer_id,), 61.0) == []


def test_a_call_during_a_try_or_just_after_one_changes_little() -> None:
    pair = Pair()
    pair.offer()
    assert pair.small.on_envelope(LARGE.peer_id, a_call(b"7" * 16), 0.5, WALL) == []
    pair.small.on_failed(LARGE.peer_id, pair.offer_attempt, 1.0)
    now = 0.0
    for _ in range(6):
        now += 100.0
        again = only(pair.small.on_tick(now))
        assert isinstance(again, MakeOffer)
        pair.small.on_failed(LARGE.peer_id, again.attempt, now)
    assert pair.small.on_envelope(LARGE.peer_id, a_call(b"8" * 16), now + 0.5, WALL) == []
    assert pair.small.wake_at() == now + CALL_SPACING_SECONDS


def test_a_call_from_the_smaller_id_is_refused() -> None:
    call, _ = seal_description(make_call(SMALL, LARGE.peer_id, RUN, b"1" * 16, WALL), SMALL)
    with pytest.raises(SignalingError, match="smaller peer id"):
        machine(LARGE).on_envelope(SMALL.peer_id, call, 0.0, WALL)


def test_a_repeated_call_is_refused() -> None:
    pair = Pair()
    pair.connect()
    call = a_call()
    assert len(pair.small.on_envelope(LARGE.peer_id, call, 50.0, WALL)) == 2
    with pytest.raises(SignalingError):
        pair.small.on_envelope(LARGE.peer_id, call, 90.0, WALL)


def test_a_computer_that_moved_offers_again_at_once() -> None:
    pair = Pair()
    pair.connect()
    pair.small.on_failed(LARGE.peer_id, pair.offer_attempt, 5.0, wanted=True, moved=True)
    assert pair.small.wake_at() == 5.0
    assert isinstance(only(pair.small.on_tick(5.0)), MakeOffer)


def test_a_computer_that_moved_and_lost_the_room_offers_once_it_is_back() -> None:
    pair = Pair()
    pair.connect()
    pair.small.on_lost()
    pair.small.on_failed(LARGE.peer_id, pair.offer_attempt, 5.0, moved=True)
    assert pair.small.on_tick(9.0) == []
    assert isinstance(only(pair.small.on_joined((LARGE.peer_id,), 10.0)), MakeOffer)
