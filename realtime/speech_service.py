"""Opens speech streams for sockets: how a deployment becomes bounds and settings of each."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence

from ..engines.deployment import Deployment
from ..engines.pipeline import Pipeline
from .connection import ConnectionLimits, Socket
from .service import STOCK_VOICES, RealtimeService
from .speech_connection import SpeechConnection
from .speech_events import SpeechSettings
from .speech_stream import SpeechBounds, SpeechStream
from .speech_wire import Offer, SpeechReader
from .voice_levels import VoiceLevels


class SpeechService:
    """Serves speech streams of one pipeline; they count as sessions."""

    def __init__(
        self,
        deployment: Deployment,
        pipeline: Pipeline,
        sessions: RealtimeService,
        stock: Sequence[str] = STOCK_VOICES,
    ) -> None:
        """``sessions`` counts them, and ends them when the server stops.

        ``stock``: names that mean the default voice where they are not ours.
        """
        self._stock = stock
        self._deployment = deployment
        self._pipeline = pipeline
        self._sessions = sessions
        self.levels = VoiceLevels(pipeline)
        """Of the pipeline's voices, for whoever else needs them."""

    async def serve(self, socket: Socket) -> None:
        """Serve one client to its end; its failure is its own."""
        limits = self._deployment.limits
        ours = self._pipeline.voices
        voices = (*ours, *(name for name in self._stock if name not in ours))
        bounds = SpeechBounds(
            chars=limits.speech_chars,
            # As much is left for events.
            whole_bytes=limits.outgoing_bytes // 2,
            idle_s=float(limits.speech_idle_seconds),
            stage_timeout_s=float(limits.stage_timeout_seconds),
        )
        now = asyncio.get_running_loop().time()
        connection = SpeechConnection(
            f"speech-{secrets.token_hex(8)}",
            socket,
            SpeechStream(SpeechSettings(voices[0]), bounds, now),
            self._pipeline,
            SpeechReader(Offer(voices=voices, chars=limits.speech_chars)),
            ConnectionLimits(
                outgoing_bytes=limits.outgoing_bytes, stalled_seconds=limits.stalled_seconds
            ),
            self.levels,
        )
        with self._sessions.counting(socket):
            await connection.run()
