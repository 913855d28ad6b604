"""Talker and code2wav with several voices, all of them played."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.engines.speech.played_voices import PlayedOffer, PlayedShelf, model
from tests.support.waiting import until

from antiphon.engines.chunks import Clause, End, EndReason, Latents, PcmChunk, StageError
from antiphon.engines.deployment import Code2wavConfig, TalkerConfig
from antiphon.engines.pipeline import OUTPUT_RATE
from antiphon.engines.speech.code2wav import Code2wavStage, DecodeRequest
from antiphon.engines.speech.talker import TalkerStage, TalkRequest
from antiphon.engines.speech.voices.family import Draft, VoiceModel
from antiphon.engines.speech.voices.offer import VoiceUse
from antiphon.engines.stage import StageFailure

PATIENCE = 30
BROKEN = StageFailure(StageError("model_unusable", "it is broken"))


class PlayedDraft:
    def __init__(self, frames: NDArray[np.float32]) -> None:
        self._frames = frames

    @property
    def left(self) -> int:
        return int(self._frames.shape[1])

    def next(self, size: int) -> Latents:
        made, self._frames = self._frames[:, :size], self._frames[:, size:]
        return Latents(made, last=not self.left)


class PlayedVoice:
    """Both halves of a model, and what is done with them; ``level`` tells it from others."""

    def __init__(
        self,
        *voices: str,
        level: float,
        rate: int = OUTPUT_RATE,
        hop: int = 240,
        slow: bool = False,
    ) -> None:
        language = f"l{level:.0f}"
        self.model: VoiceModel = model(*voices, rate=rate, hop=hop, language=language, slow=slow)
        self.level = level
        self.said: list[tuple[str, str]] = []
        self.loads = 0
        self.fails = False
        self.open = threading.Event()
        """Loads wait for it."""

        self.open.set()
        self.speaks = threading.Event()
        """Clauses wait for it."""

        self.speaks.set()
        self.offer = PlayedOffer(self.model, talker=self._load, decoder=self._load)

    def draft(self, text: str, speed: float, voice: str) -> Draft | None:
        self.said.append((voice, text))
        assert self.speaks.wait(PATIENCE)
        return PlayedDraft(np.full((1, len(text)), self.level / 100, np.float32))

    def run(
        self, frames: NDArray[np.float32], left: int = 0, right: int = 0
    ) -> NDArray[np.float32]:
        kept = frames[:, 0, left : frames.shape[2] - right]
        return np.repeat(kept, self.model.hop, axis=1)

    def _load(self) -> PlayedVoice:
        self.loads += 1
        assert self.open.wait(PATIENCE)
        if self.fails:
            raise BROKEN
        return self


class Rig:
    """Both stages on one shelf."""

    def __init__(self, *voices: PlayedVoice, loaded: int = 4) -> None:
        self.shelf = PlayedShelf(*(voice.offer for voice in voices))
        self.talker = TalkerStage(TalkerConfig(loaded=loaded), Path(), shelf=self.shelf)
        self.code2wav = Code2wavStage(
            Code2wavConfig(), "played", Path(), shelf=self.shelf, keep=loaded
        )

    async def say(
        self, voice: str | None, *texts: str, use: VoiceUse | None = None
    ) -> NDArray[np.int16]:
        """The samples of what is said."""
        use = use or VoiceUse()
        talk = self.talker.open(TalkRequest(request_id="r", voice=voice, use=use))
        sound = self.code2wav.open(DecodeRequest(request_id="r", voice=voice, use=use))
        for text in texts:
            await talk.send(Clause(text))
        await talk.end()
        async for latents in talk:
            if isinstance(latents, End):
                ended(latents)
            else:
                await sound.send(latents)
        await sound.end()
        pcm = b""
        async for item in sound:
            if isinstance(item, End):
                ended(item)
            elif isinstance(item, PcmChunk):
                pcm += item.pcm
        return np.frombuffer(pcm, np.int16)

    def loaded(self) -> list[float]:
        return [stage.statistics()["voices_loaded"] for stage in (self.talker, self.code2wav)]


def ended(end: End) -> None:
    if end.error is not None:
        raise StageFailure(end.error)
    assert end.reason is EndReason.COMPLETED


def with_rig(check: Callable[[Rig], Awaitable[None]], rig: Rig, *voices: PlayedVoice) -> None:
    async def main() -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                await rig.talker.start()
                await rig.code2wav.start()
                for voice in voices:
                    # Those of warming up.
                    voice.said.clear()
                    voice.loads = 0
                await check(rig)
        finally:
            for voice in voices:
                voice.open.set()
                voice.speaks.set()
            await rig.talker.close()
            await rig.code2wav.close()

    asyncio.run(main())


def test_each_request_has_its_voice() -> None:
    joe = PlayedVoice("joe", level=10)
    two = PlayedVoice("ann", "bob", level=20, rate=16_000, hop=320)

    async def check(rig: Rig) -> None:
        assert rig.talker.voices == ("joe", "ann", "bob")
        assert [rig.talker.language(name) for name in (None, "joe", "bob")] == ["l10", "l10", "l20"]
        assert [card.model for card in rig.talker.voice_cards] == ["model-joe", *["model-ann"] * 2]
        assert rig.loaded() == [1, 1]
        said = await asyncio.gather(
            *(rig.say(voice, "a" * 50, "b" * 50) for voice in (None, "joe", "ann", "bob"))
        )
        # A second of 10 ms frames, or two of 20 ms.
        lengths = [len(samples) / OUTPUT_RATE for samples in said]
        assert lengths == pytest.approx([1, 1, 2, 2], abs=0.01)
        levels = [np.median(samples) / 32768 for samples in said]
        assert levels == pytest.approx([0.1, 0.1, 0.2, 0.2], abs=0.01)
        assert {voice for voice, _ in joe.said} == {"joe"}
        assert {voice for voice, text in two.said if text[0] in "ab"} == {"ann", "bob"}
        assert (joe.loads, two.loads) == (0, 2)
        assert rig.loaded() == [2, 2]

    with_rig(check, Rig(joe, two), joe, two)


def test_nobody_else_waits_for_a_slow_voice() -> None:
    joe, ann = PlayedVoice("joe", level=10), PlayedVoice("ann", level=20, slow=True)

    async def check(rig: Rig) -> None:
        assert len(await rig.say("ann", "a" * 30))
        ann.speaks.clear()
        saying = asyncio.create_task(rig.say("ann", "b" * 30))
        await until(lambda: ("ann", "b" * 30) in ann.said)
        assert len(await rig.say("joe", "c" * 30))
        assert not saying.done()
        ann.speaks.set()
        assert len(await saying)
        told = rig.talker.statistics()
        # What slow voices take is no part of what one more reply is reckoned to take.
        assert told["audio_seconds"] == pytest.approx(0.3)
        assert told["slow_audio_seconds"] == pytest.approx(0.6)

    with_rig(check, Rig(joe, ann), joe, ann)


def test_nobody_else_waits_for_a_load_and_both_halves_load_at_once() -> None:
    joe, ann = PlayedVoice("joe", level=10), PlayedVoice("ann", level=20)
    ann.open.clear()

    async def check(rig: Rig) -> None:
        saying = asyncio.create_task(rig.say("ann", "a" * 30))
        await until(lambda: ann.loads == 2)
        assert len(await rig.say("joe", "b" * 30))
        assert not saying.done()
        ann.open.set()
        assert len(await saying)

    with_rig(check, Rig(joe, ann), joe, ann)


def test_a_load_begins_when_a_request_is_opened() -> None:
    joe, ann = PlayedVoice("joe", level=10), PlayedVoice("ann", level=20)

    async def check(rig: Rig) -> None:
        talk = rig.talker.open(TalkRequest(request_id="r", voice="ann"))
        sound = rig.code2wav.open(DecodeRequest(request_id="r", voice="ann"))
        await until(lambda: rig.loaded() == [2, 2])
        # Somebody waits, so that one word has to do to warm it up.
        assert len(ann.said) == 1
        talk.cancel()
        sound.cancel()

    with_rig(check, Rig(joe, ann), joe, ann)


def test_a_load_that_fails_fails_its_requests_alone_and_is_tried_again() -> None:
    joe, ann = PlayedVoice("joe", level=10), PlayedVoice("ann", level=20)
    ann.fails = True

    async def check(rig: Rig) -> None:
        failed = await asyncio.gather(
            rig.say("ann", "a"), rig.say("ann", "b"), rig.say("joe", "c"), return_exceptions=True
        )
        assert [str(each) for each in failed[:2]] == ["model_unusable: it is broken"] * 2
        assert isinstance(failed[2], np.ndarray)
        ann.fails = False
        assert len(await rig.say("ann", "a"))

    with_rig(check, Rig(joe, ann), joe, ann)


def test_the_voice_used_last_stays_and_the_default_always() -> None:
    voices = [PlayedVoice(name, level=10) for name in ("joe", "ann", "bob")]
    _, ann, bob = voices

    async def check(rig: Rig) -> None:
        for name in ("ann", "ann", "bob", "ann", "joe"):
            assert len(await rig.say(name, "some words"))
        assert (ann.loads, bob.loads) == (4, 2)
        assert rig.loaded() == [2, 2]
        assert voices[0].loads == 0

    with_rig(check, Rig(*voices, loaded=2), *voices)


def test_a_voice_that_is_removed_while_it_speaks_finishes() -> None:
    joe, ann = PlayedVoice("joe", level=10), PlayedVoice("ann", level=20)

    async def check(rig: Rig) -> None:
        use = VoiceUse()
        assert len(await rig.say("ann", "the first paragraph", use=use))
        rig.shelf.take_away(ann.offer)
        assert rig.talker.voices == ("joe",)
        assert rig.loaded() == [1, 1]
        # The same request goes on, and no other.
        assert len(await rig.say("ann", "the second", use=use))
        assert ann.loads == 2
        with pytest.raises(StageFailure, match="voice_unknown"):
            await rig.say("ann", "a")

    with_rig(check, Rig(joe, ann), joe, ann)


def test_costs_are_those_of_the_default_voice() -> None:
    joe, ann = PlayedVoice("joe", level=10), PlayedVoice("ann", level=20)

    async def check(rig: Rig) -> None:
        await rig.say("ann", "some words", "and more")
        assert rig.code2wav.statistics()["samples"] == 0
        await rig.say("joe", "some words", "and more")
        assert rig.code2wav.statistics()["samples"] > 0

    with_rig(check, Rig(joe, ann), joe, ann)
