# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""Training our own talker, from texts to a model's folder, on a voice of a few hundred numbers."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from tests.support.piper import CHANNELS, TinyVoice

from antiphon.deploy.talker_training import codec, examples, learning, speaking, texts
from antiphon.deploy.talker_training.student import MARKS, Student, StudentShape
from antiphon.deploy.talker_training.work import Plan, Work
from antiphon.engines.speech.decoders import joe_codes
from antiphon.engines.speech.decoders.decoder import DecoderOptions
from antiphon.engines.speech.decoders.joe_latents import LatentNet, LatentShape
from antiphon.engines.speech.families.joe_units import ANY, units_of
from antiphon.engines.speech.voices.intake import prepare_piper

CODES = LatentShape(channels=CHANNELS, frames=2, size=4, codes=16, hidden=8)
STUDENT = StudentShape(hidden=32, layers=1, heads=2, inner=48)
SAID = examples.Utterance(
    [" ˈa", "b", ","], [5, 1, 6], np.array([[0, 15, 3, 4, 5, 6], [7, 0, 15, 8, 9, 1]], np.int32)
)


def small() -> tuple[LatentNet, Student, examples.Spelling]:
    """A codec of chance, and a student of it."""
    torch.manual_seed(0)
    net = LatentNet(CODES).requires_grad_(False)
    for book in net.books:
        book.normal_()
    pairs = examples.pairs_in([SAID] * examples.RAREST)
    return net, Student(STUDENT, net, pairs), examples.Spelling(pairs, CODES.codes)


def test_all_is_made_by_one_run_and_gone_on_from(tmp_path: Path) -> None:
    """A second run makes nothing again, and goes on with what was learned."""
    voice, source = tmp_path / "voice", tmp_path / "source"
    voice.mkdir()
    source.mkdir()
    prepare_piper(*TinyVoice().write(source), voice, name="tiny", summary="")
    prose = tmp_path / "prose"
    prose.mkdir()
    (prose / "a.txt").write_text(" ".join(f"The {word} is here today." for word in ("cat", "dog")))
    lines: list[str] = []

    def run(seconds: float) -> Path:
        plan = Plan(
            sentences=24,
            held_out=2,
            longest_sample=51,
            codec_seconds=0.05,
            learning=learning.LearningPlan(seconds=seconds, batch_tokens=400, report_every=1),
            processes=1,
            student=STUDENT,
            codes=CODES,
            roots=(prose,),
        )
        return Work(tmp_path / "run", voice, plan, lines.append).run()

    folder = run(0.3)
    held = torch.load(tmp_path / "run" / "checkpoint.pt", weights_only=True)
    made = {path: path.stat().st_mtime_ns for path in (tmp_path / "run" / "spoken").iterdir()}
    run(0.6)
    later = torch.load(tmp_path / "run" / "checkpoint.pt", weights_only=True)

    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {
        path.name for path in folder.iterdir()
    }
    made_codes = np.zeros((2, 7), np.int32)
    decoder = joe_codes.load(folder / "codec", DecoderOptions())
    assert len(decoder.decode(made_codes)) == 7 * decoder.card.hop
    assert all(path.stat().st_mtime_ns == when for path, when in made.items())
    assert later["progress"][0] > held["progress"][0] > 0
    assert any(line.startswith(f"step {held['progress'][0] + 1},") for line in lines)
    assert len(list((tmp_path / "run" / "samples").glob("*.wav"))) > 0


def test_loss_falls_and_a_student_that_has_learned_says_the_utterance() -> None:
    """Sounds, their lengths and codes come out as they went in, told only what comes next."""
    net, student, spelling = small()
    batch = examples.batched([spelling.example(SAID, CODES.frames)] * 4)
    loss_of = learning.Loss(net, examples.Corruption(list(net.books)))
    masters = learning.Masters(student, learning.LearningPlan(seconds=1))
    losses: list[float] = []
    for _ in range(40):
        loss, _ = loss_of(student, batch)
        torch.autograd.backward(loss)
        masters.step(0.02)
        losses.append(loss.item())

    (said,) = speaking.speak(student, [spelling.script(SAID.units)], temperature=0.0, most=40)

    assert losses[-1] < losses[0] / 2
    assert np.array_equal(said, SAID.codes)


def test_what_is_written_out_is_the_same_llama() -> None:
    """Logits of the exported weights in the ordinary class are those of the student."""
    _, student, spelling = small()
    weights, config = student.exported()
    config = {key: config[key] for key in config if key not in ("architectures", "torch_dtype")}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**config)).eval()
    model.load_state_dict(weights)
    ids = torch.from_numpy(spelling.example(SAID, CODES.frames).ids)[None]

    with torch.no_grad():
        logits = model(ids).logits[0]
        hidden = student(ids)[0]
        say = student.saying().flatten(0, 1)

    codes = slice(MARKS, MARKS + len(say))
    assert torch.allclose(logits[:, codes], hidden @ say.T, atol=1e-4)
    assert torch.allclose(logits[:, 1], hidden @ student.ask_row, atol=1e-4)


