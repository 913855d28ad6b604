import io
import os
import re
import wave
from pathlib import Path

import numpy as np
import pytest

from antiphon.engines.catalog import default_cache_root
from antiphon.engines.chunks import Word
from antiphon.web.demo import SCRIPT, DemoError, run_demo
from antiphon.web.demo_report import Report
from antiphon.web.demo_timeline import Reply, Turn
from antiphon.web.paths import config_file


@pytest.mark.server
@pytest.mark.models
@pytest.mark.timeout(180)
def test_a_conversation_is_held_told_and_written_down(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_demo(None, config_file("scripted"), default_cache_root(os.environ), tmp_path)
    told = capsys.readouterr().out
    for line in SCRIPT:
        assert line.text in told
    assert told.count("latency") == len(SCRIPT)
    assert "✂" in told
    assert "0 bytes of it after speech_started" in re.sub(r"\s+", " ", told)
    rate = re.search(r"words of the replies heard wrong +([\d.]+)%", told)
    assert rate is not None
    assert float(rate[1]) < 25
    names = {path.name for path in tmp_path.iterdir()}
    replies = {f"reply-{n}.wav" for n in range(1, len(SCRIPT) + 1)}
    assert names == replies | {"conversation.wav", "timeline.png"}
    assert (tmp_path / "timeline.png").read_bytes().startswith(b"\x89PNG")
    with wave.open(str(tmp_path / "conversation.wav"), "rb") as both:
        assert (both.getnchannels(), both.getsampwidth(), both.getframerate()) == (2, 2, 24_000)
        samples = np.frombuffer(both.readframes(both.getnframes()), "<i2").reshape(-1, 2)
    loud = np.abs(samples.astype(int)) > 1000
    assert loud.any(axis=0).tolist() == [True, True]
    # Answers are heard after questions, and one is spoken over only until it falls silent.
    assert np.argmax(loud[:, 0]) < np.argmax(loud[:, 1])


def test_a_folder_that_cannot_be_written_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    out = tmp_path / "file" / "out"
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(DemoError, match="pass another --out"):
        run_demo(None, config_file("scripted"), default_cache_root(os.environ), out)


def test_words_are_printed_as_they_sound_and_cut_where_the_reply_is() -> None:
    out = io.StringIO()
    report = Report(out)
    turn = Turn("Tell me.", 1.0, (Word("Tell", 0, 200), Word("me.", 200, 500)))
    reply = Reply("r", 2.0, text="It is a long story.", pcm=bytearray(48_000))
    reply.words = [Word("It", 0, 100), Word("is", 150, 300), Word("a", 310, 400)]
    reply.first_audio_at = 2.25
    turn.replies.append(reply)
    report.began(turn)
    for word in reply.words:
        report.sounded(reply, word)
    reply.cut_at, reply.heard_ms = 2.6, 350.0
    report.cut(turn)
    rows = [" ".join(row.split()) for row in out.getvalue().splitlines() if row]
    assert rows[:4] == [
        "1 Tell me.",
        "answer It is a ✂",
        "not heard a long story.",
        "heard 0.3 s of the 1.0 s received",
    ]
    assert "750 ms from the end of the last word" in out.getvalue()
