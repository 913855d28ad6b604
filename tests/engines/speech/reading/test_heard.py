"""What was written is heard: figures and abbreviations by a real voice and recognizer."""

import pytest
from tests.support.speech import Ear, Speaker

from antiphon.engines.speech.reading.reader import normalize

SENTENCES = [
    ("The ticket costs $3.50 and the book €20.", ["$3.50|3 dollars and 50", "20 euros|€20"]),
    ("They sold the house for £1.2m last year.", ["1.2 million", "pounds|£"]),
    ("The meeting is on 2026-11-29 in London.", ["november 29", "2026"]),
    ("The old letter is from 5 Nov 1985, I think.", ["5 november|5th of november", "1985"]),
    ("The train leaves at 10:05 and arrives at 3:30 p.m.", ["10.05|10:05|1005", "3.30|3:30", "pm|p.m"]),
    ("Dr. Smith lives on Baker St. in London.", ["dr. smith|doctor smith", "baker street"]),
    ("The road is 5 km long, and the limit is 60 mph.", ["kilometers|km", "miles per hour|mph"]),
    ("Water boils at 100°C, and it is -5°C outside.", ["100 degrees|100°", "minus five|-5|minus 5"]),
    ("Henry VIII was king of England in the 1500s.", ["henry the 8th|henry viii|henry the eighth", "1500s|1500"]),
    ("Please read pages 3–5 of Chapter IV.", ["3 to 5|three to five|3-5", "chapter 4|chapter four"]),
    ("My number is 555-123-4567, and I am at home.", ["555", "123", "4567"]),
    ("Visit https://www.example.com/a?b=c for more.", ["example.com|example dot com", "for more"]),
    ("About 1/2 of the 1,234 people agreed.", ["one half|1/2|one-half", "1,234|1234"]),
    ("**Music** of the 1990s is loved, e.g. in Spain.", ["music", "1990s", "for example"]),
    ("Mr. Jones has 25% of the seats & 3 friends.", ["jones", "25%|25 percent", "and three|and 3"]),
]  # fmt: skip
"""What is written, and what must be in the transcript; the recognizer may write it so or so."""


@pytest.mark.models
@pytest.mark.timeout(180)
def test_what_is_written_short_is_heard_long(speaker: Speaker, ear: Ear) -> None:
    wrong: list[str] = []
    for written, parts in SENTENCES:
        read = normalize(written)
        heard = ear.hear(speaker.say(read).pcm)
        missing = [part for part in parts if not any(w in heard.lower() for w in part.split("|"))]
        if missing:
            wrong.append(f"{missing} is not in {heard!r}, said as {read!r}")
    assert not wrong, "\n".join(wrong)
