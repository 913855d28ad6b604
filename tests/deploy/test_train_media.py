# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""Training the models that draw: scenes, captions, what is held out, and a run of seconds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from antiphon.deploy.media_training import autoencoder, images, words
from antiphon.deploy.media_training.captions import say, scene, vocabulary, with_article
from antiphon.deploy.media_training.glyphs import (
    COLOURS,
    HELD_OUT,
    atlas,
    glyphs,
    held_out,
    plural_of,
    sprite,
    tinted,
)
from antiphon.deploy.media_training.scenes import PLACES, SIDE, Facts, choose, draw
from antiphon.engines.diffusion.abilities import read_abilities


def test_the_atlas_has_every_glyph_of_the_table_once() -> None:
    assert len(atlas()) == len(glyphs()) == len({glyph.name for glyph in glyphs()})
    synonyms = [name for glyph in glyphs() for name in glyph.names]
    assert len(synonyms) == len(set(synonyms))
    assert all((cell[..., 3] > 128).sum() > 300 for cell in atlas())


def test_a_sprite_just_fills_its_square_and_a_tint_keeps_its_outline() -> None:
    plain, blue = sprite("rocket", 40), tinted("rocket", 40, "blue")
    solid = plain[..., 3] > 16
    assert max(solid.any(0).sum(), solid.any(1).sum()) == 40
    assert (plain[..., 3] == blue[..., 3]).all()
    colour = blue[plain[..., 3] > 200][:, :3].astype(int)
    assert (colour[:, 2] >= colour[:, 0]).all()


def test_nothing_held_out_is_ever_drawn_to_learn_from() -> None:
    rng = np.random.default_rng(1)
    facts = [choose(rng) for _ in range(600)]
    assert not [each for each in facts if each.unseen()]
    assert {each.kind for each in facts} == {"one", "many", "pair"}
    assert {each.place for each in facts} == set(PLACES)


def test_what_is_held_out_is_the_share_that_was_meant_and_the_same_everywhere() -> None:
    every = [held_out(glyph.name, "background", colour) for glyph in glyphs() for colour in COLOURS]
    assert np.mean(every) == pytest.approx(HELD_OUT, abs=0.03)
    # Other ones would make a benchmark of models that were taught before worthless.
    assert [name for name in COLOURS if held_out("car", "background", name)] == ["red", "green"]


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (
            Facts(glyphs=("apple",), background="blue", place="top left", size="small"),
            ({"apple", "blue"}, {"small", "little", "tiny"}, {"left"}),
        ),
        (
            Facts(glyphs=("mouse",), background="black", count=3, tint="green"),
            ({"mice", "black", "green"}, {"three", "3"}),
        ),
        (
            Facts(glyphs=("cat", "dog"), background="pink", beside="above"),
            ({"cat", "dog", "pink"}, {"above", "below", "under"}),
        ),
    ],
)
def test_a_full_caption_says_all_of_it(facts: Facts, said: tuple[set[str], ...]) -> None:
    every, *one_of = said
    for seed in range(20):
        spoken = set(
            say(facts, np.random.default_rng(seed), full=True)
            .lower()
            .replace(",", "")
            .rstrip(".")
            .split()
        )
        assert every <= spoken
        assert all(spoken & choice for choice in one_of)


def test_words_are_said_in_plain_english() -> None:
    assert [plural_of(name) for name in ("fox", "bunny", "key", "bus")] == [
        "foxes",
        "bunnies",
        "keys",
        "buses",
    ]
    assert [with_article(name) for name in ("apple", "ufo", "unicorn", "orange cat")] == [
        "an apple",
        "a ufo",
        "a unicorn",
        "an orange cat",
    ]


def test_things_are_where_the_facts_say() -> None:
    rng = np.random.default_rng(2)
    for place, (right, down) in PLACES.items():
        facts = Facts(glyphs=("star",), background="black", place=place, size="small")
        bright = np.argwhere(draw(facts, rng)[..., 0] > 128).mean(0) - SIDE / 2
        assert np.sign(np.round(bright / 12)).tolist() == [down, right]


def test_known_words_are_one_token_and_others_are_spelt() -> None:
    known = vocabulary()
    tokenizer = words.tokenizer(known)
    assert all(len(tokenizer.tokenize(word)) == 1 for word in known)
    spelt = tokenizer.tokenize("zeppelin")
    assert len(spelt) > 1
    assert "".join(spelt) == "zeppelin</w>"
    assert tokenizer.convert_tokens_to_ids(words.SPECIAL[1]) == len(tokenizer) - 1


def test_normed_latents_say_the_same_pictures() -> None:
    torch.manual_seed(0)
    model = autoencoder.autoencoder((8, 8, 8))
    pictures = autoencoder.as_tensor(
        np.stack([scene(np.random.default_rng(seed)).picture for seed in range(8)])
    )
    before = autoencoder.reconstruct(model, pictures)
    with torch.no_grad():
        spread = model.encode(pictures).latent_dist.var
    autoencoder.norm(model, pictures)
    with torch.no_grad():
        normed = model.encode(pictures).latent_dist
    latents = normed.mean
    assert latents.mean((0, 2, 3)).abs().max() < 1e-3
    assert (latents.std((0, 2, 3)) - 1).abs().max() < 1e-3
    assert autoencoder.reconstruct(model, pictures) == pytest.approx(before, abs=1e-3)
    ratio = normed.var / spread
    assert ratio.std((0, 2, 3)).max() < 1e-2 * ratio.max()


def test_a_run_makes_a_model_that_is_served_and_a_longer_one_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(autoencoder, "CHANNELS", (8, 8, 8))
    monkeypatch.setattr(images, "CHANNELS", (16, 16, 16))
    monkeypatch.setattr(images, "FIRST", 64)
    monkeypatch.setattr(images, "SHOWN", ("a cat",))
    monkeypatch.setattr(images, "STEPS", 2)
    lines: list[str] = []
    images.train(tmp_path, 1.0, lines.append)
    held = torch.load(tmp_path / "denoiser" / "checkpoint.pt", weights_only=True)["progress"]
    coded = (tmp_path / "autoencoder" / "model.pt").stat().st_mtime_ns
    images.train(tmp_path, 2 * held[2] + 2, lines.append)
    later = torch.load(tmp_path / "denoiser" / "checkpoint.pt", weights_only=True)["progress"]

    assert later[0] > held[0] > 0
    assert (tmp_path / "autoencoder" / "model.pt").stat().st_mtime_ns == coded
    assert list((tmp_path / "denoiser").glob("sheet-*.png"))
    abilities = read_abilities(tmp_path / "pipeline")
    assert (abilities.width, abilities.height, abilities.kind) == (SIDE, SIDE, "image")
    assert not abilities.untrained
