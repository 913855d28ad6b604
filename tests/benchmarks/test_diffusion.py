"""What the benchmark of jobs calls missed."""

from __future__ import annotations

from benchmarks.diffusion import Measured, missed_limits, parse
from benchmarks.diffusion_talk import Talk, missed_of_talk


def measured(case: str, *, over: float = 0.0, core: float = 1.0) -> Measured:
    """Two rounds of a picture of a second; ``over``: of ours in excess of the loop."""
    loop, ours = [1.0, 1.1], [1.0 + over, 1.1 * (1 + over)]
    spent, own = [core * each for each in loop], [core * each for each in ours]
    return Measured(
        case,
        made=loop,
        saved=loop,
        alone=ours,
        worker=ours,
        waited=[0.1, 0.1],
        saved_cpu=spent,
        alone_cpu=own,
        worker_cpu=own,
    )


def test_overhead_is_a_share_of_a_picture_or_so_long_where_that_is_short() -> None:
    assert not missed_limits([measured("sd-256", over=0.02)])
    alone, worker = missed_limits([measured("sd-256", over=0.04)])
    assert alone == "sd-256: alone 4.0% over the loop, not 3%"
    assert worker.startswith("sd-256: worker 4.0%")
    assert not missed_limits([measured("tiny-64", over=0.004)])
    (alone,) = missed_limits([measured("tiny-64", over=0.02)])
    assert alone.startswith("tiny-64: alone 21.0 ms over the loop, not 8 ms")


def test_on_a_busy_machine_processor_time_is_judged() -> None:
    busy = measured("sd-256", over=0.0, core=0.6)
    busy.alone = busy.worker = [3.0, 3.0]
    assert not missed_limits([busy])
    busy.alone_cpu = [each * 1.05 for each in busy.saved_cpu]
    assert [line[:14] for line in missed_limits([busy])] == ["sd-256: alone "]


def test_eight_together_are_judged_by_what_a_batch_can_save() -> None:
    def eight(case: str, together: float) -> list[str]:
        result = measured(case)
        result.one_by_one = result.one_by_one_cpu = [8.0]
        result.together = result.together_cpu = [together]
        return missed_limits([result])

    assert not eight("sd-256", 8.2)
    assert eight("sd-256", 8.4) == ["sd-256: 0.95 of the throughput of one by one, not 0.97"]
    assert not eight("tiny-64", 6.3)
    assert eight("tiny-64", 6.5) == ["tiny-64: 1.23 of the throughput of one by one, not 1.25"]


def test_a_stop_takes_two_steps_or_as_long_as_a_look() -> None:
    result = measured("sd-256")
    result.stops = [(0.39, 0.2), (0.11, 0.01)]
    assert not missed_limits([result])
    result.stops = [(0.41, 0.2)]
    (late,) = missed_limits([result])
    assert late == "sd-256: at rest 410 ms after DELETE, 2.0 steps"


def test_talk_is_compared_with_talk_without_jobs() -> None:
    quiet = Talk(False, latencies_ms=[300.0, 320.0, 400.0])
    loaded = Talk(True, latencies_ms=[310.0, 360.0, 900.0], polls_ms=[5.0] * 99, made=2)
    assert not missed_of_talk([quiet, loaded])
    loaded.polls_ms[:3] = [25.0] * 3
    loaded.latencies_ms[1], loaded.made = 369.0, 0
    lines = missed_of_talk([quiet, loaded])
    assert [line.split(":")[0] for line in lines] == ["polls", "talk", "talk"]
    assert not missed_of_talk([])


def test_a_short_run_takes_less() -> None:
    short, whole = parse(["--short"]), parse([])
    assert short.rounds < whole.rounds
    assert short.seconds < whole.seconds
    assert short.parts == whole.parts == ["job", "batch", "stop", "talk"]
