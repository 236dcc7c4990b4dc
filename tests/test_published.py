"""What README and card show in tables, and the figures their words rest on, are the kept outputs of the commands."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

from glance.presets import ASSETS
from glance.synth import FAMILIES

README = " ".join((Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8").split())
CARD = " ".join((ASSETS / "mini/README.md").read_text(encoding="utf-8").split())
BENCH = {
    "eagle3_over_autoregressive": "EAGLE-3 over Autoregressive, decode speed",
    "glance_over_autoregressive": "GLANCE over Autoregressive, decode speed",
    "glance_over_eagle3": "GLANCE over EAGLE-3, decode speed",
    "tree_over_chain": "tree over chain, the same block head",
    "autoregressive_over_generate": "our Autoregressive over `generate()`",
    "autoregressive_round_over_forwards": "Autoregressive round over bare forwards",
    "eagle3_round_over_forwards": "EAGLE-3 round over bare forwards",
    "glance_round_over_forwards": "GLANCE round over bare forwards",
}


def _kept(name: str) -> dict[str, Any]:
    return json.loads((ASSETS / "bench" / f"{name}.json").read_text())


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def test_the_readme_shows_the_kept_bench():
    kept = _kept("mini")
    for r in kept["ratios"]:
        assert f"| {BENCH[r['name']]} | {r['median']:.2f} | {r['low']:.2f} to {r['high']:.2f} |" in README
    assert f"(median {kept['figures']['autoregressive_over_generate']:.2f} times, below)" in README
    assert f"(median of the speed ratio {kept['figures']['glance_over_eagle3']:.2f})" in CARD
    assert sum(row["ms"]["glance"] < row["ms"]["eagle3"] for row in kept["rows"]) == 4 and len(kept["rows"]) == 8
    assert "On the shipped examples each is ahead on four of eight" in README


def test_the_card_shows_what_is_read_and_accepted():
    read = {row["family"]: row for row in _kept("reading")["rows"]}
    accepted = {(row["family"], row["lane"]): row for row in _kept("acceptance")["rows"]}
    for kind in FAMILIES:
        row, (glance, eagle3, blind) = read[kind], (accepted[kind, lane] for lane in ("glance", "eagle3", "blind"))
        cells = [
            kind,
            row["samples"],
            _percent(row["exact"]),
            f"{row['error']:.2f}",
            *(f"{lane['tau']:.2f} ({lane['low']:.2f} to {lane['high']:.2f})" for lane in (glance, eagle3)),
            f"{blind['tau']:.2f}",
            f"{glance['entropy']:.2f}",
        ]
        assert f"| {' | '.join(map(str, cells))} |" in CARD


def test_means_and_wordings():
    figures, worded = _kept("acceptance")["figures"], _kept("wording")["figures"]
    glance, eagle3 = (f"{figures[f'mean_{lane}_tau']:.2f}" for lane in ("glance", "eagle3"))
    assert f"(mean τ {eagle3} against {glance}, tree of 31 nodes" in README
    assert f"Means over the five families: GLANCE {glance}, EAGLE-3 {eagle3}; " in CARD
    assert f"{figures['accepted_glance_over_eagle3']:.2f} times as many tokens a round as EAGLE-3" in CARD
    assert f"give {worded['wordings']:.0f} wordings); {_percent(worded['right'])} of those" in CARD


def _held_out(name: str) -> dict[str, Any]:
    return json.loads((ASSETS / f"mini/curves/{name}.json").read_text())


def _first(name: str) -> str:
    """Top-1 accuracy of a head on its first token of held-out answers."""
    return f"{_held_out(name)['held_out']['top1'][0]:.2f}"


def test_the_card_compares_heads_by_their_first_token():
    two, four, six = (_first(f"glance-depth-{layers}") for layers in (2, 4, 6))
    assert f"{two} with two, {four} with four, {six} with six" in CARD
    of_targets = "{} to {} and to {}"  # the third, the fourth, the fifth
    for what, head in (("the first offset from", "glance"), ("EAGLE-3's first pass went from", "eagle3")):
        assert f"{what} {of_targets.format(*(_first(f'{head}-{n}') for n in (6, 7, 8)))}" in CARD
    chains = [f"{_held_out(f'glance-{n}')['held_out']['chain_accepted']:.2f}" for n in (6, 7, 8)]
    assert f"greedy chain went from {of_targets.format(*chains)} tokens" in CARD


def test_the_card_shows_the_end_of_each_stage_of_the_target():
    for run in ("target", "target-2", "target-3", "target-4", "target-5"):
        with (ASSETS / f"mini/curves/{run}.csv").open() as file:
            last = {row["stage"]: row for row in csv.DictReader(file)}
        for stage, row in last.items():
            losses = (row[name] for name in ("answer_loss", "copy_accuracy", "dense_accuracy"))
            shown = ("—" if value == "nan" else f"{float(value):.2f}" for value in losses)
            numbers = [row["step"], f"{int(row['images']):,}", f"{float(row['seconds']) / 60:.0f}", *shown]
            assert re.search(rf"\| {stage}[^|]* \| {re.escape(' | '.join(numbers))} \|", CARD), (run, stage, numbers)


def test_the_card_shows_top1_on_held_out_answers():
    for head, name in (("glance", "block head, by offset"), ("eagle3", "EAGLE-3, by pass")):
        kept = _held_out(f"{head}-8")
        pairs = zip(kept["held_out"]["top1"][:7], kept["train"]["top1"][:7], strict=True)
        assert f"| {name} | {' | '.join(f'{held:.2f} ({seen:.2f})' for held, seen in pairs)} |" in CARD
        if head == "glance":
            held, seen = (kept[split]["chain_accepted"] for split in ("held_out", "train"))
            assert f"is right for {held:.2f} tokens on average ({seen:.2f} where it was trained)" in CARD


def test_the_card_shows_the_sweeps():
    points = _kept("sweep")["points"]
    for p in points + _kept("sweep-depth")["points"]:
        name = {"eagle3": "EAGLE-3", "glance": "GLANCE"}.get(p["name"], f"`{Path(p['name']).parent}`")
        cells = [name, p["layers"], p["passes"], p["budget"], f"{p['tau']:.2f}", _percent(p["drafting"])]
        assert f"| {' | '.join(map(str, cells))} | {p['speed']:.2f} ({p['low']:.2f} to {p['high']:.2f}) |" in CARD
    best = {lane: max(p["speed"] for p in points if p["name"] == lane) for lane in ("glance", "eagle3")}
    glance, eagle3 = (next(i for i, p in enumerate(points) if p["speed"] == speed) for speed in best.values())
    cost = [[run["ms"] / run["tokens"] for run in row["runs"]] for row in _kept("sweep")["rows"]]
    assert sum(row[eagle3] < row[glance] for row in cost) == 7 and len(cost) == 12
    assert "EAGLE-3 is ahead on seven" in README and "EAGLE-3 is ahead on seven of the twelve prompts" in CARD
    assert f"GLANCE {best['glance']:.2f} times and EAGLE-3 {best['eagle3']:.2f} times" in CARD
    assert f"GLANCE is {best['glance']:.2f} times as fast" in README and f"EAGLE-3 {best['eagle3']:.2f} times" in README


def test_the_card_shows_the_primary_head_beside_its_control():
    for name in ("primary", "control", "primary-2", "primary-3"):
        figures = _kept(f"acceptance-{name}")["figures"]
        taus = (f"{figures[kind + '_glance_tau']:.2f}" for kind in FAMILIES)
        assert f"| {name} | {' | '.join(taus)} |" in CARD


def test_the_readme_shows_the_reach_of_the_warning():
    f = {name: _percent(value) for name, value in _kept("reach")["figures"].items()}
    assert f"speaks on {f['outside']} of [what lies outside](assets/bench/reach.json), photographs, dense" in README
    assert {f[f"{kind}_above"] for kind in ("photograph", "dense page", "Cyrillic", "Greek")} == {f["outside"]}
    assert f"alike, and on {f['inside']} of other pictures of its own kind" in README


def test_the_readme_shows_the_ties_of_bfloat16():
    f = _kept("ties-bf16")["figures"]
    words = (
        f"of {f['runs']} runs {f['identical_without']} were identical without the gate, {f['identical_gate']} with it "
        f"({_percent(f['deferred_share_gate'])} of rounds deferred, {f['passes_per_token_gate']:.2f} target passes a "
        f"token), and {f['identical_exact']} with exact ties ({f['passes_per_token_exact']:.2f} passes)"
    )
    assert words in README
