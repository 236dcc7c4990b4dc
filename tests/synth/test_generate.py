"""The generator: deterministic, disjoint splits, glyphs where they are drawn, answers that say what is drawn."""

from __future__ import annotations

import random
import re
import subprocess
import sys

import numpy as np
import pytest

from glance.synth import FAMILIES, SIZES, sample, vocabulary
from glance.synth.generate import MAKERS
from glance.synth.vocabulary import SPLITS, company, first_name, person, place, split_of, street
from glance.training.align import copied_from

SEEDS = range(25)


@pytest.mark.parametrize("family", MAKERS)
def test_a_seed_gives_the_same_sample_again(family):
    for seed in SEEDS:
        one, two = sample(family, seed), sample(family, seed)
        assert one.image.tobytes() == two.image.tobytes()
        assert (one.question, one.answer, one.glyphs, one.things) == (two.question, two.answer, two.glyphs, two.things)


def test_another_process_draws_the_same_pixels():
    code = (
        "import hashlib; from glance.synth import sample; from glance.synth.generate import MAKERS; "
        "print(hashlib.sha256(b''.join(sample(f, 3).image.tobytes() for f in MAKERS)).hexdigest())"
    )
    run = lambda: subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout  # noqa: E731
    assert run() == run()


@pytest.mark.parametrize("family", MAKERS)
def test_seeds_and_splits_differ(family):
    images = {sample(family, seed, split).image.tobytes() for seed in SEEDS for split in SPLITS}
    assert len(images) == len(SEEDS) * len(SPLITS)


@pytest.mark.parametrize("make", [first_name, person, place, company, street])
def test_names_of_two_splits_share_no_invented_word(make):
    rng = random.Random(0)
    for split in SPLITS:
        for _ in range(200):
            invented = re.findall(r"[A-Z][a-z]{2,}", make(rng, split))
            assert any(split_of(word) == split for word in invented)


@pytest.mark.parametrize("family", [*FAMILIES, "plots"])
def test_no_name_is_cut(family, monkeypatch):
    """What is left of one can be a name of another split."""
    drawn, invent = set(), vocabulary._invent
    monkeypatch.setattr(vocabulary, "_invent", lambda *args: (name := invent(*args), drawn.add(name))[0])
    for seed in range(200):
        drawn.clear()
        printed = " ".join(glyphs.text for glyphs in sample(family, seed, "test", size=SIZES[seed % 3]).glyphs)
        for word in re.findall(r"[A-Z][a-z]{3,}", printed):
            assert word in drawn or not any(name.startswith(word) for name in drawn)


@pytest.mark.parametrize("family", MAKERS)
@pytest.mark.parametrize("size", SIZES)
def test_every_glyph_lies_inside_the_image(family, size):
    for seed in SEEDS:
        drawn = sample(family, seed, size=size)
        assert drawn.image.size == size
        assert drawn.image.mode == "RGB"
        for glyph in drawn.glyphs:
            assert len(glyph.centres) == len(glyph.text)
            for x, y in glyph.centres:
                assert -4 <= x <= size[0] + 4, glyph.text
                assert -4 <= y <= size[1] + 4, glyph.text


def test_ink_is_where_glyphs_are_said_to_be():
    """Around each letter's centre the picture is not one flat colour."""
    flat = total = 0
    for seed in range(20):
        drawn = sample("documents", seed)
        pixels = np.asarray(drawn.image.convert("L"), dtype=int)
        for glyph in drawn.glyphs:
            for character, (x, y) in zip(glyph.text, glyph.centres, strict=True):
                if character.isalnum() and 6 < x < 250 and 8 < y < 248:
                    window = pixels[int(y) - 7 : int(y) + 8, int(x) - 4 : int(x) + 5]
                    flat += np.ptp(window) < 40
                    total += 1
    assert total > 500
    assert flat / total < 0.01


@pytest.mark.parametrize("family", [f for f in MAKERS if f != "scenes"])
def test_answers_say_what_is_drawn(family):
    """Most letters and digits of an answer are copies of drawn ones."""
    copied = total = 0
    for seed in range(60):
        drawn = sample(family, seed)
        for character, origin in zip(drawn.answer, copied_from(drawn.answer, drawn.glyphs), strict=True):
            if character.isalnum():
                total += 1
                copied += origin is not None
    assert copied / total > 0.7


def test_documents_are_read_line_by_line():
    reads = [d for d in (sample("documents", seed) for seed in range(60)) if d.task == "read"]
    assert reads
    for drawn in reads:
        text = " ".join(drawn.answer.split())
        assert all(" ".join(glyph.text.split()) in text for glyph in drawn.glyphs)


def test_scenes_name_their_things():
    for seed in range(60):
        drawn = sample("scenes", seed)
        if drawn.task == "describe":
            assert drawn.alternatives
            assert all(f"{thing.colour} {thing.kind}" in drawn.answer for thing in drawn.things)


def test_scenes_are_worded_freely():
    openings = {sample("scenes", seed).answer.split(" a ")[0] for seed in range(80)}
    assert len(openings) > 8


def test_level_lets_documents_grow():
    length = lambda level: sum(len(sample("documents", seed, level=level).answer) for seed in range(40))  # noqa: E731
    assert 3 * length(0.0) < length(1.0)


def test_a_page_of_lines_is_full():
    characters = lambda family: sum(len(g.text) for seed in range(40) for g in sample(family, seed).glyphs)  # noqa: E731
    assert characters("lines") > 2 * characters("documents")


@pytest.mark.parametrize(("family", "split"), [("poems", "train"), ("signs", "dev")])
def test_an_unknown_family_or_split_is_refused(family, split):
    with pytest.raises(ValueError, match="unknown"):
        sample(family, 0, split)
