"""The shipped family: greedy identity on held-out prompts, real acceptance, states that matter, fair records."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from transformers import Qwen3VLForConditionalGeneration

from glance import presets
from glance.drafters.autoregressive import Autoregressive
from glance.drafters.block import BlockDrafter
from glance.engine import Decoding, Drafter, Settings
from glance.lab.acceptance import Blind, makers
from glance.prompt import Prompt
from glance.synth import FAMILIES, sample
from glance.trace import Round, summarize

PROMPTS = 12  # of each task family: 60 in all


@pytest.fixture(scope="module")
def family() -> presets.Family:
    return presets.load("mini")


def held_out(family: presets.Family, kind: str, count: int = PROMPTS) -> list[Prompt]:
    """Prompts from the generator's test split."""
    drawn = (sample(kind, 1000 + seed, split="test") for seed in range(count))
    return [family.prompt(d.image, d.question) for d in drawn]


def decode(family: presets.Family, prefill, drafter: Drafter, budget: int = 31) -> tuple[list[int], list[Round]]:
    """Answer ids and rounds of one lane."""
    settings = Settings(max_new_tokens=96, budget=budget)
    run = Decoding(family.target, prefill, drafter, settings, family.stop_rules(settings))
    rounds = list(run)
    return run.answer, rounds


@pytest.mark.slow
@pytest.mark.parametrize("kind", FAMILIES)
def test_every_lane_and_budget_prints_the_autoregressive_ids(family, kind):
    for number, prompt in enumerate(held_out(family, kind)):
        budgets = (1, 8, 31, 63) if number < PROMPTS // 3 else (1, 31)
        prefill = family.target.prefill(prompt)
        expected, _ = decode(family, prefill, Autoregressive())
        for lane in ("eagle3", "glance"):
            for budget in budgets:
                got, _ = decode(family, prefill, family.drafter(lane), budget)
                assert got == expected, f"{prompt.question!r}, {lane}, budget {budget}"


@pytest.mark.slow
def test_the_reference_lane_is_what_transformers_generates(family):
    for kind in FAMILIES:
        prompt = held_out(family, kind, 1)[0]
        expected, _ = decode(family, family.target.prefill(prompt), Autoregressive())
        is_image = prompt.ids == family.parts.model.config.image_token_id
        out = family.parts.model.generate(
            input_ids=prompt.ids,
            attention_mask=torch.ones_like(prompt.ids),
            pixel_values=prompt.pixels,
            image_grid_thw=prompt.grid,
            mm_token_type_ids=is_image.int(),
            do_sample=False,
            max_new_tokens=96,
        )
        assert out[0, prompt.length :].tolist() == expected


def tau(family: presets.Family, prompts: list[Prompt], make) -> float:
    """Pooled τ of a drafter over some prompts."""
    rounds = [r for p in prompts for r in decode(family, family.target.prefill(p), make())[1]]
    return summarize(rounds).tau


@pytest.mark.slow
@pytest.mark.parametrize("lane", ["glance", "eagle3"])
def test_a_head_lives_on_the_targets_states(family, lane):
    """With zeroed states its accepted length falls: it reads the image through them."""
    prompts = held_out(family, "documents", 4)
    make = makers(family, [lane])[lane]
    seeing, blind = tau(family, prompts, make), tau(family, prompts, lambda: Blind(make()))
    assert seeing > 2.2
    assert blind < 0.65 * seeing


@pytest.mark.slow
def test_a_block_without_its_root_accepts_less_and_answers_the_same(family):
    class Rootless(BlockDrafter):
        def commit(self, accepted):
            super().commit(dataclasses.replace(accepted, root=self.head.config.mask_token_id))

    prompts = held_out(family, "documents", 4)
    make = lambda cls: lambda: cls(family.block_head, family.target.embed_tokens, family.target.lm_head)  # noqa: E731
    assert tau(family, prompts, make(Rootless)) < tau(family, prompts, make(BlockDrafter))
    prefill = family.target.prefill(prompts[0])
    assert decode(family, prefill, make(Rootless)())[0] == decode(family, prefill, Autoregressive())[0]


def test_the_target_loads_outside_this_library(family):
    model = Qwen3VLForConditionalGeneration.from_pretrained(presets.PRESETS["mini"].target)
    assert sum(p.numel() for p in model.parameters()) < 25e6
