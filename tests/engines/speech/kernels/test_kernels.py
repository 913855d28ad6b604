"""Each kernel against its reference, and each reference against what the codecs' classes do."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import pytest
import torch
from tests.support.decoders import difference, random_codes, streamed, tiny_snac
from torch import Tensor
from torch.nn import functional

from antiphon.engines.speech.decoders.snac import decoder_of as snac_decoder
from antiphon.engines.speech.kernels import codebooks, residual, snake, transposed
from antiphon.engines.speech.kernels.codebooks import CodebookSum, codebook_tables
from antiphon.engines.speech.kernels.dispatch import Kernel, agree, references_only

KERNELS = [snake.KERNEL, codebooks.KERNEL, transposed.KERNEL, residual.KERNEL]


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)  # pyright: ignore[reportUnknownMemberType]


def alphas(channels: int) -> Tensor:
    """From nearly none to many periods."""
    return torch.logspace(-3, 1.5, channels)


def close(ours: Tensor, reference: Tensor, relative: float = 1e-6) -> None:
    # Not torch.testing, which takes seconds to import.
    np.testing.assert_allclose(ours.numpy(), reference.numpy(), relative, relative)


# References.


def published_snake(values: Tensor, alpha: Tensor) -> Tensor:
    """As the codecs' papers have it."""
    wide = alpha[:, None]
    return values + torch.sin(wide * values) ** 2 / (wide + 1e-9)


def test_snake_is_what_was_published_and_keeps_its_input() -> None:
    values = 50 * torch.randn(2, 6, 9, dtype=torch.float64)
    before = values.clone()
    alpha = alphas(6).double()
    alpha[0] = 0.0
    ours = snake.snake(values, alpha, snake.inverse(alpha))
    close(ours, published_snake(values, alpha), 1e-12)
    assert torch.equal(values, before)


def test_what_alphas_do_not_reach_is_leaky() -> None:
    values = torch.randn(2, 6, 9)
    alpha = alphas(3)
    ours = snake.snake(values, alpha, snake.inverse(alpha), 0.01)
    close(ours[:, :3], published_snake(values[:, :3], alpha))
    close(ours[:, 3:], functional.leaky_relu(values[:, 3:], 0.01))


def test_folded_tables_give_projected_codebooks_summed() -> None:
    books = [torch.randn(5, 3) for _ in range(2)]
    weights = [torch.randn(4, 3, 1) for _ in range(2)]
    biases = [torch.randn(4), None]
    codes = torch.tensor([[[0, 4, 2], [1, 1, 3]]])
    ours = CodebookSum(codebook_tables(books, weights, biases))(codes)
    looked_up = [functional.embedding(codes[:, at], books[at]).transpose(1, 2) for at in range(2)]
    expected = sum(
        functional.conv1d(values, weight, bias)
        for values, weight, bias in zip(looked_up, weights, biases, strict=True)
    )
    close(ours, torch.as_tensor(expected))


@pytest.mark.parametrize(("into", "count"), [(3, 2), (3, 40)])
def test_a_transposed_convolution_goes_on_where_it_stopped(into: int, count: int) -> None:
    values = torch.randn(2, into, count + 3, dtype=torch.float64)
    weight = torch.randn(into, 5, 6, dtype=torch.float64)
    bias = torch.randn(5, dtype=torch.float64)
    tail = torch.zeros(2, 5, 3, dtype=torch.float64)
    parts = [
        transposed.transposed(values[..., part], weight, bias, tail)
        for part in (slice(0, 3), slice(3, None))
    ]
    whole = functional.conv_transpose1d(values, weight, bias, stride=3)
    close(torch.cat(parts, -1), whole[..., : (count + 3) * 3], 1e-12)
    close(tail + bias[:, None], whole[..., (count + 3) * 3 :], 1e-12)


# Kernels, by Triton's interpreter.


@pytest.mark.parametrize(("shape", "snaked"), [((2, 6, 37), 6), ((1, 5, 3), 2), ((1, 2, 2100), 2)])
def test_snake_kernel(interpreter: torch.device, shape: tuple[int, ...], snaked: int) -> None:
    from antiphon.engines.speech.kernels.snake_triton import launch

    # As far from zero as no decoder goes: the sine has to reduce its argument in full.
    values = 1000 * torch.randn(shape)
    alpha = alphas(snaked)
    inverses = snake.inverse(alpha)
    close(launch(values, alpha, inverses, 0.01), snake.reference(values, alpha, inverses, 0.01))


@pytest.mark.parametrize(("steps", "channels", "levels"), [(7, 70, (4, 2, 1)), (18, 8, (1, 1, 1))])
def test_codebooks_kernel(
    interpreter: torch.device, steps: int, channels: int, levels: tuple[int, ...]
) -> None:
    from antiphon.engines.speech.kernels.codebooks_triton import launch

    tables = torch.randn(3, 5, channels)
    codes = torch.randint(0, 5, (2, 3, steps))
    slow = torch.tensor(levels)
    close(launch(tables, codes, slow), codebooks.reference(tables, codes, slow))


