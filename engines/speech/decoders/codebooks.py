"""Codebooks of few dimensions, each with a projection: what SNAC's and DAC's decoders begin with."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..kernels.codebooks import CodebookSum, codebook_tables
from ..streaming.convolution import fold_weight_norm


def projected_sum(books: Sequence[Any]) -> CodebookSum:
    """The sum of what the codes of ``books`` stand for, one table each.

    ``books``: the original's, each with a ``codebook`` and an ``out_proj``, whose weight norm is
    folded.
    """
    for book in books:
        fold_weight_norm(book)
    with torch.no_grad():
        tables = codebook_tables(
            [book.codebook.weight for book in books],
            [book.out_proj.weight for book in books],
            [book.out_proj.bias for book in books],
        )
    return CodebookSum(tables).to(tables.device)