def test_one_token_at_a_time_gives_what_all_at_once_gives() -> None:
    """The past that grows while it speaks is the past it was taught with."""
    _, student, spelling = small()
    ids = torch.from_numpy(spelling.example(SAID, CODES.frames).ids)[None]
    past: list[list[torch.Tensor]] = [[] for _ in student.layers]

    with torch.no_grad():
        single = [student(ids[:, at : at + 1], past) for at in range(ids.shape[1])]
        assert torch.allclose(torch.cat(single, 1), student(ids), atol=1e-5)


def test_example_has_each_code_to_be_said_right_before_it_is_read() -> None:
    """And *ask* ahead of every other sound, and at the end."""
    _, _, spelling = small()
    example = spelling.example(SAID, CODES.frames)
    read, first, second = example.ids.tolist(), example.first.tolist(), example.second.tolist()

    codes = [(a, b) for a, b in zip(first, read[1:], strict=False) if 0 <= a < CODES.codes]
    assert [a for a, _ in codes] == SAID.codes[0].tolist()
    assert all(b == MARKS + a for a, b in codes)
    later = [(a, b) for a, b in zip(second, read[1:], strict=False) if a >= 0]
    assert [a for a, _ in later] == SAID.codes[1].tolist()
    assert all(b == MARKS + CODES.codes + a for a, b in later)
    assert first.count(CODES.codes) == len(SAID.units)
    assert first[-1] == CODES.codes
    assert [each for each in read if each >= MARKS + 2 * CODES.codes] == spelling.script(SAID.units)


def test_corruption_changes_codes_alone_and_asks_for_none_that_cannot_be_known() -> None:
    """Marks and sounds stay; where a first code was changed, its second one isn't taught."""
    net, _, spelling = small()
    batch = examples.batched([spelling.example(SAID, CODES.frames)] * 8)
    corrupted = examples.Corruption(list(net.books), 1.0, 1.0)(batch, np.random.default_rng(0))

    changed = corrupted.ids != batch.ids
    codes = (batch.ids >= MARKS) & (batch.ids < MARKS + 2 * CODES.codes)
    assert changed.sum() > codes.sum() / 2
    assert not (changed & ~codes).any()
    assert (corrupted.second < 0).all()
    assert torch.equal(corrupted.first, batch.first)


def test_codec_gives_back_latents_of_few_kinds() -> None:
    """Of fewer kinds than there are codes: nothing is lost."""
    rng = np.random.default_rng(0)
    kinds = rng.normal(size=(8, CHANNELS, CODES.frames)).astype(np.float32)
    plain = np.concatenate([kinds[n] for n in rng.integers(0, 8, 400)], axis=1)

    shape = LatentShape(channels=CHANNELS, frames=2, size=8, codes=16, hidden=8)
    net = codec.fit([plain], np.ones(CHANNELS, np.float32), shape)
    with torch.no_grad():
        made = net(torch.from_numpy(codec.encode(net, plain).astype(np.int64))[None])[0].numpy()

    assert np.abs(made - plain).max() < 0.1 * plain.std()


@pytest.mark.parametrize(
    ("symbols", "units", "lengths"),
    [
        ("ˈaː bˈe, a.", ["ˈaː", " b", "ˈe", ",", "a", "."], [6, 9, 13, 17, 10, 11]),
        (" a", [" a"], [3]),
        ("a ˈ", ["a"], [6]),
        ("", [], []),
    ],
)
def test_marks_go_to_the_sound_they_belong_to(
    symbols: str, units: list[str], lengths: list[int]
) -> None:
    """No length is lost."""
    assert units_of(symbols, range(1, len(symbols) + 1)) == (units, lengths)


def test_rare_pairs_are_said_as_the_sound_before_any() -> None:
    """What isn't known at all is left out."""
    _, _, spelling = small()
    other = spelling.script(["b", " ˈa", "unheard"])
    assert len(other) == 2
    pairs = examples.pairs_in([SAID] * examples.RAREST)
    assert pairs[other[0] - MARKS - 2 * CODES.codes] == ("b", ANY)


def test_sentences_are_plain_all_different_and_the_same_for_a_seed(tmp_path: Path) -> None:
    """Formulas, code and lists are no sentences."""
    (tmp_path / "a.py").write_text(
        '"""The cat is here. Use x_y = 3 for it.\n\nIt costs 5 dollars. See the list of them."""\n'
    )
    found = texts.sentences(10, 3, [tmp_path])

    assert {"The cat is here.", "See the list of them."} <= set(found)
    assert len(found) == 10
    assert not any("_" in each or any(map(str.isdigit, each)) for each in found)
    assert len(set(found)) == len(found)
    assert texts.sentences(10, 3, [tmp_path]) == found
    assert texts.everyday_sentence(random.Random(1))[-1] in ".?!"