@pytest.mark.parametrize(("count", "stride"), [(1, 2), (5, 3), (140, 8)])
@pytest.mark.parametrize("bare", [False, True])
def test_transposed_kernel(interpreter: torch.device, count: int, stride: int, bare: bool) -> None:
    from antiphon.engines.speech.kernels.transposed_triton import launch

    channels = 3
    values, weight = torch.randn(2, 4, count), torch.randn(4, channels, 2 * stride)
    alpha, bias = alphas(channels), None if bare else torch.randn(channels)
    tail = torch.randn(2, channels, stride)
    kept = tail.clone()
    product = torch.matmul(values.transpose(1, 2), weight.flatten(1))
    waves = () if bare else (alpha, snake.inverse(alpha))
    out, waved = launch(product, bias, tail, *waves)
    expected = transposed.reference(values, weight, bias, kept)
    close(out, expected, 1e-5)
    close(tail, kept, 1e-5)
    close(waved, out if bare else snake.reference(out, alpha, snake.inverse(alpha)))


@pytest.mark.parametrize(
    ("dilation", "sizes"), [(1, (3, 40)), (9, (10, 70)), (3, (600,)), (1, (1, 1, 1))]
)
def test_residual_kernel(interpreter: torch.device, dilation: int, sizes: tuple[int, ...]) -> None:
    """Stretch after stretch, with what each leaves for the next."""
    from antiphon.engines.speech.kernels.residual_triton import launch

    channels = 3
    waves = [(alphas(channels) * by, snake.inverse(alphas(channels) * by)) for by in (1, 2)]
    weight, bias = torch.randn(channels, 1, 7), torch.randn(channels)
    tail = torch.randn(2, channels, 6 * dilation)
    kept = tail.clone()
    for count in sizes:
        values = torch.randn(2, channels, count)
        rest = (waves[0], weight, bias, dilation, waves[1])
        # Sums of seven products, added up in another order.
        close(launch(values, tail, *rest), residual.reference(values, kept, *rest), 1e-5)
        assert torch.equal(tail, kept)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_trials_pass_and_notice_a_wrong_kernel(
    interpreter: torch.device, kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel.trial(interpreter)
    launched = sys.modules[f"antiphon.engines.speech.kernels.{kernel.name}_triton"]
    right: Callable[..., Tensor | tuple[Tensor, Tensor]] = launched.launch

    def wrong(*args: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        out = right(*args)
        return out + 1e-3 if isinstance(out, Tensor) else (out[0] + 1e-3, out[1])

    monkeypatch.setattr(launched, "launch", wrong)
    with pytest.raises(ArithmeticError, match="differs from the reference"):
        kernel.trial(interpreter)


def test_a_decoder_of_kernels_gives_what_a_whole_decode_gives(
    interpreter: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: set[str] = set()

    def serves(kernel: Kernel, values: Tensor) -> bool:
        served.add(kernel.name)
        return True

    # The interpreter takes its time: of short steps.
    model = tiny_snac(
        dtype=torch.float32, encoder_rates=[4, 2], decoder_rates=[4, 2], decoder_dim=16
    )
    decoder = snac_decoder(model)
    codes = random_codes(decoder, 8, frame=4)
    whole = decoder.decode(codes)
    monkeypatch.setattr(Kernel, "serves", serves)
    ours = np.concatenate(streamed(decoder, codes, (5,)))
    assert difference(ours, whole) < 1e-5
    assert served == {kernel.name for kernel in KERNELS}


# The choice.


class OnGpu(torch.Tensor):
    """Says that it is there."""

    is_cuda = True  # pyright: ignore[reportAssignmentType]


def found(name: str) -> bool:
    return True


def missing(name: str) -> None:
    return None


def on_gpu(dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.zeros(1, dtype=dtype).as_subclass(OnGpu)


def test_a_kernel_is_tried_once_and_used_for_what_it_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("antiphon.engines.speech.kernels.dispatch.find_spec", found)
    tried: list[torch.device] = []
    kernel = Kernel("any", tried.append)
    assert not kernel.serves(torch.zeros(1))
    assert not kernel.serves(on_gpu(torch.float64))
    assert not tried
    assert kernel.serves(on_gpu())
    assert kernel.serves(on_gpu(torch.bfloat16))
    with references_only():
        assert not kernel.serves(on_gpu())
    assert kernel.serves(on_gpu())
    assert len(tried) == 1


def test_a_kernel_that_fails_its_trial_is_left_alone_and_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("antiphon.engines.speech.kernels.dispatch.find_spec", found)

    def trial(device: torch.device) -> None:
        agree(torch.zeros(2), torch.tensor([0.0, 0.5]))

    kernel = Kernel("any", trial)
    assert not kernel.serves(on_gpu())
    assert not kernel.serves(on_gpu())
    assert len(caplog.records) == 1
    assert "any is not used: ['differs from the reference by 0.5']" in caplog.text


def test_without_triton_nothing_is_tried_nor_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("antiphon.engines.speech.kernels.dispatch.find_spec", missing)
    kernel = Kernel("any", lambda device: pytest.fail("tried"))
    assert not kernel.serves(on_gpu())
    assert not caplog.records


def test_what_is_not_a_number_agrees_with_nothing() -> None:
    with pytest.raises(ArithmeticError):
        agree(torch.tensor([float("nan")]), torch.zeros(1))
