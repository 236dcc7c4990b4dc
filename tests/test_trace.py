"""The record: round trip, damage, hostile text."""

from __future__ import annotations

import json

import pytest

from glance import trace
from glance.engine import Settings
from glance.race import race
from tests import tiny


@pytest.fixture(scope="module")
def text(family):
    prompt = family.prompt(tiny.picture(), "Is it a\u2028 <img onerror=alert(1)> ${x}?")
    return "".join(race(family, prompt, Settings(max_new_tokens=12)))


def test_a_run_survives_the_round_trip(text):
    made = trace.read(text)
    assert trace.read(trace.write(made)) == made


def test_every_line_is_one_json_object_without_nan(text):
    lines = text.split("\n")
    assert lines.pop() == ""
    kinds = [json.loads(raw, parse_constant=pytest.fail)["kind"] for raw in lines]
    assert kinds[0] == "header" and kinds[-3:] == ["end"] * 3 and set(kinds[1:-3]) == {"round"}


def test_the_text_can_be_rebuilt_from_the_trace_alone(text):
    made = trace.read(text)
    for lane in made.lanes:
        ids = [made.header.first, *(t for r in lane.rounds for t in r.emitted)]
        assert tuple(ids) == lane.end.ids
        eos = set(made.header.settings["eos_ids"])
        data = b"".join(made.pieces[i] for i in ids if i not in eos)
        assert data.decode("utf-8", errors="replace") == lane.end.text


def test_acceptance_can_be_rechecked_from_the_trace_alone(text):
    for lane in trace.read(text).lanes:
        for rnd in lane.rounds:
            path, node = [], -1
            for i in rnd.accepted:
                assert rnd.parents[i] == node
                path.append(rnd.tokens[i])
                node = i
            assert rnd.emitted == (*path, *([] if rnd.bonus is None else [rnd.bonus]))


NEW = ("entropies", "margins", "draft_top", "draft_top_log_q", "target_top", "target_top_log_p", "first_entropy",
       "first_margin", "law", "single_passes")  # fmt: skip


def test_a_trace_of_before_the_new_fields_still_reads(text):
    lines = [json.loads(raw) for raw in text.split("\n")[:-1]]
    assert set(NEW) <= {key for line in lines for key in line}
    old = "".join(json.dumps({k: v for k, v in line.items() if k not in NEW}) + "\n" for line in lines)
    made, before = trace.read(text), trace.read(old)
    assert before.header.first_margin is None and before.lanes[1].end.law is None
    assert not any(r.margins or r.draft_top for lane in before.lanes for r in lane.rounds)
    assert [lane.end.ids for lane in before.lanes] == [lane.end.ids for lane in made.lanes]
    assert trace.read(trace.write(before)) == before


