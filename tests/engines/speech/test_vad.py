import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.codecs.pcm import from_float, to_float
from antiphon.codecs.resample import resample
from antiphon.engines.chunks import End, EndReason, PcmChunk, Samples, SpeechFrames
from antiphon.engines.deployment import VadConfig
from antiphon.engines.pipeline import ListenRequest
from antiphon.engines.speech.hearing.levels import FRAME_SAMPLES
from antiphon.engines.speech.vad import Ear, VadStage
from antiphon.engines.stage import StageClosed, StageFailure

RATE = 24_000
REQUEST = ListenRequest(request_id="r")

SENTENCES = (
    "Yes.",
    "What time is it?",
    "Please stop talking for a moment.",
    "She bought six apples, three oranges and a bottle of milk.",
    "The doctor told him to drink more water and to walk every day.",
)


class Loudness:
    """A detector whose probability is the frame's mean magnitude."""

    def judge(self, pcm: bytes) -> list[float]:
        frames = np.abs(to_float(pcm)).reshape(-1, FRAME_SAMPLES)
        return [float(frame.mean()) for frame in frames]

    def flush(self) -> list[float]:
        return []


def hear(ear: Ear, pcm: bytes, cuts: Sequence[int], rate: int = RATE) -> list[float]:
    known: list[float] = []
    edges = [0, *sorted(cuts), len(pcm)]
    for start, stop in zip(edges, edges[1:], strict=False):
        known += ear.hear(PcmChunk(pcm[start:stop], rate))
    return known + ear.flush()


def bursts(rate: int) -> bytes:
    """One second: a tone from 300 to 500 ms, silence around it."""
    t = np.arange(rate) / rate
    tone = 0.5 * np.sin(2 * np.pi * 440 * t)
    return from_float(np.where((t >= 0.3) & (t < 0.5), tone, 0).astype(np.float32))


def run(config: VadConfig, check: Callable[[VadStage], Awaitable[None]]) -> None:
    async def main() -> None:
        stage = VadStage(config)
        await stage.start()
        try:
            await check(stage)
        finally:
            await stage.close()

    asyncio.run(main())


async def listen(stage: VadStage, samples: Samples, chunk_ms: int = 20) -> list[float]:
    return await listen_to(stage, from_float(samples), chunk_ms, RATE)


async def listen_to(stage: VadStage, pcm: bytes, chunk_ms: int, rate: int) -> list[float]:
    stream = stage.open(REQUEST)
    step = 2 * rate * chunk_ms // 1000

    async def send() -> None:
        for start in range(0, len(pcm), step):
            await stream.send(PcmChunk(pcm[start : start + step], rate))
        await stream.end()

    sending = asyncio.create_task(send())
    known: list[float] = []
    async for chunk in stream:
        if isinstance(chunk, SpeechFrames):
            assert chunk.frame_ms == 20
            known += chunk.probabilities
        else:
            assert chunk == End(EndReason.COMPLETED)
    await sending
    return known


def between_silences(samples: Samples, noise_db: float | None) -> Samples:
    quiet = np.zeros(RATE, np.float32)
    whole: Samples = np.concatenate([quiet, samples, quiet])
    if noise_db is not None:
        hiss = np.random.default_rng(0).normal(0, 10 ** (noise_db / 20), len(whole))
        whole += hiss.astype(np.float32)
    return whole


