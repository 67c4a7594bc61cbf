"""One peer's view of one averaging round. PURE: time comes in, messages, jobs and events go out.

Spec, state table and the agreement that holds: docs/specs/averaging.md. The butterfly reduction is that of DeDLOC
(arXiv 2106.10207, section 3.2), here as a transaction: the round commits as a whole, by votes on what arrived.
"""

from collections.abc import Callable, Sequence
from typing import Final

from engine.averaging.config import ALLOWED_CODECS, RoundConfig
from engine.averaging.effects import (
    Begun,
    Committed,
    Contribution,
    Discarded,
    Effect,
    Freeze,
    Ignored,
    Inspected,
    Missed,
    PeerFault,
    Reduced,
    RoundMessage,
    RoundSetup,
    Send,
)
from engine.averaging.exchange import Ballot, Exchange, Verdict
from engine.averaging.gathering import CannotBegin, Gathering, Shelf
from engine.averaging.partition import begin_fault, claim_fault
from engine.averaging.states import (
    ENDED,
    FROM_LEADER_ONLY,
    LEADER_HANDLES,
    MEMBER_HANDLES,
    ROLL_KNOWN,
    TRANSITIONS,
    Handling,
    RoundState,
    Trigger,
)
from engine.transport.base import PeerId
from engine.wire.messages import (
    Abstain,
    Accept,
    AveragedPart,
    Begin,
    Commit,
    Decline,
    Discard,
    Member,
    Part,
    Propose,
    Vote,
)

MAX_REASON_CHARS: Final = 200


