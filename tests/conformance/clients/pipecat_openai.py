"""The ``pipecat-ai`` package: ``OpenAIRealtimeLLMService`` in a pipeline without a transport."""

# The package lies in an environment of its own, where no checker looks.
# mypy: disable-error-code="import-not-found,misc"
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import asyncio
import sys
from base64 import b64decode
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from loguru import logger
from pipecat.adapters.llm.schemas.function_schema import FunctionSchema
from pipecat.adapters.llm.schemas.tools_schema import ToolsSchema
from pipecat.frames.frames import (
    EndFrame,
    Frame,
    InputAudioRawFrame,
    InterruptionFrame,
    LLMRunFrame,
    LLMUpdateSettingsFrame,
    TranscriptionFrame,
    TTSAudioRawFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.llm_service import FunctionCallParams
from pipecat.services.openai.realtime import events
from pipecat.services.openai.realtime.llm import OpenAIRealtimeLLMService
from pipecat.workers.runner import WorkerRunner

from .harness import (
    BYTES_PER_MS,
    HEARD_MS,
    INSTRUCTIONS,
    RATE,
    TOOL_DESCRIPTION,
    TOOL_NAME,
    TOOL_PARAMETERS,
    TOOL_QUESTION,
    WEATHER,
    WRITTEN_QUESTION,
    Arrivals,
    Job,
    Microphone,
    Report,
    check,
    check_done,
    read_speech,
    run,
)

_parse = events.parse_server_event

ATTEMPTS = 3
"""Questions asked aloud for one long answer."""


class Watch(FrameProcessor):
    """Passes every frame on, and keeps those of some kinds that go one way."""

    def __init__(self, seen: Arrivals, direction: FrameDirection, *kinds: type[Frame]) -> None:
        super().__init__()
        self._seen = seen
        self._direction_seen = direction
        self._kinds = kinds

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Keep it, and pass it on."""
        await super().process_frame(frame, direction)
        if direction is self._direction_seen and isinstance(frame, self._kinds):
            self._seen.add(frame)
        await self.push_frame(frame, direction)


class Conversation:
    """One connection: a pipeline whose context begins with a written question."""

    def __init__(self, job: Job, report: Report, question: str, tool_choice: str = "auto") -> None:
        self._job = job
        self._report = report
        self._frames = Arrivals()
        self._raw = Arrivals()
        """Server events, as the service parses them."""

        self._called: list[Any] = []
        events.parse_server_event = self._parse_event
        self._llm = self._service(tool_choice)
        self._llm.register_function(TOOL_NAME, self._get_weather)
        context = LLMContext(
            [{"role": "user", "content": question}], tools=ToolsSchema(standard_tools=[TOOL])
        )
        aggregators = LLMContextAggregatorPair(context)
        up, down = FrameDirection.UPSTREAM, FrameDirection.DOWNSTREAM
        pipeline = Pipeline(
            [
                aggregators.user(),
                # The aggregator takes transcripts for itself.
                Watch(self._frames, up, TranscriptionFrame),
                self._llm,
                Watch(self._frames, down, TTSAudioRawFrame, InterruptionFrame),
                aggregators.assistant(),
            ]
        )
        self._worker = PipelineWorker(
            pipeline,
            params=PipelineParams(
                audio_in_sample_rate=RATE, audio_out_sample_rate=RATE, enable_metrics=True
            ),
        )
        self._worker.add_event_handler("on_pipeline_error", self._note_error)
        self._microphone = Microphone(self._push)

    def _service(self, tool_choice: str) -> OpenAIRealtimeLLMService:
        heard = events.AudioInput(
            transcription=events.InputAudioTranscription(model="whisper-1"),
            turn_detection=events.TurnDetection(silence_duration_ms=500),
        )
        return OpenAIRealtimeLLMService(
            api_key="none",
            base_url=self._job.ws_url,
            settings=OpenAIRealtimeLLMService.Settings(
                model=self._job.model,
                system_instruction=INSTRUCTIONS,
                session_properties=self._properties(heard, tool_choice),
            ),
        )

    def _properties(
        self, heard: events.AudioInput | None, tool_choice: Any
    ) -> events.SessionProperties:
        audio = events.AudioConfiguration(input=heard, output=events.AudioOutput(voice="marin"))
        return events.SessionProperties(audio=audio, tool_choice=tool_choice)

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Conversation, None]:
        """Run the pipeline until the end of the block, then let it end by itself."""
        runner = WorkerRunner(handle_sigint=False)
        await runner.add_workers(self._worker)
        running = asyncio.create_task(runner.run())
        try:
            yield self
        finally:
            await self._worker.cancel()
            await running

    async def begin(self) -> None:
        """Let the model answer the first question."""
        await self._worker.queue_frame(LLMRunFrame())

    async def connect(self) -> None:
        """Wait for the session to begin."""
        await self._server("session.created", 0)

    async def configure(self) -> None:
        """Wait for the settings to be taken."""
        await self._raw.first(
            0,
            lambda event: (
                event.type == "session.updated"
                and event.session.instructions == INSTRUCTIONS
                and [tool["name"] for tool in event.session.tools or []] == [TOOL_NAME]
            ),
            "update with instructions and tools",
        )

    async def text_turn(self) -> None:
        """Hear the answer to the question that the context began with."""
        await self.begin()
        await self._answer(0)
        await self._sounds(0)

    async def spoken_turn(self) -> None:
        """Ask aloud."""
        start, raw_start = len(self._frames.all), len(self._raw.all)
        self._microphone.say(read_speech(self._job.question))
        with self._report.part("transcription"):
            told = await self._frame(TranscriptionFrame, start)
            wanted = "sky" if self._job.scripted else "france"
            check(wanted in told.text.lower(), told.text)
        await self._answer(raw_start)
        await self._sounds(start)

    async def tool_call(self) -> None:
        """Let the model call the function, and go on with what it returned."""
        await self.begin()
        output = await self._raw.first(
            0,
            lambda event: (
                event.type == "conversation.item.added"
                and event.item.type == "function_call_output"
            ),
            "output of the function",
        )
        check([each["city"] for each in self._called], "the function did not run")
        check(WEATHER in output.item.output, output.item.output)
        await self._answer(self._raw.all.index(output))
        await self._sounds(0)

    async def interruption(self) -> None:
        """Ask aloud, and speak over the answer."""
        raw_start = await self._long_answer()
        reply = await self._server("response.output_audio.delta", raw_start)
        cut, raw_cut = len(self._frames.all), len(self._raw.all)
        self._microphone.say(read_speech(self._job.interjection))
        await self._server("input_audio_buffer.speech_started", raw_cut)
        await self._frame(InterruptionFrame, cut)
        with self._report.part("truncation"):
            done = await self._server("conversation.item.truncated", raw_cut)
            check(done.item_id == reply.item_id, "another item was truncated")
        ended = await self._raw.first(
            raw_start,
            lambda event: event.type == "response.done" and event.response.id == reply.response_id,
            "end of the reply",
        )
        allowed = ("cancelled",) if self._job.scripted else ("cancelled", "completed")
        check(ended.response.status in allowed, ended.response.status)
        # The next one may take a minute to say: the end of the connection cuts it off.
        await self._raw.first(
            raw_cut,
            lambda event: (
                event.type == "response.output_audio.delta"
                and event.response_id != reply.response_id
            ),
            "next reply",
        )

    async def _long_answer(self) -> int:
        """Ask aloud until an answer is long enough to be cut; return where its events begin.

        The embedded model is at times done with a word.
        """
        for _ in range(ATTEMPTS):
            start, raw_start = len(self._frames.all), len(self._raw.all)
            self._microphone.say(read_speech(self._job.question))
            if await self._is_long(raw_start):
                await self._heard(start, HEARD_MS)
                return raw_start
        raise AssertionError(f"no answer is as long as {HEARD_MS} ms")

    async def _heard(self, start: int, ms: float) -> None:
        await self._frames.first(start, lambda _: self._audio_ms(start) >= ms, f"audio of {ms} ms")

    async def _is_long(self, raw_start: int) -> bool:
        """Whether an answer comes to enough audio, known as soon as it does."""
        audio_bytes = 0

        def decided(event: Any) -> bool:
            nonlocal audio_bytes
            if event.type == "response.output_audio.delta":
                audio_bytes += len(b64decode(event.delta))
            return event.type == "response.done" or audio_bytes >= HEARD_MS * BYTES_PER_MS

        decisive = await self._raw.first(raw_start, decided, "answer")
        return bool(decisive.type != "response.done")

    async def end(self) -> None:
        """Close the connection the way a pipeline ends."""
        socket: Any = self._llm._websocket
        await self._worker.queue_frame(EndFrame())
        await asyncio.wait_for(socket.wait_closed(), 20)
        check(socket.close_code == 1000, f"closed with {socket.close_code}")

    @property
    def microphone(self) -> Microphone:
        """What the pipeline hears."""
        return self._microphone

    def _parse_event(self, text: Any) -> Any:
        try:
            event = _parse(text)
        except Exception as error:
            self._report.error(f"parse failure: {error}")
            raise
        if event is None:
            self._report.error(f"unknown event: {text[:200]}")
        else:
            self._raw.add(event)
        return event

    async def _note_error(self, _: Any, frame: Any) -> None:
        self._report.error(f"error frame: {frame.error}")

    async def _get_weather(self, params: FunctionCallParams) -> None:
        self._called.append(params.arguments)
        if not self._job.scripted:
            settings = OpenAIRealtimeLLMService.Settings(
                session_properties=self._properties(None, "none")
            )
            await self._worker.queue_frame(LLMUpdateSettingsFrame(delta=settings))
            # The output is to follow the update.
            await self._raw.first(
                0,
                lambda event: (
                    event.type == "session.updated" and event.session.tool_choice == "none"
                ),
                "update of tool_choice",
            )
        await params.result_callback({"weather": WEATHER})

    async def _push(self, pcm: bytes) -> None:
        await self._worker.queue_frame(InputAudioRawFrame(pcm, RATE, 1))

    async def _frame(self, kind: type[Frame], start: int) -> Any:
        return await self._frames.first(start, lambda frame: isinstance(frame, kind), kind.__name__)

    async def _server(self, kind: str, start: int) -> Any:
        return await self._raw.first(start, lambda event: event.type == kind, kind)

    async def _answer(self, start: int) -> None:
        """Wait for the next finished response."""
        response = (await self._server("response.done", start)).response
        check_done(self._job, response.status, response.status_details)

    async def _sounds(self, start: int) -> None:
        await self._frames.first(start, lambda _: self._audio_ms(start) > 300, "sound of a reply")

    def _audio_ms(self, start: int) -> float:
        frames = self._frames.since(start, lambda frame: isinstance(frame, TTSAudioRawFrame))
        return sum(len(frame.audio) for frame in frames) / BYTES_PER_MS


TOOL = FunctionSchema(
    name=TOOL_NAME,
    description=TOOL_DESCRIPTION,
    properties=TOOL_PARAMETERS["properties"],
    required=TOOL_PARAMETERS["required"],
)


async def talk(job: Job, report: Report) -> None:
    """Hold two conversations: a context's first message is the written one that it can have."""
    logger.remove()
    logger.add(
        lambda message: report.error(f"loguru {message.record['level'].name}: {message.strip()}"),
        level="WARNING",
        format="{name}: {message}",
    )
    if "-v" in sys.argv:
        logger.add(sys.stderr, level="DEBUG")
    try_ = report.feature
    async with Conversation(job, report, WRITTEN_QUESTION).open() as one:
        await try_("connect", one.connect)
        await try_("text turn", one.text_turn)
        await try_("configure", one.configure)
        async with one.microphone.open():
            await try_("spoken turn", one.spoken_turn)
            await try_("interruption", one.interruption)
        await try_("end", one.end)
    # The embedded model is too small to call a function by itself.
    choice = "auto" if job.scripted else "required"
    async with Conversation(job, report, TOOL_QUESTION, choice).open() as two:
        await try_("tool call", two.tool_call)


if __name__ == "__main__":
    run(talk)
