"""Rules of chunk size side by side on many traces, and whether ours keeps its promise.

    python -m benchmarks.chunk_rules [--short] [--seed 1] [--out out/bench] [--verbose] [--docs]

Nothing is run but a simulation: the figures are the same on every machine. Each case is a few
replies on one replica. For each family of cases and each rule are printed: time to first audio
(TTFA) as p50 and p95, silence inside of a reply, the share of replies with more than 100 ms of
it, and what decoding cost as a multiple of decoding all at once.

The promise, for every case:

- no gap in a reply where the oracle (``chunk_oracle``) has none and production takes at most
  0.95 of real time, with the client's reports and without;
- where production takes at most 0.95, TTFA within 10% of that of the best rule with which no
  reply of the case has a gap, or within one smallest chunk of it;
- never both later and with more silence than the rule of vLLM-Omni 0.30.

The exit status is 1 where it is broken, and the cases are named.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from benchmarks.chunk_judge import FASTER, OURS, Result, broken, measure
from benchmarks.chunk_plots import draw
from benchmarks.chunk_tables import by_family, cases, even_table, table
from benchmarks.chunk_talkers import RATES, talkers
from benchmarks.chunk_talkers import SHORT_RATES as SHORT_TOKEN_RATES
from benchmarks.chunk_traces import RATIOS, SHORT_RATIOS, recorded, synthetic

DOCS = Path(__file__).parents[1] / "docs"

BEGIN, END = "<!-- figures -->\n", "<!-- end of figures -->\n"
"""What is between them in the documentation is written by this benchmark."""


def report(results: Sequence[Result]) -> str:
    """Return all tables."""
    return (
        f"Silence, ms, in 20 s of frames of 80 ms that come evenly, one every so many ms:\n\n"
        f"{even_table()}\n\n"
        f"All replies. Times in ms; decode cost as a multiple of decoding all at once:\n\n"
        f"{table(results)}\n\n"
        f"TTFA p50 / mean silence in ms, production up to {FASTER:g} of real time:\n\n"
        f"{by_family(results)}\n"
    )


def renew(page: Path, text: str) -> None:
    """Put the tables into a page, in the place of those of another run.

    Raises:
        ValueError: the page has no place for them.
    """
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise ValueError(f"expected {BEGIN.strip()} and {END.strip()} in {page}")
    page.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")


def main() -> None:
    """Measure, print, draw, and exit with 1 where the promise is broken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--short", action="store_true", help="fewer ratios of pace and replies")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("out/bench"))
    parser.add_argument("--verbose", action="store_true", help="print every case")
    parser.add_argument("--docs", action="store_true", help="put tables and plots into docs/")
    args = parser.parse_args()
    ratios, replies = (SHORT_RATIOS, 3) if args.short else (RATIOS, 6)
    rates = SHORT_TOKEN_RATES if args.short else RATES
    results = [measure(case) for case in recorded()]
    results += [measure(case) for case in synthetic(args.seed, ratios=ratios, replies=replies)]
    results += [measure(case) for case in talkers(args.seed, rates=rates, replies=replies)]
    if args.verbose:
        print(cases(results))
    text = report(results)
    print(text)
    out: Path = DOCS if args.docs else args.out
    out.mkdir(parents=True, exist_ok=True)
    for path in draw(results, out):
        print(f"drawn: {path}")
    if args.docs:
        renew(DOCS / "chunks.md", text)
    wrong = {ours: [each for result in results for each in broken(result, ours)] for ours in OURS}
    for each in chain(*wrong.values()):
        print(f"MISSED {each}")
    for ours in wrong:
        kept = sum(not broken(result, ours) for result in results)
        print(f"{ours}: the promise is kept in {kept} of {len(results)} cases")
    sys.exit(1 if any(wrong.values()) else 0)


if __name__ == "__main__":
    main()
