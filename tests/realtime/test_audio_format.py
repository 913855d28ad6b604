"""Audio of clients: formats, and that it does not matter in which pieces it comes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.codecs.g711 import alaw_decode, ulaw_decode
from antiphon.codecs.opus import PRE_SKIP, OpusDecoder, OpusEncoder, OpusError
from antiphon.codecs.pcm import from_float, to_float
from antiphon.realtime.audio_format import InputDecoder, OutputEncoder, from_wire, to_wire
from antiphon.sessions.settings import AudioFormat, NoiseReduction

G711 = [AudioFormat.PCMU, AudioFormat.PCMA]
DECODE: dict[AudioFormat, Callable[[bytes], bytes]] = {
    AudioFormat.PCMU: ulaw_decode,
    AudioFormat.PCMA: alaw_decode,
}


def sine(rate: int, seconds: float = 0.5, hertz: float = 440.0) -> bytes:
    at = np.arange(round(rate * seconds)) / rate
    return from_float(0.5 * np.sin(2 * np.pi * hertz * at).astype(np.float32))


CORE = sine(24_000)


def assert_clean_tone(pcm: bytes, rate: int) -> None:
    """Check that away from its ends ``pcm`` is the sine, and nothing else that can be heard."""
    samples = to_float(pcm)[rate // 40 : -rate // 40]
    turns = np.exp(2j * np.pi * 440 * np.arange(len(samples)) / rate)
    tone = 2 * (samples * turns.conj()).mean()
    assert abs(abs(tone) - 0.5) < 0.01
    assert np.abs(samples - (tone * turns).real).max() < 0.03


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    marks = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(marks)]


def test_pcm_passes_unchanged() -> None:
    decoder, encoder = InputDecoder(AudioFormat.PCM), OutputEncoder(AudioFormat.PCM)
    assert decoder.is_pcm
    assert decoder.feed(CORE) + decoder.flush() == CORE
    assert encoder.feed(CORE) + encoder.flush() == CORE
    assert to_wire(CORE, AudioFormat.PCM) == from_wire(CORE, AudioFormat.PCM) == CORE


@pytest.mark.parametrize("form", G711)
def test_g711_is_half_as_wide_and_a_third_as_often(form: AudioFormat) -> None:
    wire = to_wire(CORE, form)
    assert len(wire) == len(CORE) // 6
    assert not InputDecoder(form).is_pcm
    assert_clean_tone(from_wire(wire, form), 24_000)


@pytest.mark.parametrize("form", G711)
@given(cuts=st.lists(st.integers(0, 4000), max_size=8))
@settings(max_examples=25, deadline=None)
def test_it_does_not_matter_how_input_is_cut(form: AudioFormat, cuts: list[int]) -> None:
    wire = to_wire(CORE, form)
    decoder = InputDecoder(form)
    heard = b"".join(decoder.feed(piece) for piece in pieces(wire, cuts)) + decoder.flush()
    whole = InputDecoder(form)
    assert heard == whole.feed(wire) + whole.flush()
    assert abs(len(heard) - len(CORE)) <= 2


@pytest.mark.parametrize("form", G711)
@given(cuts=st.lists(st.integers(0, 12_000), max_size=8))
@settings(max_examples=25, deadline=None)
def test_it_does_not_matter_how_output_is_cut(form: AudioFormat, cuts: list[int]) -> None:
    encoder = OutputEncoder(form)
    even = [cut * 2 for cut in cuts]
    said = b"".join(encoder.feed(piece) for piece in pieces(CORE, even)) + encoder.flush()
    whole = OutputEncoder(form)
    assert said == whole.feed(CORE) + whole.flush()
    assert_clean_tone(DECODE[form](said), 8_000)


def test_after_a_flush_another_utterance_may_follow() -> None:
    wire = to_wire(CORE, AudioFormat.PCMU)
    decoder = InputDecoder(AudioFormat.PCMU)
    first = decoder.feed(wire) + decoder.flush()
    assert decoder.feed(wire) + decoder.flush() == first


# Binary audio, whatever the format of appends is.


def opus_of(pcm: bytes) -> list[bytes]:
    encoder = OpusEncoder()
    return encoder.feed(pcm) + encoder.flush()


@pytest.mark.parametrize("form", list(AudioFormat))
def test_pcm_may_come_in_any_session(form: AudioFormat) -> None:
    decoder = InputDecoder(form)
    assert decoder.feed_pcm(CORE) == CORE
    assert decoder.flush() == b""


def test_opus_is_decoded_and_flushed() -> None:
    packets = opus_of(CORE)
    decoder, alone = InputDecoder(AudioFormat.PCM), OpusDecoder()
    heard = b"".join(decoder.feed_opus(packet) for packet in packets) + decoder.flush()
    assert heard == b"".join(alone.feed(packet) for packet in packets) + alone.flush()
    assert_clean_tone(heard[: len(CORE)], 24_000)


@pytest.mark.parametrize("form", list(AudioFormat))
@pytest.mark.parametrize("noise", [None, NoiseReduction.NEAR_FIELD])
def test_kinds_may_follow_one_another(form: AudioFormat, noise: NoiseReduction | None) -> None:
    wire, packets = to_wire(CORE, form), opus_of(CORE)
    decoder = InputDecoder(form, noise)
    heard = decoder.feed(wire)
    heard += b"".join(decoder.feed_opus(packet) for packet in packets)
    heard += decoder.feed_pcm(CORE)
    heard += decoder.feed(wire)
    heard += decoder.flush()
    opus_samples = len(packets) * 480 - PRE_SKIP
    expected = 3 * len(CORE) // 2 + opus_samples
    assert abs(len(heard) // 2 - expected) <= 4


def test_what_one_kind_holds_back_comes_before_the_next() -> None:
    decoder = InputDecoder(AudioFormat.PCMU)
    wire = to_wire(CORE, AudioFormat.PCMU)
    first = decoder.feed(wire) + decoder.feed_pcm(b"")
    alone = InputDecoder(AudioFormat.PCMU)
    assert first == alone.feed(wire) + alone.flush()


def test_a_packet_that_is_none_changes_nothing() -> None:
    packets = opus_of(CORE)
    decoder = InputDecoder(AudioFormat.PCM)
    decoder.feed_opus(packets[0])
    with pytest.raises(OpusError):
        decoder.feed_opus(b"")
    assert decoder.feed_opus(packets[1])


def test_an_opus_stream_goes_on_in_the_next_decoder() -> None:
    packets = opus_of(CORE)
    one = InputDecoder(AudioFormat.PCM)
    heard = b"".join(one.feed_opus(packet) for packet in packets[:10]) + one.flush()
    two = InputDecoder(AudioFormat.PCMU, before=one)
    heard += b"".join(two.feed_opus(packet) for packet in packets[10:]) + two.flush()
    assert abs(len(heard) // 2 - (len(packets) * 480 - PRE_SKIP)) <= 2


def test_the_length_of_what_was_encoded() -> None:
    assert OutputEncoder(AudioFormat.PCM).length_ms(bytes(48)) == 1.0
    assert OutputEncoder(AudioFormat.PCMA).length_ms(bytes(48)) == 6.0
