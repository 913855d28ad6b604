import pytest

from antiphon.engines.scheduling.ladder import next_size


def test_the_sizes_follow_the_ladder_and_the_last_repeats() -> None:
    assert [next_size(i, (4, 8, 16)) for i in range(5)] == [4, 8, 16, 16, 16]


@pytest.mark.parametrize(("index", "ladder"), [(-1, (4,)), (0, ())])
def test_impossible_arguments_are_refused(index: int, ladder: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="expected index"):
        next_size(index, ladder)