def voiced_ms(samples: Samples) -> tuple[float, float]:
    """Where sound within 35 dB of the loudest begins and ends; 5 ms exact."""
    size = RATE // 200
    steps = samples[: len(samples) // size * size].reshape(-1, size)
    level = 20 * np.log10(np.sqrt(np.mean(steps**2, axis=1)) + 1e-9)
    loud = np.flatnonzero(level > level.max() - 35)
    return float(loud[0]) * 5, float(loud[-1] + 1) * 5


def longest_run(values: Sequence[bool]) -> int:
    best = now = 0
    for value in values:
        now = now + 1 if value else 0
        best = max(best, now)
    return best


@pytest.mark.parametrize("rate", [8000, 16_000, 24_000, 44_100, 48_000])
def test_frames_lie_where_the_sound_is_at_any_rate(rate: int) -> None:
    known = hear(Ear(Loudness()), bursts(rate), [], rate)
    assert len(known) == 50
    loud = [index for index, value in enumerate(known) if value > 0.15]
    assert loud == list(range(15, 25))
    assert max(known[:14] + known[26:]) < 1e-3


@given(st.lists(st.integers(0, 2 * RATE), max_size=12))
@settings(max_examples=30, deadline=None)
def test_the_same_frames_come_however_the_audio_is_split(cuts: list[int]) -> None:
    pcm = bursts(RATE)
    assert hear(Ear(Loudness()), pcm, cuts) == hear(Ear(Loudness()), pcm, [])


def test_the_last_frame_is_filled_up_with_silence() -> None:
    assert len(hear(Ear(Loudness()), bytes(2 * (FRAME_SAMPLES + 1)), [], 16_000)) == 2
    assert hear(Ear(Loudness()), b"", [], 16_000) == []
    assert Ear(Loudness()).flush() == []


@pytest.mark.parametrize("use", ["webrtc", "silero"])
def test_silence_and_steady_noise_are_not_speech(use: str) -> None:
    config = VadConfig(use="silero" if use == "silero" else "webrtc")

    async def check(stage: VadStage) -> None:
        for level in (None, -60.0, -50.0, -40.0, -30.0):
            known = await listen(stage, between_silences(np.zeros(RATE, np.float32), level))
            assert len(known) == 150
            assert max(known) < 0.5, f"noise of {level} dB is taken for speech"

    run(config, check)


def test_a_chunk_of_minutes_gives_all_its_frames() -> None:
    async def check(stage: VadStage) -> None:
        assert len(await listen(stage, np.zeros(65 * RATE, np.float32), chunk_ms=65_000)) == 3250
        assert stage.statistics()["frames"] == 3250
        assert stage.statistics()["busy_seconds"] > 0
        assert stage.statistics()["streams_completed"] == 1

    run(VadConfig(), check)


def test_a_rate_that_changes_ends_the_stream() -> None:
    async def check(stage: VadStage) -> None:
        stream = stage.open(REQUEST)
        await stream.send(PcmChunk(bytes(960), 24_000))
        await stream.send(PcmChunk(bytes(960), 16_000))
        *_, end = [chunk async for chunk in stream]
        assert isinstance(end, End)
        assert end.error is not None
        assert end.error.code == "invalid_audio"

    run(VadConfig(), check)


def test_streams_end_when_the_stage_closes() -> None:
    async def main() -> None:
        stage = VadStage(VadConfig())
        with pytest.raises(StageClosed):
            stage.open(REQUEST)
        await stage.start()
        stream = stage.open(REQUEST)
        await stage.close()
        await stage.close()
        (end,) = [chunk async for chunk in stream]
        assert isinstance(end, End)
        assert end.reason is EndReason.FAILED

    asyncio.run(main())


def find_nothing(name: str) -> None:
    """Stands in for ``importlib.util.find_spec`` where nothing is installed."""


@pytest.mark.parametrize(("use", "extra"), [("webrtc", "speech"), ("silero", "silero")])
def test_a_missing_package_is_named_with_its_extra(
    use: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "webrtcvad", None)
    monkeypatch.setattr("importlib.util.find_spec", find_nothing)
    stage = VadStage(VadConfig(use="silero" if use == "silero" else "webrtc"))
    with pytest.raises(StageFailure, match=rf"antiphon\[{extra}\]") as failure:
        asyncio.run(stage.start())
    assert failure.value.error.code == "package_missing"


@pytest.mark.models
@pytest.mark.parametrize("text", SENTENCES)
@pytest.mark.parametrize("noise_db", [None, -60.0, -50.0])
def test_speech_is_flagged_from_its_first_to_its_last_sound(
    text: str, noise_db: float | None, spoken: Callable[[str], Samples]
) -> None:
    clean = between_silences(spoken(text), None)
    begins, ends = voiced_ms(clean)

    async def check(stage: VadStage) -> None:
        known = await listen(stage, between_silences(spoken(text), noise_db))
        speech = [value >= 0.5 for value in known]
        first = speech.index(True)
        last = len(speech) - 1 - speech[::-1].index(True)
        assert begins - 40 <= first * 20 <= begins + 80
        # The usual end is within 40 ms; a click after the last word may add a few frames.
        assert ends - 160 <= (last + 1) * 20 <= ends + 150
        # Within a sentence spoken in one go no pause is long enough to end a turn.
        pauses = longest_run([not value for value in speech[first : last + 1]])
        assert pauses * 20 <= (600 if "," in text or "and" in text else 240)

    run(VadConfig(), check)


@pytest.mark.models
def test_most_ends_are_noticed_within_40_ms(spoken: Callable[[str], Samples]) -> None:
    async def check(stage: VadStage) -> None:
        late: list[float] = []
        for text in SENTENCES:
            whole = between_silences(spoken(text), None)
            known = await listen(stage, whole)
            last = max(index for index, value in enumerate(known) if value >= 0.5)
            late.append((last + 1) * 20 - voiced_ms(whole)[1])
        assert float(np.median(late)) <= 40

    run(VadConfig(), check)


@pytest.mark.models
@pytest.mark.parametrize("rate", [8000, 16_000, 24_000, 44_100, 48_000])
@pytest.mark.parametrize("chunk_ms", [7, 20, 1000])
def test_silero_flags_the_same_speech_at_any_rate(
    rate: int, chunk_ms: int, spoken: Callable[[str], Samples]
) -> None:
    whole = between_silences(spoken(SENTENCES[2]), None)
    begins, ends = voiced_ms(whole)
    pcm = resample(from_float(whole), RATE, rate)

    async def check(stage: VadStage) -> None:
        known = await listen_to(stage, pcm, chunk_ms, rate)
        assert abs(len(known) - len(whole) / 480) <= 1
        speech = [index for index, value in enumerate(known) if value >= 0.5]
        assert begins - 60 <= speech[0] * 20 <= begins + 120
        assert ends - 160 <= speech[-1] * 20 <= ends + 260

    run(VadConfig(use="silero"), check)


@pytest.mark.models
def test_silero_streams_know_nothing_of_each_other(spoken: Callable[[str], Samples]) -> None:
    speech = between_silences(spoken(SENTENCES[1]), None)

    async def check(stage: VadStage) -> None:
        alone = await listen(stage, speech)
        silence = np.zeros(len(speech), np.float32)
        together = await asyncio.gather(listen(stage, speech), listen(stage, silence))
        assert together[0] == alone
        assert max(together[1]) < 0.5

    run(VadConfig(use="silero"), check)
