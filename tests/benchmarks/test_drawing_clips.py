"""The judge of clips: right about true ones, and not to be pleased by others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from benchmarks.drawing_clips import KINDS, Judged, Measured, asked, film, missed, told
from benchmarks.drawing_motion import Verdict, judge, watch
from PIL import Image
from PIL.WebPImagePlugin import WebPImageFile

from antiphon.deploy.media_training.motions import FRAMES, MOTIONS, SIDE, draw

PROMPTS = asked(36)
RNG = np.random.default_rng(8)
CLIPS = [draw(each.facts, RNG) for each in PROMPTS]


def test_every_prompt_asks_for_what_was_held_out_and_every_motion_is_asked_for() -> None:
    for number, each in enumerate(PROMPTS):
        assert each.kind == KINDS[number % len(KINDS)]
        assert each.kind in {kind for _, kind, _ in each.facts.unseen()}
        assert each.facts.motion == MOTIONS[number % len(MOTIONS)]


def test_true_clips_are_right_and_noisy_ones_are_too() -> None:
    found = [judge(clip, each.facts) for clip, each in zip(CLIPS, PROMPTS, strict=True)]
    assert np.mean([each.motion for each in found]) >= 0.97
    assert np.mean([each.background for each in found]) >= 0.97
    noisy = [
        (clip + RNG.normal(0, 8, clip.shape)).clip(0, 255).astype(np.uint8) for clip in CLIPS[:9]
    ]
    assert [watch(clip) for clip in noisy] == [watch(clip) for clip in CLIPS[:9]]


def test_a_clip_played_backwards_goes_the_other_way() -> None:
    back = {"left": "right", "right": "left", "up": "down", "down": "up"}
    back |= {"grow": "shrink", "shrink": "grow"}
    for clip, each in zip(CLIPS[:9], PROMPTS, strict=False):
        motion = each.facts.motion
        assert watch(clip[::-1]) == back.get(motion, motion)


def test_another_background_and_an_empty_clip_are_wrong() -> None:
    facts = PROMPTS[0].facts
    other = "grey" if facts.background != "grey" else "red"
    assert not judge(CLIPS[0], replace(facts, background=other)).background
    empty = np.full_like(CLIPS[0], 128)
    assert judge(empty, facts) == Verdict(None, False, facts.background == "grey")


def test_what_was_measured_is_told_and_what_is_missed_is_named() -> None:
    right, wrong = Verdict("left", True, True), Verdict("still", False, True)
    judged = [
        Judged(each, CLIPS[0], right if number % 2 else wrong)
        for number, each in enumerate(PROMPTS)
    ]
    measured = Measured(judged, seconds=11.0, same=True, differ=3.0)
    assert missed(measured) == [
        "motion of clips right in 50.0 %, at least 85 %",
        "11.00 s a clip, at most 10 s",
    ]
    assert any(line.split() == ["all", "50.0", "100.0"] for line in told(measured))


def test_clips_lie_side_by_side_in_one_that_moves(tmp_path: Path) -> None:
    film(np.stack(CLIPS[:6]), 3, tmp_path / "it.webp")
    with Image.open(tmp_path / "it.webp") as opened:
        assert isinstance(opened, WebPImageFile)
        assert (opened.size, opened.n_frames) == ((3 * SIDE, 2 * SIDE), FRAMES)
        opened.seek(FRAMES - 1)
        last = np.asarray(opened.convert("RGB"))
    corner = last[SIDE:, 2 * SIDE :].astype(int)
    assert np.abs(corner - CLIPS[5][-1]).mean() < 12
