# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""Training the model of clips: motions, captions, the fast way through its autoencoder, a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from antiphon.deploy.media_training import clip_autoencoder, clip_reading, clips, words
from antiphon.deploy.media_training.autoencoder import as_tensor
from antiphon.deploy.media_training.glyphs import by_name
from antiphon.deploy.media_training.motion_words import clip, say, vocabulary
from antiphon.deploy.media_training.motions import (
    FRAMES,
    MOTIONS,
    NAMES,
    SIDE,
    TRAVEL,
    WAYS,
    Facts,
    choose,
    draw,
    possible,
)
from antiphon.engines.diffusion.abilities import read_abilities

# Its stock class mixes types in a forward under autocast, as is meant.
pytestmark = pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")


def test_every_name_is_of_a_glyph_and_nothing_held_out_is_ever_learnt_from() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert set(NAMES) <= set(by_name())
    rng = np.random.default_rng(1)
    facts = [choose(rng) for _ in range(400)]
    assert not [each for each in facts if each.unseen()]
    assert {each.motion for each in facts} == set(MOTIONS)


def middle(frame: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> tuple[float, float]:
    """Across and down, of what is bright."""
    down, across = np.argwhere(frame[..., 0] > 128).mean(0).tolist()
    return across, down


@pytest.mark.parametrize("motion", WAYS)
def test_what_goes_somewhere_gets_there(motion: str) -> None:
    frames = draw(Facts(glyph="star", background="black", motion=motion), np.random.default_rng(3))
    (before, above), (after, below) = middle(frames[0]), middle(frames[-1])
    right, down = WAYS[motion]
    assert (after - before, below - above) == pytest.approx(
        (TRAVEL * right, TRAVEL * down), abs=1.5
    )


def test_what_grows_gets_larger_and_what_is_still_stays() -> None:
    rng = np.random.default_rng(4)
    still = draw(Facts(glyph="heart", background="white", motion="still"), rng)
    assert still.shape == (FRAMES, SIDE, SIDE, 3)
    assert (still == still[:1]).all()
    grown = draw(Facts(glyph="heart", background="white", motion="grow"), rng)
    sizes = (grown[..., 1] < 128).sum((1, 2))
    assert sizes[-1] > 6 * sizes[0]


def test_no_motion_is_asked_for_that_cannot_be_seen() -> None:
    assert not possible(Facts(glyph="sun", background="blue", motion="turn"))
    assert possible(Facts(glyph="car", background="blue", motion="turn"))
    assert not possible(Facts(glyph="fox", background="white", motion="recolour", tint="orange"))
    assert possible(Facts(glyph="heart", background="white", motion="recolour", tint="green"))


def test_captions_say_what_happens_in_known_words() -> None:
    known = set(vocabulary())
    rng = np.random.default_rng(5)
    for _ in range(200):
        assert set(clip(rng).caption.split()) <= known
    facts = Facts(glyph="car", background="grey", motion="recolour", tint="green")
    for seed in range(10):
        said = say(facts, np.random.default_rng(seed), full=True).split()
        assert {"car", "green"} <= set(said)
        assert {"grey", "gray"} & set(said)
        # It is not green from the start.
        assert said[said.index("car") - 1] != "green"
    assert len(words.tokenizer(sorted(known))("a car that moves to the left").input_ids) == 9


def test_the_fast_way_through_the_autoencoder_gives_what_the_stock_class_gives() -> None:
    torch.manual_seed(0)
    model = clip_autoencoder.autoencoder(8)
    with torch.no_grad():
        for each in model.parameters():
            if each.dim() == 1:
                each.normal_(0, 0.2)
        wanted = as_tensor(clip_autoencoder.clips(2, np.random.default_rng(6)))
        latents = model.encode(wanted).latent_dist.mode()
        assert float((clip_autoencoder.encode(model, wanted).mode() - latents).abs().max()) < 1e-4
        stock = model.decode(latents).sample
        fast = clip_autoencoder.decode(model, latents).clamp(-1, 1)
    assert stock.shape == wanted.shape
    assert float((stock - fast).abs().max()) < 1e-4
    assert float(stock.std()) > 0.01


def test_taps_of_frames_before_those_of_a_latent_stay_zero() -> None:
    torch.manual_seed(0)
    model = clip_autoencoder.autoencoder(8)
    wanted = as_tensor(clip_autoencoder.clips(1, np.random.default_rng(7)))
    torch.autograd.backward(clip_autoencoder.losses_of(model, wanted)["loss"])
    for convolution, own in (
        (model.decoder.conv_in, 1),
        (model.encoder.down_blocks[0].downsampler.time_conv, 2),
        (model.decoder.up_blocks[1].upsampler.time_conv, 1),
    ):
        assert not convolution.weight[:, :, :-own].any()
        assert not convolution.weight.grad[:, :, :-own].any()
        assert convolution.weight.grad[:, :, -own:].any()


def test_the_text_model_says_nothing_behind_the_end_of_a_caption() -> None:
    known = words.tokenizer(vocabulary())
    model = clip_reading.text_model(len(known))
    with torch.no_grad():
        states = clip_reading.states_of(model, known, ["a car grows", ""])
    assert states.shape == (2, clip_reading.WORDS, clip_reading.WIDTH)
    assert states.abs().sum(2).gt(0).sum(1).tolist() == [5, 2]


def test_a_run_makes_a_model_that_is_served_and_a_longer_one_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = clip_autoencoder.autoencoder
    monkeypatch.setattr(clip_autoencoder, "autoencoder", lambda: small(8))
    monkeypatch.setattr(clips, "compiler", lambda: None)
    monkeypatch.setattr(clips, "WIDTH", 32)
    monkeypatch.setattr(clips, "LAYERS", 1)
    monkeypatch.setattr(clips, "FIRST", 16)
    monkeypatch.setattr(clips, "SHOWN", ("a cat moves to the left",))
    monkeypatch.setattr(clips, "STEPS", 2)
    lines: list[str] = []
    clips.train(tmp_path, 1.0, lines.append)
    held = torch.load(tmp_path / "denoiser" / "checkpoint.pt", weights_only=True)["progress"]
    coded = (tmp_path / "autoencoder" / "model.pt").stat().st_mtime_ns
    clips.train(tmp_path, 2 * held[2] + 2, lines.append)
    later = torch.load(tmp_path / "denoiser" / "checkpoint.pt", weights_only=True)["progress"]

    assert later[0] > held[0] > 0
    assert (tmp_path / "autoencoder" / "model.pt").stat().st_mtime_ns == coded
    assert list((tmp_path / "denoiser").glob("sheet-*.png"))
    abilities = read_abilities(tmp_path / "pipeline")
    assert (abilities.width, abilities.kind, abilities.frames) == (SIDE, "video", FRAMES)
    assert abilities.call == {"max_sequence_length": clip_reading.WORDS}
    assert not abilities.untrained
