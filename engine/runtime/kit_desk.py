"""The training kit as the engine shows it: state, card and reason follow from what its service tells."""

from collections.abc import Callable
from pathlib import Path

from engine.contract.reasons import ProblemAction, ProblemCode, Reason
from engine.contract.snapshot import KitState
from engine.control.publisher import StatePublisher
from engine.core.clock import Clock
from engine.kit.errors import sentence_of
from engine.kit.service import HOME_NAME, KitParts, KitService
from engine.runtime.problems import ProblemBoard


class KitDesk:
    """Implements `KitListener`. `on_change` is called after what is shown changed, `on_ready` when work may begin."""

    def __init__(
        self,
        parts: Callable[[Path, Clock], KitParts],
        data_dir: Path,
        clock: Clock,
        publisher: StatePublisher,
        problems: ProblemBoard,
    ) -> None:
        self._clock = clock
        self._publisher = publisher
        self._problems = problems
        self._on_change: Callable[[], None] = lambda: None
        self._on_ready: Callable[[], None] = lambda: None
        self._service = KitService(parts(data_dir / HOME_NAME, clock), self)
        publisher.update(kit=self._service.state)

    def listen(self, on_change: Callable[[], None], on_ready: Callable[[], None]) -> None:
        """From now on."""
        self._on_change, self._on_ready = on_change, on_ready

    @property
    def ready(self) -> bool:
        """Whether sessions may begin as far as the kit is concerned."""
        return self._service.ready

    @property
    def reason(self) -> Reason | None:
        """Why none may."""
        return self._service.reason

    def look(self) -> None:
        """Say what there would be to fetch, once it is known what computer this is."""
        machine = self._publisher.state.machine
        if not self.ready and machine.cores_logical is not None:
            self._service.offer(machine)

    def get(self) -> None:
        """Fetch it, or go on."""
        state = self._publisher.state
        self._service.want(state.machine, state.settings.hub_url)

    async def pause(self) -> None:
        """Keep what is here."""
        await self._service.pause()

    async def close(self) -> None:
        """At the engine's end."""
        await self._service.close()

    def on_kit(self, state: KitState) -> None:
        self._publisher.update(kit=state)
        if state.state in ("missing", "paused"):
            gigabytes = round((state.total_bytes - state.done_bytes) / 1e9, 1)
            params = {"gigabytes": gigabytes} if state.total_bytes else {}
            self._problems.mend(ProblemCode.KIT_MISSING)
            self._add(ProblemCode.KIT_MISSING, params)
        else:
            self._problems.mend(ProblemCode.KIT_MISSING)
        self._problems.mend(ProblemCode.KIT_FAILED)
        if state.state in ("failed", "unusable"):
            self._add(ProblemCode.KIT_FAILED, {"detail": sentence_of(state.fault, state.params).rstrip(".")})
        self._on_change()

    def _add(self, code: ProblemCode, params: dict[str, str] | dict[str, float]) -> None:
        self._problems.add(code, ProblemAction.GET_KIT, dict(params), self._clock.now())

    def on_kit_ready(self) -> None:
        self._on_ready()
