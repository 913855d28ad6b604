"""The promise: ours keeps it, and a rule that does not is found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from benchmarks import chunk_judge, chunk_rules
from benchmarks.chunk_judge import OURS, REPORTED, RULES, Maker, broken, measure
from benchmarks.chunk_policies import Table
from benchmarks.chunk_sim import Trace
from benchmarks.chunk_talkers import talkers
from benchmarks.chunk_traces import Case, even, recorded, synthetic

SEED = 7

CASE = Case("even", "even", (even(70.0, fixed_ms=15.0, per_frame_ms=1.0),))


def wrong_with(*sizes: int) -> list[str]:
    """What is found of a table of sizes in the place of ours."""
    return broken(
        measure(CASE, {**RULES, REPORTED: lambda first: lambda trace: Table(*sizes)}), REPORTED
    )


def test_ours_keeps_its_promise() -> None:
    cases = [*synthetic(SEED, ratios=(0.8,), replies=2), *recorded()]
    cases += talkers(SEED, rates=(90.0,), replies=2)
    results = [measure(case) for case in cases]
    assert [each for ours in OURS for result in results for each in broken(result, ours)] == []


def test_a_rule_with_gaps_is_found() -> None:
    (wrong,) = wrong_with(1, 25)
    assert wrong.startswith("even: ours: reply 0: silent for 1")


def test_a_rule_that_begins_late_is_found() -> None:
    late, *_ = wrong_with(16, 1)
    assert late.startswith("even: ours: first audio after 1151 ms, constant 4: ")


def test_a_rule_that_is_later_and_more_silent_is_found() -> None:
    assert any("more than 0.30 rule" in each for each in wrong_with(8, 1, 100))


def test_a_rule_that_is_later_with_less_silence_than_the_other_is_not_worse() -> None:
    assert not any("0.30 rule" in each for each in wrong_with(16, 1))


def few(seed: int, *, ratios: tuple[float, ...], replies: int) -> Iterator[Case]:
    yield CASE


def nobody(seed: int, *, rates: tuple[float, ...], replies: int) -> Iterator[Case]:
    yield from ()


def breaking(first: Trace) -> Maker:
    return lambda trace: Table(1, 25)


@pytest.mark.parametrize(("ours", "status"), [(RULES[REPORTED], 0), (breaking, 1)])
def test_the_exit_status_tells_and_plots_are_drawn(
    ours: Callable[[Trace], Maker],
    status: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(chunk_judge.RULES, REPORTED, ours)
    monkeypatch.setattr(chunk_rules, "synthetic", few)
    monkeypatch.setattr(chunk_rules, "recorded", lambda: iter(()))
    monkeypatch.setattr(chunk_rules, "talkers", nobody)
    monkeypatch.setattr("sys.argv", ["chunk_rules", "--out", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        chunk_rules.main()
    assert ended.value.code == status
    said = capsys.readouterr().out
    assert ("MISSED even: ours: reply 0: silent for 1" in said) == bool(status)
    assert f"ours: the promise is kept in {1 - status} of 1 cases" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "chunks-pace.png", "chunks-reply.png", "chunks-silence.png"
    ]  # fmt: skip


def test_figures_take_the_place_of_those_before(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{chunk_rules.BEGIN}old\n{chunk_rules.END}after\n", encoding="utf-8")
    chunk_rules.renew(page, "new\n")
    text = page.read_text(encoding="utf-8")
    assert text.split() == [
        "before",
        *chunk_rules.BEGIN.split(),
        "new",
        *chunk_rules.END.split(),
        "after",
    ]
    page.write_text("no place", encoding="utf-8")
    with pytest.raises(ValueError, match="figures"):
        chunk_rules.renew(page, "new\n")
