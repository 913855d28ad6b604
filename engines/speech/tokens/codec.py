"""The codec of a deployment: loaded once, by the stage that decodes, and known to the talker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from ..decoders.decoder import Decoder, DecoderCard, DecoderOptions, Encoder, module_of


class Codec:
    """A codec in a folder; nothing of it is loaded before it is asked for."""

    def __init__(
        self,
        name: str,
        folder: Callable[[], Path],
        options: DecoderOptions,
        *,
        load: Callable[[], Decoder] | None = None,
    ) -> None:
        """``name``: a key of :data:`..decoders.decoder.DECODERS`.

        ``folder``: finds it; may raise ``StageFailure``. ``load``: in place of the codec's own.
        """
        self.name = name
        self.options = options
        self._folder = folder
        self._load = load
        self._card: DecoderCard | None = None
        self._known = asyncio.Event()

    async def card(self) -> DecoderCard:
        """What the decoder is; waits until it is loaded."""
        while self._card is None:
            await self._known.wait()
        return self._card

    def load(self) -> Decoder:
        """Load the decoder; blocks.

        Raises:
            StageFailure: a package is missing, or the folder can't be used.
        """
        if self._load is not None:
            return self._load()
        return module_of(self.name).load(self._folder(), self.options)

    def load_encoder(self) -> Encoder:
        """Load the encoder; blocks.

        Raises:
            StageFailure: as :meth:`load`; or the codec has none (``encoder_missing``).
        """
        return module_of(self.name).load_encoder(self._folder(), self.options)

    def loaded(self, card: DecoderCard) -> None:
        """Note that the decoder is there; for use on the event loop."""
        self._card = card
        self._known.set()
