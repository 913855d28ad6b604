"""Clauses to codes with an engine that is played, on simulated time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from tests.support.codec_lm import (
    BASE,
    CHARS_PER_SECOND,
    MARK,
    SIZE,
    STEP_MS,
    PlayedCodec,
    PlayedEngine,
    PlayedReader,
    PlayedReferences,
    played_family,
    soon,
    tokens_of,
)
from tests.support.loop import run_simulated
from tests.support.waiting import until

from antiphon.engines.chunks import Clause, End, EndReason, Latents, StageError
from antiphon.engines.deployment import Pacing
from antiphon.engines.flow import Flow
from antiphon.engines.pipeline import VoiceRecording
from antiphon.engines.speech.families.family import Family, TokenSampling
from antiphon.engines.speech.talker import TalkRequest
from antiphon.engines.speech.tokens.engine import TokenEngine
from antiphon.engines.speech.tokens.layout import Layout, Slot, TokenBlock
from antiphon.engines.speech.tokens.talker import CodecTalkerParts, CodecTalkerStage, check_fits
from antiphon.engines.speech.voices.offer import VoiceUse
from antiphon.engines.stage import StageClosed, StageFailure

Check = Callable[[CodecTalkerStage], Awaitable[None]]
FIRST, SECOND, THIRD = "Hello there.", " How are you?", " It is a fine day."


def stage_of(
    engines: Sequence[PlayedEngine],
    *,
    reader: PlayedReader | None = None,
    family: Family | None = None,
    codec: PlayedCodec | None = None,
    context_tokens: int = 2048,
) -> CodecTalkerStage:
    reader, codec, left = reader or PlayedReader(), codec or PlayedCodec(), list(engines)

    async def card() -> object:
        return codec.card

    def launch() -> TokenEngine:
        if not left:
            raise StageFailure(StageError("model_unloadable", "there is no engine left"))
        return left.pop(0)

    parts = CodecTalkerParts(
        family=family or played_family(),
        sampling=TokenSampling(temperature=0.5),
        context_tokens=lambda: context_tokens,
        max_requests=4,
        language="en",
        seed=7,
        grammar=True,
        references=PlayedReferences(),
        bind=lambda: reader,
        launch=launch,
        card=card,  # type: ignore[arg-type]
    )
    return CodecTalkerStage(parts, restart_waits=(0.5,))


def run(check: Check, *engines: PlayedEngine, **options: object) -> None:
    """Run with a started stage; afterwards nothing of it may be left."""

    async def main() -> None:
        stage = stage_of(engines, **options)  # type: ignore[arg-type]
        with pytest.raises(StageClosed):
            stage.open(TalkRequest(request_id="r"))
        await stage.start()
        assert stage.state == "ready"
        for engine in engines:
            engine.requests.clear()
            engine.taken = 0
        await check(stage)
        await until(lambda: stage.statistics()["running"] == 0)
        assert not any(engine.live for engine in engines)
        await stage.close()
        assert stage.state == "closed"
        assert not asyncio.all_tasks() - {asyncio.current_task()}

    run_simulated(main())


async def talk(
    stage: CodecTalkerStage, *clauses: str, pause: float = 0.0, **request: object
) -> tuple[list[Latents], End]:
    stream = stage.open(TalkRequest(request_id="r", **request))  # type: ignore[arg-type]

    async def feed() -> None:
        for clause in clauses:
            await stream.send(Clause(clause))
            await asyncio.sleep(pause)
        await stream.end()

    feeding = asyncio.create_task(feed())
    items = [item async for item in stream]
    await feeding
    end = items.pop()
    assert isinstance(end, End)
    return [item for item in items if not isinstance(item, End)], end


def codes_of(tokens: list[int]) -> np.ndarray:
    return np.array(tokens).reshape(-1, 2).T - [[BASE], [BASE + SIZE]]


def whole(made: list[Latents]) -> np.ndarray:
    return np.concatenate([each.frames for each in made], axis=1)


@pytest.mark.parametrize("per_piece", [1, 2, 5, 1000])
def test_the_codes_of_an_utterance_are_those_of_its_tokens(per_piece: int) -> None:
    engine = PlayedEngine(per_piece=per_piece)

    async def check(stage: CodecTalkerStage) -> None:
        made, end = await talk(stage, FIRST)
        assert end.reason is EndReason.COMPLETED
        assert end.usage.output_tokens == len(tokens_of(FIRST))
        assert [each.last for each in made] == [False] * (len(made) - 1) + [True]
        assert whole(made).dtype == np.int32
        np.testing.assert_array_equal(whole(made), codes_of(tokens_of(FIRST)))
        told = stage.statistics()
        assert told["audio_seconds"] == pytest.approx(whole(made).shape[1] * STEP_MS / 1000)
        assert (told["utterances"], told["clauses"], told["truncated"]) == (1, 1, 0)

    run(check, engine)


def test_the_engine_is_asked_as_the_family_and_the_deployment_say() -> None:
    engine, reader = PlayedEngine(), PlayedReader()
    family = played_family(normalise=str.lower)

    async def check(stage: CodecTalkerStage) -> None:
        await talk(stage, FIRST, voice="bob")
        (asked,) = engine.requests
        assert asked.tokens == [ord(each) for each in FIRST.lower()]
        assert asked.stop == reader.stop
        assert asked.sampling == TokenSampling(temperature=0.5)
        assert (asked.seed, asked.grammar) == (7, reader.layout)
        assert reader.asked[-1].voice == "bob"
        expected = len(FIRST) / CHARS_PER_SECOND * family.tokens_per_second
        assert 1.5 * expected < asked.max_tokens < 1.7 * expected + 3 * family.tokens_per_second

    run(check, engine, reader=reader, family=family)


def test_what_waits_is_said_in_one_go_and_nothing_is_waited_for() -> None:
    engine = PlayedEngine(seconds=0.01)

    async def check(stage: CodecTalkerStage) -> None:
        made, _ = await talk(stage, FIRST, SECOND, THIRD)
        said = ["".join(map(chr, each.tokens)) for each in engine.requests]
        assert said == [FIRST, (SECOND + THIRD).strip()]
        assert [each.clauses for each in made if each.last] == [1, 2]
        assert stage.statistics()["clauses"] == 3

    run(check, engine)


def test_longer_texts_than_the_model_says_are_parted() -> None:
    engine = PlayedEngine()

    async def check(stage: CodecTalkerStage) -> None:
        long = " word" * 30
        made, _ = await talk(stage, FIRST, long, SECOND)
        said = ["".join(map(chr, each.tokens)) for each in engine.requests]
        assert " ".join(said).split() == (FIRST + long + SECOND).split()
        assert max(map(len, said)) <= 60
        assert sum(each.clauses for each in made if each.last) == 3

    run(check, engine)


def test_a_text_of_syllables_takes_longer_than_one_of_letters() -> None:
    engine = PlayedEngine()

    async def check(stage: CodecTalkerStage) -> None:
        await talk(stage, "\u4f60" * 45)
        said = ["".join(map(chr, each.tokens)) for each in engine.requests]
        # Of 60 letters a third.
        assert max(map(len, said)) <= 20
        assert sum(map(len, said)) == 45
        assert engine.requests[0].max_tokens > 1.6 * 20 * 3 / CHARS_PER_SECOND * 100

    run(check, engine)


@pytest.mark.parametrize("clauses", [(), ("...",), (" ", "- -")])
def test_nothing_to_say_asks_for_nothing(clauses: tuple[str, ...]) -> None:
    engine = PlayedEngine()

    async def check(stage: CodecTalkerStage) -> None:
        assert await talk(stage, *clauses) == ([], End(EndReason.COMPLETED))
        assert not engine.requests

    run(check, engine)


def test_an_utterance_that_does_not_end_is_cut_and_said_to_be() -> None:
    engine = PlayedEngine(answer=lambda text: tokens_of(text, stretch=30))

    async def check(stage: CodecTalkerStage) -> None:
        made, end = await talk(stage, FIRST, SECOND)
        assert end.reason is EndReason.LENGTH
        # Sound is kept, and goes on with the next.
        assert len([each for each in made if each.last]) == len(engine.requests) == 2
        assert whole(made).shape[1] == sum(each.max_tokens // 2 for each in engine.requests)
        assert stage.statistics()["truncated"] == 2

    run(check, engine)


def test_codes_of_which_nothing_can_be_made_are_left_out_and_counted() -> None:
    def broken(text: str) -> list[int]:
        tokens = tokens_of(text)
        # A frame without its second half, and the first half of one at the end.
        return [*tokens[:4], BASE, *tokens[4:], BASE]

    async def check(stage: CodecTalkerStage) -> None:
        made, end = await talk(stage, FIRST)
        assert end.reason is EndReason.COMPLETED
        np.testing.assert_array_equal(whole(made), codes_of(tokens_of(FIRST)))
        assert stage.statistics()["dropped_tokens"] == 2

    run(check, PlayedEngine(answer=broken, per_piece=3))


def test_a_text_for_which_the_context_has_no_room_is_refused() -> None:
    async def check(stage: CodecTalkerStage) -> None:
        made, end = await talk(stage, "a" * 59)
        assert not made
        assert end.error is not None
        assert end.error.code == "context_full"

    run(check, PlayedEngine(), context_tokens=100)


def test_no_more_is_taken_than_the_listener_may_be_ahead() -> None:
    engine = PlayedEngine(seconds=0.001)

    async def check(stage: CodecTalkerStage) -> None:
        flow = Flow(Pacing(lead_ms=500))
        flow.played(0, 0)
        stream = stage.open(TalkRequest(request_id="r", flow=flow))
        made: list[Latents] = []

        async def read() -> None:
            async for item in stream:
                if isinstance(item, Latents):
                    made.append(item)
                    flow.made(item.frames.shape[1] * STEP_MS)

        reading = asyncio.create_task(read())
        await stream.send(Clause("x" * 50))
        await stream.end()
        await asyncio.sleep(30)
        assert 500 <= whole(made).shape[1] * STEP_MS <= 500 + STEP_MS
        assert engine.taken * STEP_MS / 2 <= 500 + STEP_MS
        flow.played(0, 1e9)
        await reading
        assert whole(made).shape[1] * STEP_MS == 5000
        # What piled up meanwhile says nothing of how fast the model writes.
        gaps = [each.held_ms for each in made]
        assert gaps[0] == 0
        assert max(gaps) > 1000
        assert all(gaps[gaps.index(max(gaps)) : -1])

    run(check, engine)


def test_cancel_aborts_in_the_engine_at_once() -> None:
    engine = PlayedEngine(seconds=0.01)

    async def check(stage: CodecTalkerStage) -> None:
        stream = stage.open(TalkRequest(request_id="r"))
        await stream.send(Clause("x" * 50))
        items = aiter(stream)
        await anext(items)
        stream.cancel()
        assert [item async for item in items][-1] == End(EndReason.CANCELLED)
        assert engine.aborted == [each.request_id for each in engine.requests]
        assert not engine.live

    run(check, engine)


def test_a_dead_engine_ends_streams_to_be_tried_again_and_is_replaced() -> None:
    first, second = PlayedEngine(seconds=0.01), PlayedEngine()

    async def check(stage: CodecTalkerStage) -> None:
        stream = stage.open(TalkRequest(request_id="r"))
        await stream.send(Clause("x" * 50))
        items = aiter(stream)
        await anext(items)
        first.die()
        *_, end = [item async for item in items]
        assert isinstance(end, End)
        assert end.error is not None
        assert end.error.retry_after_ms is not None
        with pytest.raises(StageFailure) as refused:
            stage.open(TalkRequest(request_id="s"))
        assert refused.value.error.retry_after_ms is not None
        assert stage.state == "restarting"
        await soon(lambda: stage.state == "ready")
        made, end = await talk(stage, FIRST)
        assert end.reason is EndReason.COMPLETED
        assert made
        assert first.closed
        assert stage.statistics()["restarts"] == 1

    run(check, first, second)


def test_an_error_of_the_engine_fails_the_stream() -> None:
    engine = PlayedEngine()

    async def check(stage: CodecTalkerStage) -> None:
        engine.finish = "error"
        _, end = await talk(stage, FIRST)
        assert end.reason is EndReason.FAILED
        assert end.error is not None
        assert end.error.code == "generation_failed"

    run(check, engine)


@pytest.mark.parametrize(
    ("request_of", "code", "named"),
    [
        ({"speed": 1.5}, "speed_unsupported", "speed"),
        ({"voice": "eve"}, "voice_unknown", "ada, bob"),
    ],
)
def test_what_the_model_can_not_do_is_refused_by_name(
    request_of: dict[str, object], code: str, named: str
) -> None:
    async def check(stage: CodecTalkerStage) -> None:
        with pytest.raises(StageFailure) as refused:
            stage.open(TalkRequest(request_id="r", **request_of))  # type: ignore[arg-type]
        assert refused.value.error.code == code
        assert named in refused.value.error.message

    run(check, PlayedEngine())


def test_a_voice_of_a_recording_speaks_to_the_end_though_it_be_removed() -> None:
    engine, reader = PlayedEngine(), PlayedReader()

    async def check(stage: CodecTalkerStage) -> None:
        recording = VoiceRecording(name="eve", audio=Path(), text="Hi.", consent="Yes.")
        await stage.add_voice(recording)
        assert stage.voices == ("ada", "bob", "eve")
        use = VoiceUse()
        made, _ = await talk(stage, FIRST, voice="eve", use=use)
        assert made[0].lead is not None
        assert [each.lead for each in made[1:]] == [None] * (len(made) - 1)
        await stage.remove_voice("eve")
        # Of the same request, after a pause.
        await talk(stage, SECOND, voice="eve", use=use)
        assert reader.asked[-1].reference is not None
        with pytest.raises(StageFailure):
            await stage.remove_voice("ada")
        with pytest.raises(StageFailure):
            stage.open(TalkRequest(request_id="r", voice="eve"))

    run(check, engine, reader=reader)


@pytest.mark.parametrize(("speaks", "voices"), [(True, ("played",)), (False, ())])
def test_a_model_without_voices_has_one_if_it_speaks_without(
    speaks: bool, voices: tuple[str, ...]
) -> None:
    reader = PlayedReader(needs_voice=not speaks)

    async def check(stage: CodecTalkerStage) -> None:
        assert stage.voices == voices
        if not voices:
            with pytest.raises(StageFailure, match="/v1/audio/voices"):
                stage.open(TalkRequest(request_id="r"))

    run(check, PlayedEngine(), reader=reader, family=played_family(voices=()))


def test_words_of_the_model_are_told_where_it_says_them() -> None:
    def marked(text: str) -> list[int]:
        tokens = tokens_of(text)
        return [MARK, *tokens[:20], MARK, *tokens[20:]]

    async def check(stage: CodecTalkerStage) -> None:
        made, _ = await talk(stage, FIRST)
        at, words = 0.0, list[tuple[str, float]]()
        for each in made:
            words += [(word.text, at + word.start_ms) for word in each.words]
            # Told with the frames in which it begins.
            assert all(0 <= word.start_ms < each.frames.shape[1] * STEP_MS for word in each.words)
            at += each.frames.shape[1] * STEP_MS
        assert words == [("w0", 0), ("w1", 10 * STEP_MS)]

    run(check, PlayedEngine(answer=marked), reader=PlayedReader(marked=True))


def test_codes_that_the_decoder_has_not_are_refused_at_the_start() -> None:
    small = PlayedCodec(sizes=(SIZE, SIZE // 2))
    with pytest.raises(StageFailure, match="64 codes of codebook 1, and played has 32"):
        check_fits(PlayedReader(), small.card)
    one = Layout(slots=(Slot(0),), blocks=(TokenBlock(0, 4),), steps=1, codebooks=1)
    with pytest.raises(StageFailure, match="1 codebooks, and played has 2"):
        check_fits(PlayedReader(layout=one), PlayedCodec().card)

    async def main() -> None:
        engine = PlayedEngine()
        stage = stage_of([engine], codec=small)
        with pytest.raises(StageFailure):
            await stage.start()
        assert engine.closed

    run_simulated(main())