def test_a_torn_file_keeps_its_whole_lines(text):
    torn = trace.read(text[: len(text) // 2])
    assert sum(len(lane.rounds) for lane in torn.lanes) > 0
    assert all(lane.end is None for lane in torn.lanes)


@pytest.mark.parametrize("cut", [1, 2, 40])
def test_only_a_line_that_is_torn_is_lost(text, cut):
    whole, torn = trace.read(text), trace.read(text[:-cut])
    assert torn == whole if cut == 1 else [lane.end is None for lane in torn.lanes] == [False, False, True]


def change(text: str, which: str, **values: object) -> str:
    """The text with some keys of its first line of a kind changed, or removed where the value is None."""
    lines = [json.loads(raw) for raw in text.split("\n")[:-1]]
    line = next(x for x in lines if x["kind"] == which)
    line.update(values)
    for key in [k for k, v in values.items() if v is None]:
        del line[key]
    return "".join(json.dumps(x) + "\n" for x in lines)


def with_entropies(text: str, nats: float) -> str:
    """The text with this entropy at every token of the first round."""
    line = next(json.loads(raw) for raw in text.split("\n") if '"kind":"round"' in raw)
    return change(text, "round", entropies=[nats] * len(line["emitted"]))


LAW = {"intercept": 1, "slope": 1, "low": 0, "high": 2, "horizon": 15, "r": 0, "rounds": 9, "band": []}
CHILD = {"tokens": [1, 2], "parents": [-1, 0], "log_q": [-1, -1], "log_p": [-1, -1]}  # a node and its child


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda t: "", "empty"),
        (lambda t: "hello\n", "not a JSON object"),
        (lambda t: "[1]\n", "not a JSON object"),
        (lambda t: '{"kind":"round"}\n', "first line"),
        (lambda t: t + t, "first line"),
        (lambda t: change(t, "header", schema=99), "schema 99"),
        (lambda t: change(t, "header", settings=None), "lacks 'settings'"),
        (lambda t: change(t, "round", lane="other"), "does not name"),
        (lambda t: change(t, "round", kind="surprise"), "unknown kind"),
        (lambda t: change(t, "round", margin=None), "lacks 'margin'"),
        (lambda t: change(t, "round", tokens=[1, 2, 3]), "different lengths"),
        (
            lambda t: change(t, "round", tokens=[1], parents=[0], depths=[1], log_q=[0], log_p=[0]),
            "before its parent",
        ),
        (lambda t: change(t, "round", accepted=[999]), "not in its tree"),
        (lambda t: change(t, "round", emitted=[1, 2]), "emits other tokens"),
        (
            lambda t: change(
                t, "round", tokens=[1, 2], parents=[-1, -1], depths=[1, 1], log_q=[0, 0], log_p=[0, 0], accepted=[0, 1]
            ),
            "no path",
        ),
        (lambda t: change(t, "round", **CHILD, depths=[1, 1], accepted=[]), "depths"),
        (lambda t: change(t, "round", margin=float("nan")), "not a JSON object"),
        (lambda t: change(t, "round", margins=[1.0, 2.0, 3.0]), "other tokens than it emits"),
        (lambda t: change(t, "round", entropies=[1.0, 2.0, 3.0]), "other tokens than it emits"),
        (lambda t: change(t, "round", single_passes=-1), "fewer than no passes"),
        (lambda t: change(t, "round", draft_top=[1], draft_top_log_q=[]), "without probabilities"),
        (lambda t: change(t, "round", target_top=[]), "without probabilities"),
        (lambda t: change(t, "end", law={**LAW, "band": [[0.1, 2.0]]}), "band"),
        (lambda t: change(t, "end", law={**LAW, "horizon": 10**12}), "horizon"),
        (lambda t: change(t, "end", law={"slope": 1.0}), "lacks 'intercept'"),
        (lambda t: change(t, "round", root=2**60), "'root' has a value of the wrong kind"),
        (lambda t: change(t, "header", question="\ud800"), "half of a surrogate pair"),
        (lambda t: change(t, "header", lanes=[]), "name lanes"),
        (lambda t: change(t, "header", lanes=[{"id": "glance", "name": "GLANCE"}]), "drafter"),
        (lambda t: change(t, "header", pieces={"1": {"bytes": 10**12}}), "readable bytes"),
        (lambda t: "[" * 100_000 + "\n", "not a JSON object"),
        (lambda t: change(t, "header", prompt={"tokens": "<b>"}), "'tokens' of 'prompt' has a value of the wrong kind"),
        (lambda t: change(t, "header", prompt={"image": 3}), "'image' of 'prompt'"),
        (lambda t: change(t, "header", prompt={"image": [{"sha256": 3}]}), "'sha256' of 'image'"),
        (lambda t: change(t, "header", settings={"eos_ids": 3}), "'eos_ids' of 'settings'"),
        (lambda t: change(t, "header", settings={"budget": "many"}), "'budget' of 'settings'"),
        (lambda t: change(t, "header", settings={"budget": 0}), "budget below one node"),
        (lambda t: change(t, "header", first_entropy=1e200), "no vocabulary allows"),
        (lambda t: change(t, "round", entropy=1e200), "no vocabulary allows"),
        (lambda t: change(t, "round", entropy=-5), "no vocabulary allows"),
        (lambda t: with_entropies(t, 1e200), "no vocabulary allows"),
        (lambda t: change(t, "header", prefill_ms=-1.0), "time that no clock shows"),
        (lambda t: change(t, "round", ms={"verify": -1.0}), "time that no clock shows"),
        (
            lambda t: change(t, "header", lanes=[{"id": str(i), "name": "L", "drafter": ""} for i in range(9)]),
            "9 lanes and 8 can be shown",
        ),
        (
            lambda t: change(t, "round", tokens=[1], parents=[-1], depths=[1], log_q=[0.1], log_p=[0], accepted=[]),
            "probability above one",
        ),
    ],
)
def test_damage_is_named_in_one_sentence(text, damage, message):
    with pytest.raises(trace.TraceError, match=message) as refused:
        trace.read(damage(text))
    assert "\n" not in str(refused.value)


HOSTILE = (None, True, -1, 10**400, 1e308, "", "\ud800", [], [[]], [None], ["x"], {}, {"x": {}}, {"bytes": [300]})


def places(value, path=()):
    """The path of every value inside a JSON value; of a list, of its first entry only."""
    inside = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for key, part in inside:
        yield (*path, key)
        yield from places(part, (*path, key))


@pytest.mark.parametrize("kind", ["header", "round", "end"])
def test_any_value_anywhere_is_read_or_refused_with_one_sentence(text, kind):
    lines = text.split("\n")[:-1]
    refusals = []
    number = next(i for i, raw in enumerate(lines) if f'"kind":"{kind}"' in raw and '"tokens":[]' not in raw)
    for path in places(json.loads(lines[number])):
        for value in HOSTILE:
            data = json.loads(lines[number])
            at = data
            for key in path[:-1]:
                at = at[key]
            at[path[-1]] = value
            try:
                trace.read("\n".join([*lines[:number], json.dumps(data), *lines[number + 1 :], ""]))
            except trace.TraceError as error:
                refusals.append(str(error))
    assert refusals and not any("\n" in refusal for refusal in refusals)


def test_a_piece_that_is_no_text_by_itself_keeps_its_bytes():
    header = trace.Header("r", "q", {}, {}, ({"id": "a", "name": "A", "drafter": ""},), 1, 0.0, {})
    made = trace.read(trace.line(header, {1: "é".encode()[:1], 2: b"ok", 3: "\u202e".encode()}))
    assert made.pieces == {1: b"\xc3", 2: b"ok", 3: "\u202e".encode()}
