"""The shipped examples: the recorded runs can be recorded again, and come out the same but for their times."""

from __future__ import annotations

import dataclasses

import pytest

from glance import presets, trace
from glance.engine import Settings
from glance.examples import CHOSEN, FOLDER, shipped
from glance.race import race

pytestmark = pytest.mark.skipif(not shipped(), reason="no examples in assets")

TIMES = {"ms", "ms_per_token", "tokens_per_s", "begin_ms", "prefill_ms"}
OTHERS = {"run", "provenance"}  # of the recording, not of what was decoded


@pytest.fixture(scope="module")
def family():
    if not (FOLDER.parent / "mini" / "target").exists():
        pytest.skip("no model in assets")
    return presets.load("mini")


def same(kept, made, where: str) -> None:
    """Equal, but for times and the recording's own marks; numbers up to rounding on another processor."""
    if dataclasses.is_dataclass(kept):
        kept, made = ({f.name: getattr(x, f.name) for f in dataclasses.fields(x)} for x in (kept, made))
    if isinstance(kept, dict):
        assert kept.keys() == made.keys(), where
        for key in kept.keys() - TIMES - OTHERS:
            same(kept[key], made[key], f"{where}.{key}")
    elif isinstance(kept, (list, tuple)):
        assert len(kept) == len(made), where
        for i, pair in enumerate(zip(kept, made, strict=True)):
            same(*pair, f"{where}[{i}]")
    elif isinstance(kept, float):
        assert made == pytest.approx(kept, rel=2e-3, abs=2e-3), where
    else:
        assert kept == made, where


@pytest.mark.slow
@pytest.mark.parametrize("index", [0, 3])
def test_an_example_can_be_recorded_again(family, index):
    example = shipped()[index]
    kept = trace.read(example.trace)
    asked = {f.name: kept.header.settings[f.name] for f in dataclasses.fields(Settings)}
    prompt = family.prompt(example.open(), example.question)
    made = trace.read("".join(race(family, prompt, Settings(**{**asked, "stop": tuple(asked["stop"])}))))
    same(kept, made, example.name)


def test_every_chosen_example_is_shipped_with_lanes_that_agree_and_all_that_a_trace_can_tell():
    assert [example.name for example in shipped()] == [f"{kind}-{seed}" for kind, seed in CHOSEN]
    for example in shipped():
        run = trace.read(example.trace)
        assert len({lane.end.sha256 for lane in run.lanes}) == 1
        assert run.header.first_margin is not None, f"{example.name} is an older recording; run glance examples"
        assert all(len(r.margins) == len(r.emitted) for lane in run.lanes for r in lane.rounds)


@pytest.mark.parametrize("change", [{"ids": (1, 2)}, {"reason": "length"}, {"law": None}, {"text": "x"}])
def test_a_changed_recording_would_be_seen(change):
    run = trace.read(shipped()[0].trace)
    lane = run.lanes[-1]
    law = trace.Law(1.0, 0.5, 0.1, 0.9, 15, -0.3, 12, ())
    run = dataclasses.replace(run, lanes=(dataclasses.replace(lane, end=dataclasses.replace(lane.end, law=law)),))
    same(run, run, "kept")
    other = dataclasses.replace(run.lanes[0], end=dataclasses.replace(run.lanes[0].end, **change))
    with pytest.raises((AssertionError, TypeError)):
        same(run, dataclasses.replace(run, lanes=(other,)), "changed")
