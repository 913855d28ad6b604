"""Wrong events of every type and dialect: answered, and nothing is left of the session.

A few thousand, whichever seed ``ANTIPHON_FUZZ_SEED`` names; :mod:`tests.conformance.test_fuzz`
has a hundred thousand.
"""

from __future__ import annotations

import os
from itertools import islice
from random import Random

from tests.conformance.fuzz import CODES, run
from tests.conformance.mutations import VALID, messages

from antiphon.realtime.client_messages import Message

MESSAGES = 3000
SEED = int(os.environ.get("ANTIPHON_FUZZ_SEED", "0"))


def test_every_type_of_event_is_mutated() -> None:
    known = {str(kind.__struct_config__.tag) for kind in Message.__args__}
    assert {event["type"] for event in VALID} == known


def test_the_same_seed_gives_the_same_messages() -> None:
    first, second = (list(islice(messages(Random("s")), 300)) for _ in range(2))
    assert first == second
    assert first != list(islice(messages(Random("t")), 300))


def test_whatever_is_sent_the_session_answers_and_goes_on() -> None:
    report = run(MESSAGES, SEED)
    assert report.sent == MESSAGES
    assert report.codes.keys() <= CODES
