"""Sentences to be read to a talker in training: prose of the packages that are installed here.

Docstrings, comments and manuals hold a hundred thousand plain sentences of some ten thousand
words. They say little of everyday things, so a small grammar adds those.
"""

from __future__ import annotations

import random
import re
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path

_SENTENCE = re.compile(r"[A-Z][A-Za-z',;: -]{8,150}[.?!](?=\s|$)")
_WORD = re.compile(r"[A-Za-z][a-z]*(?:['-][a-z]+)*[,;:.?!]?")
_DOCSTRING = re.compile(r'"""(.*?)"""', re.DOTALL)

_PROSE = (".rst", ".md", ".txt", "METADATA", "LICENSE")
_LARGEST_FILE = 3_000_000
_WORDS = range(3, 23)
_LETTERS_A_WORD = 2.5
"""On average at least so many: fewer are formulas."""

EVERYDAY_SHARE = 0.4
"""Of the sentences, how many the grammar makes."""


def sentences(count: int, seed: int, roots: Sequence[Path] = ()) -> list[str]:
    """``count`` different sentences at most, the same for the same ``seed`` and files.

    ``roots``: folders whose prose is read; without any, Python's own and its packages'.
    """
    rng = random.Random(seed)
    prose = list(dict.fromkeys(_found(roots or _installed())))
    rng.shuffle(prose)
    wanted = max(round(count * EVERYDAY_SHARE), count - len(prose))
    everyday: dict[str, None] = {}
    for _ in range(4 * wanted):
        if len(everyday) < wanted:
            everyday.setdefault(everyday_sentence(rng))
    mixed = [*everyday, *prose[: count - len(everyday)]]
    rng.shuffle(mixed)
    return mixed


def _installed() -> tuple[Path, ...]:
    paths = sysconfig.get_paths()
    return tuple(dict.fromkeys(Path(paths[name]) for name in ("stdlib", "purelib")))


def _found(roots: Sequence[Path]) -> Iterator[str]:
    for root in roots:
        for path in sorted(root.rglob("*")):
            if path.name.endswith((".py", *_PROSE)) and path.is_file():
                yield from _plain_sentences(path)


def _plain_sentences(path: Path) -> Iterator[str]:
    if path.stat().st_size > _LARGEST_FILE:
        return
    text = path.read_text(encoding="utf-8", errors="ignore")
    if path.suffix == ".py":
        comments = (line.strip()[1:] for line in text.splitlines() if line.strip()[:1] == "#")
        text = "\n\n".join([*_DOCSTRING.findall(text), " ".join(comments)])
    for found in _SENTENCE.findall(re.sub(r"\s+", " ", text)):
        words = found.split()
        letters = sum(map(len, words)) / len(words)
        if len(words) in _WORDS and letters > _LETTERS_A_WORD and all(map(_WORD.fullmatch, words)):
            yield found


