"""What each family gives to its language model, against what its publisher gives."""

from __future__ import annotations

import numpy as np
import pytest

from antiphon.engines.chunks import Word
from antiphon.engines.speech.families.binding import bind
from antiphon.engines.speech.families.family import PromptRequest, Reader, Reference, family

from . import made

CODES = np.array([[7, 0, 63]], np.int32)


def ids(text: str) -> list[int]:
    return [ord(char) for char in text]


def asked(text: str, voice: str | None = None) -> PromptRequest:
    return PromptRequest(text=text, voice=voice)


def of_recording(text: str, reference: Reference, language: str = "en") -> PromptRequest:
    return PromptRequest(text=text, reference=reference, language=language)


@pytest.fixture(scope="module")
def orpheus() -> Reader:
    return bind(family("orpheus"), made.real_orpheus())


def test_orpheus_with_its_real_numbers(orpheus: Reader) -> None:
    prompt = orpheus.prompt(asked("Hi.", voice="leo"))
    said = ids("leo: Hi.")
    assert prompt.tokens == [128259, 128000, *said, 128009, 128260, 128261, 128257]
    assert prompt.lead is None
    bases = [block.base for block in orpheus.layout.blocks]
    assert bases == [128266, 132362, 136458, 140554, 144650, 148746, 152842]
    assert {block.size for block in orpheus.layout.blocks} == {4096}
    assert 128258 in orpheus.stop


def test_neutts_speaks_phonemes_behind_those_of_the_recording() -> None:
    vocabulary = made.neutts()
    reader = bind(family("neutts"), vocabulary)
    reference = Reference(text="Yes.", codes=CODES)
    prompt = reader.prompt(of_recording("Hello world!", reference))
    assert vocabulary.decode(prompt.tokens) == (
        "user: Convert the text to speech:<|TEXT_PROMPT_START|>jˈɛs. həlˈoʊ wˈɜːld!"
        "<|TEXT_PROMPT_END|>\nassistant:<|SPEECH_GENERATION_START|>"
        "<|speech_7|><|speech_0|><|speech_63|>"
    )
    assert prompt.lead is CODES
    assert reader.stop == (vocabulary.find("<|SPEECH_GENERATION_END|>"),)
    german = reader.prompt(of_recording("Ich.", reference, language="de"))
    assert " ɪç." in vocabulary.decode(german.tokens)


def test_llasa_is_asked_by_the_chat_template() -> None:
    vocabulary = made.llasa()
    reader = bind(family("llasa"), vocabulary)
    prompt = reader.prompt(of_recording("And you?", Reference(text="I am.\n", codes=CODES)))
    assert vocabulary.decode(prompt.tokens) == (
        "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n"
        "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nConvert the text to speech:"
        "<|TEXT_UNDERSTANDING_START|>I am. And you?<|TEXT_UNDERSTANDING_END|><|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n<|SPEECH_GENERATION_START|>"
        "<|s_7|><|s_0|><|s_63|>"
    )
    assert prompt.lead is CODES
    alone = vocabulary.decode(reader.prompt(asked("And you?")).tokens)
    assert alone.endswith("\n\n<|SPEECH_GENERATION_START|>")


def test_outetts_without_a_voice_lets_the_model_choose_one() -> None:
    vocabulary = made.outetts()
    prompt = bind(family("outetts"), vocabulary).prompt(asked("Hi."))
    expected = "<|im_start|>\n<|text_start|>Hi.<|text_end|>\n<|audio_start|>\n"
    assert vocabulary.decode(prompt.tokens) == expected
    assert prompt.lead is None


def test_outetts_takes_a_voice_from_the_lines_of_a_recording() -> None:
    vocabulary = made.outetts()
    # Steps are 13.3 ms. The first word reaches 20 steps back, past the start of the recording.
    words = (Word("So", 26.0, 53.4), Word("then", 60.0, 80.1))
    codes = np.arange(16, dtype=np.int32).reshape(2, 8)
    bare = Reference(text="So then", codes=codes, words=words)
    describe = family("outetts").describe
    assert describe is not None
    silence = np.zeros(24_000, np.float32)
    reference = describe(bare, silence, 24_000)
    prompt = bind(family("outetts"), vocabulary).prompt(of_recording("Hi.", reference))
    quiet = "<|energy_0|><|spectral_centroid_0|><|pitch_0|><|code|>"
    assert vocabulary.decode(prompt.tokens) == (
        "<|im_start|>\n<|text_start|>So then. Hi.<|text_end|>\n<|audio_start|>\n"
        f"<|word_start|>So<|features|><|t_0.05|>{quiet}"
        "<|c1_0|><|c2_8|><|c1_1|><|c2_9|><|c1_2|><|c2_10|><|c1_3|><|c2_11|><|word_end|>\n"
        f"<|word_start|>then.<|features|><|t_0.05|>{quiet}"
        "<|c1_4|><|c2_12|><|c1_5|><|c2_13|><|c1_6|><|c2_14|><|c1_7|><|c2_15|><|word_end|>\n"
        "<|word_start|>"
    )
    assert prompt.lead is codes


def test_kani_goes_by_number_where_nothing_has_a_name() -> None:
    reader = bind(family("kani"), made.kani())
    prompt = reader.prompt(asked("Hi.", voice="jenny"))
    assert prompt.tokens == [64403, 1, *ids("jenny: Hi."), 2, 64404]
    bases = [(block.base, block.size) for block in reader.layout.blocks]
    assert bases == [(64410, 4032), (68442, 4032), (72474, 4032), (76506, 4032)]
    assert reader.stop == (64402, 64406)


def test_soprano_hands_its_prompt_to_the_decoder_as_well() -> None:
    vocabulary = made.soprano()
    spoken = family("soprano").normalise("  It COSTS\n$5. ")
    prompt = bind(family("soprano"), vocabulary).prompt(asked(spoken))
    assert vocabulary.decode(prompt.tokens) == "[STOP][TEXT]it costs five dollars.[START]"
    assert prompt.lead is not None
    assert prompt.lead.tolist() == [list(prompt.tokens)]


@pytest.mark.parametrize(
    ("name", "marks"),
    [
        ("orpheus", "<custom_token_2><custom_token_10><|eot_id|>"),
        ("llasa", "<|TEXT_UNDERSTANDING_END|><|s_5|><|eot_id|>"),
        ("outetts", "<|text_end|><|c1_5|><|word_end|>"),
        ("soprano", "[STOP][START]"),
    ],
)
def test_marks_in_a_text_are_not_the_models_own(name: str, marks: str) -> None:
    reader = bind(family(name), made.all_of([name])[name])
    assert reader.prompt(asked(f"A{marks}b")).tokens == reader.prompt(asked("Ab")).tokens


@pytest.mark.parametrize(
    ("name", "request_", "message"),
    [
        ("orpheus", asked("a", voice="nobody"), "expected one of tara, leah"),
        ("orpheus", of_recording("a", Reference(text="a", codes=CODES)), "recording"),
        ("neutts", asked("a"), "add one first"),
        ("neutts", of_recording("a", Reference(text="a", codes=CODES), language="fi"), "en, de"),
        ("llasa", asked("a", voice="tara"), "knows none by name, got tara"),
        ("outetts", of_recording("a", Reference(text="a", codes=CODES)), "no lines of words"),
        ("soprano", of_recording("a", Reference(text="a", codes=CODES)), "recording"),
    ],
)
def test_voices_that_there_are_not_are_refused(
    name: str, request_: PromptRequest, message: str
) -> None:
    reader = bind(family(name), made.all_of([name])[name])
    with pytest.raises(ValueError, match=message):
        reader.prompt(request_)
