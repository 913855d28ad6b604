"""Opens sessions for sockets: how a deployment becomes settings and bounds of each."""

from __future__ import annotations

import secrets
from pathlib import Path

from ..engines.deployment import Deployment
from ..engines.pipeline import Pipeline
from ..sessions.session import Session
from ..sessions.settings import Capabilities, Settings
from .connection import Connection, ConnectionLimits, Socket
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


class RealtimeService:
    """Serves realtime sessions of one pipeline; counts and bounds them."""

    def __init__(
        self, deployment: Deployment, pipeline: Pipeline, recordings: Path | None = None
    ) -> None:
        self._deployment = deployment
        self._pipeline = pipeline
        self._recordings = recordings
        self._open: dict[str, Session] = {}
        self._opened = 0

    @property
    def open_sessions(self) -> int:
        """How many sessions there are now."""
        return len(self._open)

    @property
    def opened(self) -> int:
        """How many sessions there have been."""
        return self._opened

    @property
    def full(self) -> bool:
        """Whether another session would be one too many."""
        return len(self._open) >= self._deployment.limits.sessions

    def statistics(self) -> dict[str, dict[str, float]]:
        """Return counters of the open sessions, by session id."""
        return {
            session_id: {
                "epoch": session.epoch,
                "responses": session.counters.responses,
                "interruptions": session.counters.interruptions,
                "drafts_started": session.counters.drafts_started,
                "drafts_used": session.counters.drafts_used,
                "stale_dropped": session.counters.stale_dropped,
            }
            for session_id, session in self._open.items()
        }

    async def serve(self, socket: Socket, *, extensions: bool) -> None:
        """Serve one client to its end; its failure is its own."""
        seed = secrets.token_hex(16)
        can = self._capabilities()
        settings = Settings(
            instructions=self._deployment.instructions,
            voice=can.voices[0],
            extensions=extensions,
        )
        session = Session(seed, settings, can)
        encoder = WireEncoder(
            seed,
            session_id=session.id,
            conversation_id=session.conversation_id,
            model=self._deployment.model,
            voices=self._pipeline.voices,
        )
        recorder = self._recorder(session.id, seed, settings, can)
        connection = Connection(socket, session, self._pipeline, encoder, self._limits(), recorder)
        self._open[session.id] = session
        self._opened += 1
        try:
            await connection.run()
        finally:
            del self._open[session.id]

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
