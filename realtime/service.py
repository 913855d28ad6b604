"""Opens sessions for sockets: how a deployment becomes settings and bounds of each."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import TracebackType

from ..engines.chunks import StageError
from ..engines.deployment import Deployment
from ..engines.pipeline import Pipeline
from ..engines.pipelines.absent import NO_MODEL, NO_RECOGNIZER
from ..sessions.merging import merge
from ..sessions.session import Session
from ..sessions.settings import (
    Capabilities,
    SessionKind,
    Settings,
    SettingsPatch,
    Transcription,
)
from ..sessions.state import Counters
from .connection import Connection, ConnectionLimits, Disconnected, Measured, Socket
from .dialect import Dialect
from .recording import Recorder
from .wire_out import WireEncoder

STOCK_VOICES = (
    "alloy",
    "ash",
    "ballad",
    "coral",
    "echo",
    "sage",
    "shimmer",
    "verse",
    "marin",
    "cedar",
)
"""Names that stock clients send unasked. They are accepted and spoken by our default voice."""

TRANSCRIPTION_MODEL = "whisper-1"
"""What a transcription session is told that it uses where it names none."""

GOING_AWAY = 1001


class Place:
    """Room for one session, held while it is entered."""

    def __init__(self, service: RealtimeService) -> None:
        self._service = service

    def __enter__(self) -> None:
        """Hold it."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give it back."""
        self._service.give_back()


class RealtimeService:
    """Serves realtime sessions of one pipeline; counts and bounds them."""

    def __init__(
        self,
        deployment: Deployment,
        pipeline: Pipeline,
        recordings: Path | None = None,
        *,
        on_measured: Callable[[Measured], None] | None = None,
    ) -> None:
        """``on_measured`` is told what is measured in any session, and of each response's end."""
        self._deployment = deployment
        self._pipeline = pipeline
        self._recordings = recordings
        self._on_measured = on_measured
        self._open: dict[str, tuple[Session, Socket]] = {}
        self._others: set[Socket] = set()
        self._opened = 0
        self._ended = Counter[str]()
        self._places = 0
        self._stopping = False

    @property
    def open_sessions(self) -> int:
        """How many sessions there are now."""
        return len(self._open) + len(self._others)

    @property
    def opened(self) -> int:
        """How many sessions there have been."""
        return self._opened

    def lacks(self, kind: SessionKind) -> StageError | None:
        """Return why no session of a kind can be had here, if none can."""
        if kind is SessionKind.TRANSCRIPTION:
            return None if self._deployment.hears else NO_RECOGNIZER
        return None if self._deployment.answers else NO_MODEL

    @property
    def stopping(self) -> bool:
        """Whether no session is opened any more."""
        return self._stopping

    def reserve(self) -> Place | None:
        """Take room for a session before anything is awaited; ``None`` where there is none."""
        if self._places >= self._deployment.limits.sessions:
            return None
        self._places += 1
        return Place(self)

    @contextmanager
    def counting(self, socket: Socket) -> Generator[None, None, None]:
        """Count a socket of another kind as a session, and end it when the server stops."""
        self._others.add(socket)
        self._opened += 1
        try:
            yield
        finally:
            self._others.remove(socket)

    def give_back(self) -> None:
        """Free what :meth:`reserve` took; a :class:`Place` does it when left."""
        self._places -= 1

    def settings(
        self,
        kind: SessionKind = SessionKind.REALTIME,
        defaults: SettingsPatch | None = None,
        *,
        extensions: bool = False,
    ) -> Settings:
        """Return how a session begins.

        Raises:
            Refusal: ``defaults`` has a value that is not allowed here.
        """
        can = self._capabilities()
        answers = kind is SessionKind.REALTIME
        begun = Settings(
            kind=kind,
            instructions=self._deployment.instructions if answers else "",
            voice=can.voices[0],
            transcription=None if answers else Transcription(model=TRANSCRIPTION_MODEL),
            extensions=extensions,
        )
        return begun if defaults is None else merge(begun, defaults, can)

    def statistics(self) -> dict[str, dict[str, float]]:
        """Return counters of the open sessions, by session id."""
        return {
            session_id: {"epoch": session.epoch, **asdict(session.counters)}
            for session_id, (session, _) in self._open.items()
        }

    def totals(self) -> dict[str, int]:
        """Return the counters of all sessions together, of those that have ended as well."""
        totals = Counter[str](asdict(Counters()))
        totals.update(self._ended)
        for session, _ in self._open.values():
            totals.update(asdict(session.counters))
        return dict(totals)

    async def serve(
        self,
        socket: Socket,
        *,
        extensions: bool = False,
        dialect: Dialect | None = None,
        kind: SessionKind = SessionKind.REALTIME,
        defaults: SettingsPatch | None = None,
    ) -> None:
        """Serve one client to its end; its failure is its own.

        Args:
            socket: The accepted socket.
            extensions: Whether our own events were asked for.
            dialect: What the client asked to be spoken to in; ``None`` lets its first
                update decide.
            kind: What the session is for.
            defaults: What it begins with beside the deployment's own; checked before by
                :meth:`settings`.
        """
        seed = secrets.token_hex(16)
        can = self._capabilities()
        settings = self.settings(kind, defaults, extensions=extensions)
        session = Session(seed, settings, can)
        encoder = WireEncoder(
            seed,
            session_id=session.id,
            conversation_id=session.conversation_id,
            model=self._deployment.model,
            voices=self._pipeline.voices,
        )
        recorder = self._recorder(session.id, seed, settings, can)
        connection = Connection(
            socket,
            session,
            self._pipeline,
            encoder,
            self._limits(),
            recorder,
            dialect,
            self._on_measured,
        )
        self._open[session.id] = (session, socket)
        self._opened += 1
        try:
            await connection.run()
        finally:
            del self._open[session.id]
            self._ended.update(asdict(session.counters))

    async def stop(self) -> None:
        """Say goodbye to every client, and open nothing more."""
        self._stopping = True
        sockets = [*self._others, *(socket for _, socket in self._open.values())]
        goodbyes = (socket.close(GOING_AWAY, "the server is stopping") for socket in sockets)
        for result in await asyncio.gather(*goodbyes, return_exceptions=True):
            if isinstance(result, BaseException) and not isinstance(result, Disconnected):
                raise result

    def _capabilities(self) -> Capabilities:
        limits = self._deployment.limits
        ours = self._pipeline.voices
        return Capabilities(
            voices=(*ours, *(name for name in STOCK_VOICES if name not in ours)),
            max_text_chars=limits.text_chars,
            max_items=limits.items,
            max_input_ms=limits.input_buffer_seconds * 1000,
            max_retained_ms=limits.retained_audio_seconds * 1000,
            max_session_s=limits.session_minutes * 60.0,
            speculate_ms=self._deployment.speculate_ms,
            stage_timeout_s=float(limits.stage_timeout_seconds),
            max_paused_s=float(limits.paused_seconds),
            responses_per_minute=limits.responses_per_minute,
            tokens_per_minute=limits.tokens_per_minute,
            sees=self._pipeline.sees,
        )

    def _limits(self) -> ConnectionLimits:
        limits = self._deployment.limits
        return ConnectionLimits(
            append_bytes=limits.append_bytes,
            outgoing_bytes=limits.outgoing_bytes,
            stalled_seconds=limits.stalled_seconds,
        )

    def _recorder(
        self, session_id: str, seed: str, settings: Settings, can: Capabilities
    ) -> Recorder | None:
        if self._recordings is None:
            return None
        file = (self._recordings / f"{session_id}.jsonl").open("wb")
        return Recorder(file, seed, settings, can)
