"""What a session tells about itself: counters that its task keeps, and the contract's view of them."""

from dataclasses import dataclass, field
from typing import Final

from engine.contract.snapshot import PeerInfo, RoundInfo, SessionState, WrittenSample
from engine.runtime.link_book import LinkBook
from engine.runtime.model import ModelState
from engine.runtime.parts import SessionParts
from engine.runtime.peers import PeerTable
from engine.training.protocol import Accumulated
from engine.transport.base import PeerId, PeerNetwork
from engine.wire.messages import Progress

RATE_SMOOTHING: Final = 0.2
"""Weight of the newest interval in the running mean of this computer's speed."""


@dataclass(slots=True)
class SpeedMeter:
    """Samples and tokens a second of wall time while training, smoothed."""

    samples_per_second: float | None = None
    tokens_per_second: float | None = None
    _last: tuple[float, int, int] | None = None  # when, samples, tokens

    def restart(self) -> None:
        """The counters begin anew, or training paused: the time until the next report does not count."""
        self._last = None

    def on_accumulated(self, report: Accumulated, now: float) -> None:
        """Learn from the worker's next totals."""
        last, self._last = self._last, (now, report.samples, report.tokens)
        if last is None or report.samples <= last[1] or now <= last[0]:
            return
        elapsed = now - last[0]
        self.samples_per_second = _smooth(self.samples_per_second, (report.samples - last[1]) / elapsed)
        self.tokens_per_second = _smooth(self.tokens_per_second, (report.tokens - last[2]) / elapsed)


def _smooth(old: float | None, new: float) -> float:
    return new if old is None else old + RATE_SMOOTHING * (new - old)


@dataclass(slots=True)
class SessionReport:
    """Mutable counters of one session."""

    rounds_committed: int = 0
    rounds_discarded: int = 0
    tokens_committed: int = 0
    my_tokens_committed: int = 0
    last_round: RoundInfo | None = None
    train_loss: float | None = None
    held_out_loss: float | None = None
    held_out_step: int = -1
    sample: WrittenSample | None = None
    catch_up_fraction: float | None = None
    checkpoint_at: float | None = None
    worker_gave_up: str = ""
    leaving: bool = False
    speed: SpeedMeter = field(default_factory=SpeedMeter)

    def session_state(
        self,
        parts: SessionParts,
        my_samples: int,
        swarm: tuple[float, float],
        peers: tuple[PeerInfo, ...],
        agreeing: int,
        in_round: bool,
        links: LinkBook,
        line: tuple[float, float],
    ) -> SessionState:
        """The contract's view. `swarm` is (samples accumulated by all, samples a second of all); `line` is up, down."""
        project, model, trainer, traffic = parts.project, parts.model, parts.trainer, parts.network.traffic()
        manifest, way = project.manifest, parts.network.reachability()
        tokens_per_sample = manifest.data.sequence_length
        return SessionState(
            project_id=project.project_id,
            title=manifest.title,
            global_step=model.global_step,
            target_batch_samples=manifest.training.target_batch_samples,
            swarm_samples=int(swarm[0]),
            my_samples=my_samples,
            my_tokens_per_second=self.speed.tokens_per_second,
            swarm_tokens_per_second=swarm[1] * tokens_per_sample if swarm[1] else None,
            rounds_committed=self.rounds_committed,
            rounds_discarded=self.rounds_discarded,
            tokens_committed=self.tokens_committed,
            my_tokens_committed=self.my_tokens_committed,
            last_round=self.last_round,
            weights_hash=model.weights_hash.hex(),
            peers_agreeing=agreeing,
            train_loss=self.train_loss,
            held_out_loss=self.held_out_loss,
            sample=self.sample,
            catch_up_fraction=self.catch_up_fraction,
            in_round=in_round,
            worker_state=trainer.state,
            worker_pid=trainer.pid,
            worker_restarts=trainer.restarts,
            worker_gave_up=self.worker_gave_up,
            device=trainer.device,
            checkpoint_step=model.saved_step,
            checkpoint_at=self.checkpoint_at,
            peers=peers,
            reachability=str(way.mapping),
            relay=str(way.relay),
            lacks_relay=parts.network.lacks_relay,
            link_notes=links.notes,
            upload_bytes_per_second=line[0] or None,
            download_bytes_per_second=line[1] or None,
            wire_bytes_sent=traffic.sent_bytes,
            wire_bytes_received=traffic.received_bytes,
            local_bytes_sent=traffic.local_sent_bytes,
            local_bytes_received=traffic.local_received_bytes,
        )


def _printable(name: str) -> str:
    """A stranger's text reaches terminals: nothing in it may steer one."""
    return "".join(letter for letter in name if letter.isprintable())


def peer_rows(network: PeerNetwork, table: PeerTable, known: dict[PeerId, Progress]) -> tuple[PeerInfo, ...]:
    """Everyone with a link, in a stable order."""
    rows = []
    for peer_id in table.ready():
        stats = network.stats(peer_id)
        progress = known.get(peer_id)
        rows.append(
            PeerInfo(
                peer_id=peer_id,
                name=_printable(progress.name) if progress else "",
                connected=True,
                path=str(stats.path) if stats else "",
                global_step=progress.global_step if progress else None,
                samples_per_second=progress.samples_per_second if progress else None,
                round_trip_seconds=stats.round_trip_seconds if stats else None,
                bytes_sent=stats.bytes_sent if stats else 0,
                bytes_received=stats.bytes_received if stats else 0,
                lanes=stats.lanes if stats else None,
                loss=stats.loss if stats else None,
                upload_bytes_per_second=stats.upload_bytes_per_second if stats else None,
                download_bytes_per_second=stats.download_bytes_per_second if stats else None,
            )
        )
    return tuple(rows)


def agreeing_count(table: PeerTable, known: dict[PeerId, Progress], model: ModelState) -> int:
    """Linked peers at the same step with the same weights."""
    mine = (model.global_step, model.weights_hash)
    said = [known[peer] for peer in table.ready() if peer in known]
    return sum((progress.global_step, progress.weights_hash) == mine for progress in said)