class RoundMachine:
    """Drive it with inputs, then carry out `take_effects()` in order; it is over when `ended` is true.

    A host calls `on_timer` no later than `next_deadline()`. Misbehaving peers show as `PeerFault` effects; only a
    host's own mistakes raise. From its start a machine ends within `config.deadlines.bound_seconds`.
    """

    def __init__(self, me: PeerId, config: RoundConfig, setup: RoundSetup, now: float) -> None:
        self.me = me
        self.config = config
        self.setup = setup
        self.leads = setup.leader == me
        self._state = RoundState.FREEZING
        self._effects: list[Effect] = []
        self._started_at = now
        self._begun_at: float | None = None
        self._orphaned_at: float | None = None
        self._contribution: Contribution | None = None
        self._gathering = Gathering(setup, config)
        self._exchange: Exchange | None = None
        self._ballot: Ballot | None = None
        self._commit: Commit | None = None
        self._shelf = Shelf(config.vector_length)
        self._lost: set[PeerId] = set()
        propose = Propose(
            round_id=setup.round_id,
            global_step=setup.global_step,
            weights_hash=setup.weights_hash,
            attempt=setup.attempt,
        )
        for peer in self._gathering.candidates if self.leads else ():
            self._send(peer, propose)
        self._effects.append(Freeze())

    # Views.

    @property
    def state(self) -> RoundState:
        """Where this peer stands."""
        return self._state

    @property
    def ended(self) -> bool:
        """Whether the outcome is among the effects, now or before."""
        return self._state in ENDED

    @property
    def roll(self) -> tuple[Member, ...]:
        """The members, once they are known."""
        return self._exchange.members if self._exchange else ()

    def take_effects(self) -> list[Effect]:
        """What the host must do, in order; each is given once."""
        effects, self._effects = self._effects, []
        return effects

    def next_deadline(self) -> float | None:
        """When `on_timer` is due; None once the round is over."""
        return min((at for at, _ in self._deadlines()), default=None)

    # Inputs from the host.

    def on_message(self, peer: PeerId, message: RoundMessage, now: float) -> None:
        """A message of this round from a peer."""
        if message.round_id != self.setup.round_id:
            self._ignore(peer, "another round")
            return
        self._lost.discard(peer)
        if peer == self.setup.leader:
            self._orphaned_at = None
        table = LEADER_HANDLES if self.leads else MEMBER_HANDLES
        handling = table.get((type(message), self._state))
        if handling is None or (type(message) in FROM_LEADER_ONLY and peer != self.setup.leader):
            self._fault(peer, f"sent {type(message).__name__} to a peer that is {self._state.value}")
        elif handling is Handling.LATE:
            self._on_late(peer, message)
        elif handling is Handling.KEEP:
            self._effects += self._shelf.put(peer, message)
        else:
            self._take(peer, message, now)
        self._expire(now)

    def on_frozen(self, contribution: Contribution, now: float) -> None:
        """The worker's accumulators are frozen and hold this.

        Raises:
            ValueError: the numbers are impossible.
        """
        self._expire(now)
        if self._state is not RoundState.FREEZING:
            return
        if fault := claim_fault(contribution, self.config):
            raise ValueError(f"this peer's contribution: {fault}")
        self._contribution = contribution
        self._move(Trigger.FROZE)
        if self.leads:
            self._begin_if_complete(now)
            return
        accept = Accept(
            round_id=self.setup.round_id,
            samples=contribution.samples,
            tokens=contribution.tokens,
            loss_sum=contribution.loss_sum,
            upload_bytes_per_second=contribution.upload_bytes_per_second,
            download_bytes_per_second=contribution.download_bytes_per_second,
        )
        self._send(self.setup.leader, accept)

    def on_freeze_failed(self, reason: str, now: float) -> None:
        """The worker cannot freeze; this peer takes no part."""
        if self._state is RoundState.FREEZING:
            self.abort(reason, now)

    def on_parts(self, parts: Sequence[bytes], now: float, codecs: Sequence[int] = ()) -> None:
        """The slices that `NeedParts` asked for, as `codecs` write them (none named: float32).

        Raises:
            ValueError: their number or sizes are not what was asked for.
        """
        codecs = codecs or [0] * len(parts)
        exchange = self._exchange
        if exchange is None or self._state not in ROLL_KNOWN:
            return
        exchange.check_sizes(parts, codecs)
        for number in exchange.sending_order():
            peer, payload, codec = exchange.aggregator_of(number), parts[number], codecs[number]
            if peer == self.me:
                exchange.put_part(number, exchange.me, payload, codec)
            else:
                rid = self.setup.round_id
                self._send(peer, Part(round_id=rid, partition=number, payload=payload, codec=codec))
        self._advance(now)
        self._expire(now)

    def on_job_done(self, answer: Reduced | Inspected, now: float) -> None:
        """The answer to a `Reduce` or `Inspect`, whichever it is."""
        if isinstance(answer, Reduced):
            self.on_reduced(answer, now)
        else:
            self.on_inspected(answer, now)

    def on_reduced(self, reduced: Reduced, now: float) -> None:
        """The answer to `Reduce`."""
        exchange = self._exchange
        if exchange is None or reduced.partition not in exchange.mine or self._state not in ROLL_KNOWN:
            return
        for index, what in reduced.faults:
            self._fault(exchange.members[index].peer_id, what)
            exchange.refuse(index)
        if not reduced.contributors:
            self._give_up("no sound part came for this peer's partition", None, now)
            return
        average = exchange.take_reduced(self.setup.round_id, reduced)
        for peer in exchange.others():
            if peer not in self._lost:
                self._send(peer, average)
        self._advance(now)
        self._expire(now)

    def on_inspected(self, inspected: Inspected, now: float) -> None:
        """The answer to `Inspect`."""
        exchange = self._exchange
        if exchange is None or self._state not in ROLL_KNOWN:
            return
        message = exchange.end_inspect(inspected.partition)
        if message is None:
            return
        if inspected.fault:
            aggregator = exchange.aggregator_of(inspected.partition)
            self._fault(aggregator, inspected.fault)
            self._give_up("an averaged partition is not sound", aggregator, now)
            return
        exchange.take_inspected(message, inspected)
        self._advance(now)
        self._expire(now)

    def on_peer_lost(self, peer: PeerId, now: float) -> None:
        """There is no link to a peer (any more)."""
        if self.ended or peer == self.me:
            return
        self._lost.add(peer)
        if self._exchange is None:
            self._lost_before_roll(peer, now)
        else:
            self._lost_in_exchange(self._exchange, peer, now)
        self._expire(now)

    def on_timer(self, now: float) -> None:
        """Time passed."""
        self._expire(now)

    def abort(self, reason: str, now: float) -> None:
        """This peer takes no further part (it leaves, or its worker is gone). A leader voids the round."""
        if self.ended:
            return
        if self._state is RoundState.CONCLUDING:
            self._conclude(Trigger.COMMIT_UNMATCHED, reason)
            return
        if not self.leads:
            answer: RoundMessage
            if self._exchange is None:
                answer = Decline(round_id=self.setup.round_id, reason=reason[:MAX_REASON_CHARS])
            else:
                answer = Abstain(round_id=self.setup.round_id, reason=reason[:MAX_REASON_CHARS])
            self._send(self.setup.leader, answer)
        self._void(reason, None)

    # Messages.

    def _take(self, peer: PeerId, message: RoundMessage, now: float) -> None:
        match message:
            case Decline() if self._exchange is not None:  # it accepted, then left while the roll was on its way
                self._take_in_exchange(peer, Abstain(round_id=message.round_id, reason=message.reason), now)
            case Accept() | Decline():
                self._effects += self._gathering.take(peer, message)
                self._begin_if_complete(now)
            case Begin():
                self._take_begin(message, now)
            case Discard():
                self._void(message.reason or "the leader voided the round", message.blame)
            case Part() | AveragedPart() | Vote() | Abstain() | Commit():
                self._take_in_exchange(peer, message, now)

    def _take_in_exchange(
        self, peer: PeerId, message: Part | AveragedPart | Vote | Abstain | Commit, now: float
    ) -> None:
        exchange = self._exchange
        if exchange is None or peer not in exchange.index_of:
            self._fault(peer, f"sent {type(message).__name__} without being on the roll")
            return
        match message:
            case Part():
                self._take_part(exchange, peer, message, now)
            case AveragedPart():
                self._take_average(exchange, peer, message, now)
            case Vote() | Abstain():
                self._take_vote(exchange, peer, message, now)
            case Commit():
                self._take_commit(exchange, peer, message, now)

    def _take_begin(self, begin: Begin, now: float) -> None:
        if self._contribution is None:  # cannot be: only a frozen member takes a roll
            raise RuntimeError("a roll was taken before the worker froze")
        if fault := begin_fault(begin, self.setup, self.config, self.me, self._contribution):
            self._fault(self.setup.leader, fault)
            self._send(self.setup.leader, Abstain(round_id=self.setup.round_id, reason=fault[:MAX_REASON_CHARS]))
            self._void("the leader's roll is not sound", self.setup.leader)
            return
        self._start_exchange(begin.members, now)
        for peer, message in self._shelf.clear():
            self.on_message(peer, message, now)

    def _take_part(self, exchange: Exchange, peer: PeerId, part: Part, now: float) -> None:
        index = exchange.index_of[peer]
        if exchange.is_late(index, part):
            self._ignore(peer, "Part came late or twice")
        elif fault := exchange.part_fault(index, part):
            self._fault(peer, fault)
            exchange.refuse(index)
        else:
            exchange.put_part(part.partition, index, part.payload, part.codec)
        self._advance(now)

    def _take_average(self, exchange: Exchange, peer: PeerId, message: AveragedPart, now: float) -> None:
        index = exchange.index_of[peer]
        if fault := exchange.average_fault(index, message):
            self._fault(peer, fault)
            if any(exchange.partitions[j].owner == index for j in exchange.undelivered()):
                self._give_up("an averaged partition is not sound", peer, now)
            return
        job = exchange.start_inspect(message, self.config.max_gradient_norm)
        if job is None:
            self._ignore(peer, "AveragedPart came twice")
        else:
            self._effects.append(job)

    def _take_vote(self, exchange: Exchange, peer: PeerId, message: Vote | Abstain, now: float) -> None:
        ballot = self._ballot
        if ballot is None:  # cannot be: only a leader takes votes, and it opens the ballot with the roll
            raise RuntimeError("a vote was taken without a ballot")
        if isinstance(message, Vote) and len(message.digests) != len(exchange.partitions):
            self._fault(peer, f"votes on {len(message.digests)} partitions of {len(exchange.partitions)}")
            ballot.abstain(peer)
        else:
            new = ballot.vote(peer, message.digests) if isinstance(message, Vote) else ballot.abstain(peer)
            if not new:
                self._ignore(peer, f"{type(message).__name__} after it had voted")
        if isinstance(message, Abstain) and any(exchange.aggregator_of(j) == peer for j in exchange.undelivered()):
            self._void(f"an aggregator cannot deliver: {message.reason}", peer)
            return
        self._count_votes(now, overdue=False)

    def _take_commit(self, exchange: Exchange, peer: PeerId, commit: Commit, now: float) -> None:
        if fault := exchange.commit_fault(commit, self.setup.global_step):
            self._fault(peer, fault)
            return
        if exchange.contradicts(commit):
            if peer == self.setup.leader:
                self._conclude(Trigger.COMMIT_UNMATCHED, "the others committed a different result")
            else:
                self._fault(peer, "echoes a commit that contradicts what it is about")
            return
        for other in exchange.others():
            if other != peer and other not in self._lost:
                self._send(other, commit)
        self._commit = commit
        if self._state is RoundState.VOTED:
            self._conclude(Trigger.COMMIT_MATCHES, "")
        elif self._state is RoundState.ABSTAINED:
            self._conclude(Trigger.COMMIT_UNMATCHED, "this peer lacks a part of the result")
        else:
            self._move(Trigger.COMMIT_HEARD)
            self._advance(now)

    def _on_late(self, peer: PeerId, message: RoundMessage) -> None:
        self._ignore(peer, f"{type(message).__name__} came late or twice")
        if self.leads and isinstance(message, Accept) and all(member.peer_id != peer for member in self.roll):
            self._send(peer, Discard(round_id=self.setup.round_id, reason="the round is past its beginning"))

    # The leader's part.

    def _begin_if_complete(self, now: float) -> None:
        if self._state is RoundState.GATHERING and self._gathering.complete():
            self._begin(now)

    def _begin(self, now: float) -> None:
        if self._contribution is None:  # cannot be: only a frozen leader begins
            raise RuntimeError("a round was begun before the worker froze")
        if now > self._started_at + self.config.deadlines.last_begin_seconds:
            self._void("this computer was too late to begin", None)
            return
        try:
            members = self._gathering.roll(self._contribution)
        except CannotBegin as error:
            self._void(str(error), None)
            return
        self._effects += self._gathering.refusals()
        begin = Begin(round_id=self.setup.round_id, global_step=self.setup.global_step, members=members)
        for member in members:
            if member.peer_id != self.me:
                self._send(member.peer_id, begin)
        self._ballot = Ballot(members)
        self._start_exchange(members, now)

    def _count_votes(self, now: float, overdue: bool) -> None:
        exchange, ballot = self._exchange, self._ballot
        if exchange is None or ballot is None or self.ended:
            return
        mine = exchange.digests() if self._state is RoundState.VOTED else None
        pending = ballot.pending(self._lost)
        verdict = ballot.verdict(mine, self._lost, overdue)
        if verdict is Verdict.HOPELESS:
            absent = [exchange.aggregator_of(j) for j in exchange.undelivered()] or (pending if overdue else [])
            blame = next((peer for peer in absent if peer != self.me), None)
            self._void("fewer than half of the members hold the result", blame)
        elif verdict is Verdict.COMMIT:
            self._commit_round(exchange, now)

    def _commit_round(self, exchange: Exchange, now: float) -> None:
        if self._begun_at is None or now > self._begun_at + self.config.deadlines.last_commit_seconds:
            self._void("the votes came too late", None)
            return
        commit = Commit(
            round_id=self.setup.round_id,
            global_step=self.setup.global_step,
            digests=exchange.digests(),
            accepted=exchange.accepted(),
        )
        for peer in exchange.others():
            self._send(peer, commit)
        self._conclude(Trigger.COMMIT_MATCHES, "")

    # Everybody's part.

    def _start_exchange(self, members: tuple[Member, ...], now: float) -> None:
        self._begun_at = now
        exchange = self._exchange = Exchange(self.me, members, ALLOWED_CODECS[self.config.exchange])
        self._move(Trigger.BEGAN)
        self._effects.append(Begun(members))
        if exchange.members[exchange.me].samples:
            self._effects.append(exchange.what_to_send())
        for peer in exchange.others():
            if peer in self._lost:
                self._lost_in_exchange(exchange, peer, now)
        self._advance(now)

    def _advance(self, now: float) -> None:
        """Do what has become possible."""
        exchange = self._exchange
        if exchange is None or self.ended:
            return
        for partition in exchange.ready_to_reduce(self._lost):
            self._start_reduce(exchange, partition, now)
        if self._state is RoundState.EXCHANGING and not exchange.missing():
            self._move(Trigger.ALL_HELD)
            digests = exchange.digests()
            if self._ballot is not None:
                self._ballot.vote(self.me, digests)
                self._count_votes(now, overdue=False)
            else:
                self._send(self.setup.leader, Vote(round_id=self.setup.round_id, digests=digests))
        elif self._state is RoundState.CONCLUDING and self._commit is not None:
            if exchange.contradicts(self._commit):
                self._conclude(Trigger.COMMIT_UNMATCHED, "the others committed a different result")
            elif not exchange.missing():
                self._conclude(Trigger.COMMIT_MATCHES, "")

    def _start_reduce(self, exchange: Exchange, partition: int, now: float) -> None:
        job = exchange.start_reduce(partition, self.config.max_gradient_norm)
        if job is None:
            self._give_up("no part came for this peer's partition", None, now)
        else:
            self._effects.append(job)

    def _parts_over(self, exchange: Exchange, now: float) -> None:
        for partition in exchange.unreduced():
            self._start_reduce(exchange, partition, now)

    def _give_up(self, reason: str, blame: PeerId | None, now: float) -> None:
        """A partition will not come. A leader voids the round, a member abstains and awaits the outcome."""
        if self.leads:
            self._void(reason, blame)
        elif self._state is RoundState.EXCHANGING:
            self._move(Trigger.GAVE_UP)
            if self.setup.leader not in self._lost:
                abstain = Abstain(round_id=self.setup.round_id, reason=reason[:MAX_REASON_CHARS])
                self._send(self.setup.leader, abstain)
        elif self._state is RoundState.CONCLUDING:
            self._conclude(Trigger.COMMIT_UNMATCHED, reason)

    def _lost_before_roll(self, peer: PeerId, now: float) -> None:
        if self.leads:
            self._gathering.drop(peer)
            self._begin_if_complete(now)
        elif peer == self.setup.leader:
            self._end_without_roll("the leader was lost")

    def _lost_in_exchange(self, exchange: Exchange, peer: PeerId, now: float) -> None:
        if peer == self.setup.leader and self._orphaned_at is None:
            self._orphaned_at = now
        if any(exchange.aggregator_of(j) == peer for j in exchange.undelivered()):
            self._give_up("an aggregator was lost", peer, now)
        self._advance(now)
        if self.leads:
            self._count_votes(now, overdue=False)

    # Time.

    def _deadlines(self) -> list[tuple[float, Callable[[float], None]]]:
        limits = self.config.deadlines
        if self.ended:
            return []
        if self._begun_at is None:
            if self.leads:
                return [(self._started_at + limits.gather_seconds, self._gather_over)]
            return [(self._started_at + limits.begin_seconds, self._begin_over)]
        exchange = self._exchange
        found: list[tuple[float, Callable[[float], None]]] = []
        if exchange and exchange.unreduced():
            found.append((self._begun_at + limits.parts_seconds, lambda now: self._parts_over(exchange, now)))
        if self._state in (RoundState.EXCHANGING, RoundState.CONCLUDING):
            found.append((self._begun_at + limits.averages_seconds, self._averages_over))
        elif self.leads:
            found.append((self._begun_at + limits.votes_seconds, lambda now: self._count_votes(now, overdue=True)))
        else:
            found.append((self._begun_at + limits.commit_seconds, self._commit_over))
        if self._orphaned_at is not None and self._state is not RoundState.CONCLUDING:
            found.append((self._orphaned_at + limits.echo_grace_seconds, self._orphan_over))
        return found

    def _expire(self, now: float) -> None:
        """Run every deadline that has passed, earliest first."""
        while due := [entry for entry in self._deadlines() if entry[0] <= now]:
            min(due, key=lambda entry: entry[0])[1](now)

    def _gather_over(self, now: float) -> None:
        if self._state is RoundState.FREEZING:
            self._void("this computer's worker did not freeze in time", None)
        else:
            self._begin(now)

    def _begin_over(self, now: float) -> None:
        if self._state is RoundState.FREEZING:
            self._send(self.setup.leader, Decline(round_id=self.setup.round_id, reason="the worker did not freeze"))
            self._void("this computer's worker did not freeze in time", None)
        else:
            self._end_without_roll("the leader named no roll")

    def _averages_over(self, now: float) -> None:
        exchange = self._exchange
        absent = [exchange.aggregator_of(j) for j in exchange.undelivered()] if exchange else []
        blame = next((peer for peer in absent if peer != self.me), None)
        self._give_up("an averaged partition did not come in time", blame, now)

    def _commit_over(self, now: float) -> None:
        self._void("the leader named no outcome in time", self.setup.leader)

    def _orphan_over(self, now: float) -> None:
        self._void("the leader was lost", self.setup.leader)

    # Ends.

    def _end_without_roll(self, reason: str) -> None:
        if self._shelf.holds_commit():
            self._move(Trigger.COMMIT_UNMATCHED)
            self._effects.append(Missed(reason))
        else:
            self._void(reason, self.setup.leader)

    def _conclude(self, trigger: Trigger, reason: str) -> None:
        self._move(trigger)
        if trigger is Trigger.COMMIT_MATCHES and self._exchange is not None:
            self._effects.append(Committed(self._exchange.result(self.setup)))
        else:
            self._effects.append(Missed(reason))

    def _void(self, reason: str, blame: PeerId | None) -> None:
        self._move(Trigger.VOIDED)
        if self.leads:
            discard = Discard(round_id=self.setup.round_id, reason=reason[:MAX_REASON_CHARS], blame=blame)
            told = self._exchange.others() if self._exchange else self._gathering.awaiting_outcome()
            for peer in told:
                if peer not in self._lost:
                    self._send(peer, discard)
        self._effects.append(Discarded(reason, blame))

    def _move(self, trigger: Trigger) -> None:
        """Follow the table; a pair that it lacks is a fault of ours and raises KeyError."""
        self._state = TRANSITIONS[self._state, trigger]
        if self._state in ENDED:
            self._shelf.clear()

    def _send(self, peer: PeerId, message: RoundMessage) -> None:
        self._effects.append(Send(peer, message))

    def _fault(self, peer: PeerId, what: str) -> None:
        self._effects.append(PeerFault(peer, what))

    def _ignore(self, peer: PeerId, what: str) -> None:
        self._effects.append(Ignored(peer, what))
