"""A question is asked aloud, and what comes back is what was answered, said well."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import dataclass

import pytest
from tests.support.server import Server
from tests.support.speech import (
    BYTES_PER_MS,
    Ear,
    Speaker,
    in_real_time,
    plain_words,
    silence,
    word_errors,
)

from antiphon.realtime.client import RealtimeClient, open_session

pytestmark = [pytest.mark.models, pytest.mark.server, pytest.mark.timeout(180)]

QUESTIONS = (
    "What is the capital of France?",
    "What is the color of the sky?",
    "What do cats like to eat?",
    "Can you tell me about the moon?",
)

MAX_TOKENS = 60
"""Small models ramble; about 15 s of speech tell enough of how it is spoken."""

TURN_SECONDS = 60.0


@dataclass
class Turn:
    """One question and its answer, as the client got them."""

    asked: str
    understood: str
    answered: str
    pcm: bytes


async def ask(client: RealtimeClient, question: str, pcm: bytes) -> Turn:
    """Ask aloud, in real time, and wait for the whole answer."""
    understood = answered = None
    audio = bytearray()

    async def speak() -> None:
        async for piece in in_real_time(silence(300) + pcm + silence(1000)):
            await client.append(piece)

    async with asyncio.timeout(TURN_SECONDS), asyncio.TaskGroup() as tasks:
        tasks.create_task(speak())
        done = None
        while done is None or understood is None:
            event = await client.receive()
            match event["type"]:
                case "response.output_audio.delta":
                    audio += base64.b64decode(event["delta"])
                case "conversation.item.input_audio_transcription.completed":
                    understood = event["transcript"]
                case "response.output_audio_transcript.done":
                    answered = event["transcript"]
                case "response.done":
                    done = event["response"]
                case "error":
                    raise AssertionError(event)
                case _:
                    pass
    assert done["status"] in ("completed", "incomplete"), done
    assert answered
    return Turn(question, understood, answered, bytes(audio))


def test_spoken_questions_are_understood_and_answered_aloud(
    embedded_server: Server, speaker: Speaker, ear: Ear
) -> None:
    said = {question: speaker.say(question).pcm for question in QUESTIONS}

    async def main() -> list[Turn]:
        turns: list[Turn] = []
        for question in QUESTIONS:
            async with open_session(embedded_server.ws_url) as client:
                transcription = {"model": "whisper-1"}
                session = {
                    "audio": {"input": {"transcription": transcription}},
                    "max_output_tokens": MAX_TOKENS,
                }
                await client.send("session.update", session=session)
                turns.append(await ask(client, question, said[question]))
        return turns

    turns = asyncio.run(main())
    errors = words = 0
    for turn in turns:
        assert plain_words(turn.understood) == plain_words(turn.asked)
        heard = ear.hear(turn.pcm)
        found = word_errors(turn.answered, heard)
        print(f"{turn.answered!r} was heard as {heard!r}: {found}")
        errors, words = errors + found[0], words + found[1]
        # Speech takes 200 to 700 ms a word, pauses included.
        ms = len(turn.pcm) / BYTES_PER_MS / len(plain_words(turn.answered))
        assert 200 <= ms <= 700
    assert words >= 3 * len(QUESTIONS)
    assert errors / words <= 0.1
    assert "paris" in plain_words(turns[0].answered)