_PEOPLE = (
    "I|you|we|they|my sister|your brother|the doctor|our neighbour|the teacher|everyone|nobody|"
    "the children|the driver|a friend of mine|my grandmother|the manager|the girl next door|"
    "the old man|people|the waiter|John|Mary|Susan|Peter|Anna|the captain|the farmer|someone"
).split("|")
_SIMPLE = (
    "find|open|close|clean|bring|sell|buy|watch|draw|carry|break|fix|wash|hide|keep|lose|choose|"
    "forget|remember|paint|borrow|move|take|leave|show|read|order|check|change|need|want|like|love"
).split("|")
_THINGS = (
    "door|window|book|letter|bread|coffee|water|bicycle|garden|house|kitchen|table|chair|bottle|"
    "picture|song|story|question|answer|ticket|train|bus|car|road|bridge|river|mountain|beach|"
    "weather|music|radio|phone|message|key|shoe|jacket|umbrella|bag|box|paper|pencil|clock|light|"
    "fire|cup|plate|knife|apple|orange|cheese|fish|chicken|soup|cake|sugar|salt|tree|flower|dog|"
    "cat|horse|bird|boat|plane|ship|garage|office|school|church|hospital|market|shop|newspaper|"
    "computer|camera|game|ball|team|room|bed|wall|floor|roof|money|bank|price|job|lesson|party|"
    "holiday|journey|dinner|breakfast|lunch|shirt|dress|hat|mirror|soap|towel|blanket|pillow|"
    "thing|voice|tooth|mouth|hand|finger|foot|eye|ear|nose|face|heart|measure|treasure|joke|judge"
).split("|")
_KINDS = (
    "big|small|old|new|young|good|bad|long|short|warm|cold|hot|cool|heavy|light|dark|bright|red|"
    "blue|green|yellow|black|white|brown|quiet|loud|soft|hard|wet|dry|clean|dirty|cheap|expensive|"
    "beautiful|ugly|strange|simple|easy|difficult|busy|empty|full|open|closed|round|square|broken|"
    "wonderful|terrible|enormous|tiny|favourite|usual|foreign|famous|dangerous|careful|other|whole"
).split("|")
_PLACES = (
    "in the kitchen|at the station|near the river|under the bridge|behind the house|on the table|"
    "in front of the church|at school|at home|in the office|next to the bank|over there|upstairs|"
    "in the garden|across the street|by the sea|around the corner|in town|outside|on the left"
).split("|")
_TIMES = (
    "today|tomorrow|yesterday|this morning|this evening|tonight|on Monday|on Tuesday|on Wednesday|"
    "on Thursday|on Friday|at the weekend|in January|in June|in September|next week|last year|"
    "every day|once a month|at noon|before dinner|after work|in an hour|right now|in the summer|"
    "in the winter|at half past seven|at nine o'clock|in two thousand and twelve|soon|again"
).split("|")
_COUNTS = (
    "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fifteen|twenty|"
    "thirty|forty|fifty|sixty|seventy|eighty|ninety|a hundred|two thousand|a few|several|many"
).split("|")
_FORMS = (
    "Did {p} {v} the {k} {t} {w}?|Could you {v} the {t} {l}, please?|Why did {p} {v} the {t}?|"
    "Where is the {k} {t}?|How many {t}s did {p} {v} {w}?|{P} will {v} the {k} {t} {l}.|"
    "{P} couldn't {v} a {t} {l} {w}.|The {t} {l} is {k}, but the {u} is {j}.|"
    "Please {v} the {t} and {x} the {u}.|There are {n} {k} {t}s {l}.|It was a {k} and {j} {t}.|"
    "If {p} {v} the {t}, we can {x} the {u} {w}.|I think that {p} should {v} the {k} {t}.|"
    "{P} and {q} would {v} {n} {t}s {w}.|What a {k} {t}!|Don't {v} the {t}!|Thank you for the {t}.|"
    "The {k} {t} costs {n} dollars.|Yes, {p} can {v} it {w}.|No, that is not the {t} {l}.|"
    "When {p} saw the {t}, {q} began to {v} the {k} {u}.|Good morning, how was the {t}?|"
    "{P} said that the {t} would be {k} {w}.|Let's {v} the {t} {w}.|That's a {k} {t}, isn't it?|"
    "Sure, I can help you {v} the {t}.|Well, the {t} was {k}.|It takes {n} minutes to {v} a {t}."
).split("|")


def everyday_sentence(rng: random.Random) -> str:
    """A sentence of words that people use, of which not all make sense."""
    person, other = rng.sample(_PEOPLE, 2)
    thing, second = rng.sample(_THINGS, 2)
    kind, opposite = rng.sample(_KINDS, 2)
    verb, then = rng.sample(_SIMPLE, 2)
    return rng.choice(_FORMS).format(
        p=person,
        P=person[0].upper() + person[1:],
        q=other,
        t=thing,
        u=second,
        k=kind,
        j=opposite,
        v=verb,
        x=then,
        l=rng.choice(_PLACES),
        w=rng.choice(_TIMES),
        n=rng.choice(_COUNTS),
    )
