"""Qwen2.5-VL and Llama-3.2-Vision, tiny and random: tree rows, captured states, identity, interleaved requests."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
import torch

from glance.cache import FixedLayer
from glance.checkpoints import load_target
from glance.checkpoints.target import QUANTIZE
from glance.drafters.autoregressive import Autoregressive
from glance.engine import Decoding, Settings
from glance.errors import BadCheckpoint, BadInput
from glance.stop import StopRules
from glance.target import EMBEDDINGS, Target
from glance.targets import ADAPTERS, adapter
from glance.tree import CandidateTree
from tests import tiny, tiny_targets
from tests.stubs import Known

MAKERS = {"qwen2.5-vl": tiny_targets.qwen2_5_vl, "llama-3.2-vision": tiny_targets.llama_vision}
SIZES = ([(96, 64)], [(40, 200)], [(200, 40)], [(28, 28)], [(300, 310)], [(64, 64), (56, 120)], [])
PROMPTS = [
    ([tiny.picture(i, size) for size in sizes], question)
    for i, (sizes, question) in enumerate(itertools.product(SIZES, ("What is it?", "Read it.", "Q1?")))
][:20]
BRANCHY = CandidateTree((70, 71, 72, 70, 73, 74, 75, 76, 70), (-1, -1, 0, 0, 1, 2, 5, 4, 7), (-1.0,) * 9)


@pytest.fixture(scope="module", params=MAKERS.values(), ids=MAKERS)
def family(request):
    return tiny.with_heads(request.param())


@pytest.fixture(scope="module")
def llama():
    return tiny.with_heads(tiny_targets.llama_vision())


def plain_inputs(family, prompt, extra: list[int]) -> dict[str, torch.Tensor]:
    """What transformers alone is called with for prompt + extra; it makes the positions and the mask."""
    ids = torch.cat((prompt.ids, torch.tensor([extra], dtype=torch.long)), 1)
    inputs = {"input_ids": ids, **prompt.vision}
    if "cross_attention_mask" in inputs:
        last = inputs["cross_attention_mask"][:, -1:].expand(-1, len(extra), -1, -1)
        inputs["cross_attention_mask"] = torch.cat((inputs["cross_attention_mask"], last), 1)
    if "image_grid_thw" in inputs:
        inputs["mm_token_type_ids"] = (ids == family.parts.model.config.image_token_id).int()
    return inputs


def plain_forward(family, prompt, extra: list[int]) -> torch.Tensor:
    """Logits [V] after prompt + extra, without a cache."""
    family.parts.model.model.rope_deltas = None
    with torch.no_grad():
        return family.parts.model(**plain_inputs(family, prompt, extra), use_cache=False).logits[0, -1]


def paths(root: int, tree: CandidateTree) -> list[list[int]]:
    """The tokens from the root to each row."""
    out = [[root]]
    for token, parent in zip(tree.tokens, tree.parents, strict=True):
        out.append([*out[parent + 1], token])
    return out


def decode(family, prefill, drafter, settings=None, stop=None):
    """(answer, rounds, reason) of one lane."""
    settings = settings or Settings(max_new_tokens=5)
    run = Decoding(family.target, prefill, drafter, settings, stop or family.stop_rules(settings))
    rounds = list(run)
    return run.answer, rounds, run.reason


@pytest.mark.parametrize("sizes", [[(96, 64)], [(40, 200), (64, 64)], []], ids=str)
def test_tree_rows_equal_plain_forwards_before_and_after_a_compaction(family, sizes):
    prompt = family.prompt([tiny.picture(1, size) for size in sizes], "What is it?")
    cache = family.target.prefill(prompt).cache.fork(prompt.length + 32)
    seen = family.target.verify(cache, 65, BRANCHY, prompt)
    for row, path in enumerate(paths(65, BRANCHY)):
        assert (seen.logits[row] - plain_forward(family, prompt, path)).abs().max() <= 1e-4  # fp32, as in test_target
    cache.commit([0, 2, 5])  # root, node 1, node 4: neither contiguous nor the first branch
    seen = family.target.verify(cache, 80, BRANCHY, prompt)
    for row, path in enumerate(paths(80, BRANCHY)):
        assert (seen.logits[row] - plain_forward(family, prompt, [65, 71, 73, *path])).abs().max() <= 1e-4


@pytest.mark.parametrize("sizes", [[(96, 64)], []], ids=str)
def test_captured_states_are_the_layers_outputs(family, sizes):
    """Against transformers' own record; a layer that is left out passes on what it would have taken in."""
    prompt = family.prompt([tiny.picture(1, size) for size in sizes], "What is it?")
    states = Target(family.parts.model, range(-1, 6)).prefill(prompt).states
    family.parts.model.model.rope_deltas = None
    with torch.no_grad():
        out = family.parts.model(**plain_inputs(family, prompt, []), output_hidden_states=True, use_cache=False)
    left_out = set() if sizes else family.target.fixed
    recorded = iter(out.hidden_states)
    expected = next(recorded)[0]
    for layer in range(-1, 5):  # transformers gives the last one behind the final norm
        if layer >= 0 and layer not in left_out:
            expected = next(recorded)[0]
        assert (states[layer] - expected).abs().max() <= 1e-5, layer
    last = family.parts.model.model.language_model.norm(states[5])
    assert (last - next(recorded)[0]).abs().max() <= 1e-5
    assert not torch.allclose(states[EMBEDDINGS], states[0])


def test_captured_states_of_tree_rows_are_those_of_plain_rows(family):
    prompt = family.prompt([tiny.picture(1)], "What is it?")
    target = Target(family.parts.model, range(-1, 6))
    seen = target.verify(target.prefill(prompt).cache.fork(prompt.length + 16), 65, BRANCHY, prompt)
    for row in (0, 4, 8):
        cache = target.prefill(prompt).cache.fork(prompt.length + 16)
        for token in paths(65, BRANCHY)[row]:
            alone = target.verify(cache, token, CandidateTree(), prompt)
            cache.commit([0])
        for layer in range(-1, 6):
            assert torch.allclose(seen.states[layer][row], alone.states[layer][0], rtol=1e-4, atol=1e-4)


def test_every_lane_and_budget_prints_the_autoregressive_ids(family):
    assert len(PROMPTS) == 20
    for images, question in PROMPTS:
        prefill = family.target.prefill(family.prompt(images, question))
        expected, *_ = decode(family, prefill, Autoregressive())
        for lane, budget in itertools.product(("glance", "eagle3"), (1, 31)):
            got, drafted, _ = decode(family, prefill, family.drafter(lane), Settings(max_new_tokens=5, budget=budget))
            assert got == expected, f"{len(images)} images, {question!r}, {lane}, budget {budget}"
            assert all(len(r.tokens) == budget for r in drafted[:-1]), "the head drafted too little"


@pytest.mark.parametrize("sizes", [[(96, 64)], []], ids=str)
def test_the_reference_lane_is_what_transformers_generates(family, sizes):
    prompt = family.prompt([tiny.picture(4, size) for size in sizes], "What is it?")
    inputs = plain_inputs(family, prompt, [])
    out = family.parts.model.generate(
        **inputs, attention_mask=torch.ones_like(prompt.ids), do_sample=False, max_new_tokens=24
    )
    got, *_ = decode(family, family.target.prefill(prompt), Autoregressive(), Settings(max_new_tokens=24))
    assert out[0, prompt.length :].tolist() == got


@pytest.mark.parametrize("sizes", [[(200, 40)], []], ids=str)
def test_a_long_answer_stays_the_same_through_many_compactions(family, sizes):
    prompt = family.prompt([tiny.picture(5, size) for size in sizes], "Read it.")
    prefill = family.target.prefill(prompt)
    image = [
        (layer.keys.clone(), layer.values.clone()) if layer.is_initialized else None
        for layer in prefill.cache.layers
        if isinstance(layer, FixedLayer)
    ]
    settings = Settings(max_new_tokens=100)
    stop = StopRules((), settings.max_new_tokens)
    expected, *_ = decode(family, prefill, Autoregressive(), settings, stop)
    size = family.parts.model.config.text_config.vocab_size
    got, rounds, _ = decode(family, prefill, Known(expected, length=6, decoys=3, vocabulary=size), settings, stop)
    assert got == expected
    assert len(rounds) < 25
    assert any(list(r.accepted) != list(range(len(r.accepted))) for r in rounds)
    layers = [layer for layer in prefill.cache.layers if isinstance(layer, FixedLayer)]
    assert len(layers) == len(family.target.fixed)
    for before, layer in zip(image, layers, strict=True):
        if before is None:
            assert not layer.is_initialized
        else:
            assert torch.equal(layer.keys, before[0]) and torch.equal(layer.values, before[1])


def test_interleaved_requests_do_not_change_each_others_rounds(family):
    prompts = [family.prompt([tiny.picture(3, size)], "Well?") for size in ((64, 64), (200, 40))]
    prompts.append(family.prompt(None, "Just text?"))
    alone = [decode(family, family.target.prefill(p), family.drafter("glance")) for p in prompts]
    settings = Settings(max_new_tokens=5)
    runs = [
        Decoding(
            family.target, family.target.prefill(p), family.drafter("glance"), settings, family.stop_rules(settings)
        )
        for p in prompts
    ]
    together = [[] for _ in runs]
    for rounds in itertools.zip_longest(*(iter(r) for r in runs)):
        for mine, rnd in zip(together, rounds, strict=True):
            mine += [rnd] if rnd else []
    for (answer, rounds, _), run, mixed in zip(alone, runs, together, strict=True):
        assert run.answer == answer
        assert [(r.margin, r.log_q) for r in rounds] == [(r.margin, r.log_q) for r in mixed]


@pytest.mark.parametrize("cap", [1, 2, 5, 17])
def test_the_cap_cuts_inside_an_accepted_block(family, cap):
    prefill = family.target.prefill(family.prompt([tiny.picture(6)], "Q?"))
    expected, *_ = decode(family, prefill, Autoregressive(), Settings(max_new_tokens=20), StopRules((), 20))
    size = family.parts.model.config.text_config.vocab_size
    got, _, reason = decode(
        family, prefill, Known(expected, vocabulary=size), Settings(max_new_tokens=cap), StopRules((), cap)
    )
    assert (got, reason) == (expected[:cap], "length")


def test_an_end_token_and_a_stop_string_cut_inside_an_accepted_block(family):
    prefill = family.target.prefill(family.prompt([tiny.picture(6)], "Q?"))
    settings = Settings(max_new_tokens=20)
    expected, *_ = decode(family, prefill, Autoregressive(), settings, StopRules((), 20))
    size = family.parts.model.config.text_config.vocab_size
    end = next(t for i, t in enumerate(expected) if i >= 6 and t not in expected[:i])
    cut = expected[: expected.index(end) + 1]
    ids = StopRules((end,), 20)
    text = StopRules((), 20, (f"<{end}>",), lambda answer: "".join(f"<{i}>" for i in answer))
    for rules, reason in ((ids, "eos"), (text, "stop string")):
        for drafter in (Autoregressive(), Known(expected, length=7, vocabulary=size)):
            assert decode(family, prefill, drafter, settings, rules)[::2] == (cut, reason)


@pytest.mark.parametrize("quantize", QUANTIZE)
def test_a_saved_target_loads_as_its_own_family(family, tmp_path, quantize):
    for part in (family.parts.model, family.parts.tokenizer, family.parts.image_processor):
        part.save_pretrained(tmp_path)
    dtype = torch.float32 if quantize == "none" else torch.bfloat16
    loaded = load_target(tmp_path, dtype, quantize=quantize)
    assert type(loaded.model) is type(family.parts.model)
    assert loaded.quantize == quantize
    prompt, mine = loaded.prompt([tiny.picture(1)], "What?"), family.prompt([tiny.picture(1)], "What?")
    assert prompt.ids_sha256 == mine.ids_sha256
    target = Target(loaded.model)
    prefill, expected = target.prefill(prompt), family.target.prefill(mine).logits
    assert torch.allclose(prefill.logits, expected, atol=1e-5) == (quantize == "none")
    assert torch.corrcoef(torch.stack((prefill.logits, expected)))[0, 1] > 0.5
    seen = target.verify(prefill.cache.fork(prompt.length + 16), 65, BRANCHY, prompt)
    assert seen.logits.isfinite().all()
    assert target.lm_head.weight.dtype == dtype


def test_a_cpu_holds_in_4_bits_what_it_can_read_back(family, tmp_path):
    """bitsandbytes reads other shapes wrongly with AVX-512, and fails on them with bfloat16 instructions."""
    for part in (family.parts.model, family.parts.tokenizer, family.parts.image_processor):
        part.save_pretrained(tmp_path)
    model = load_target(tmp_path, torch.bfloat16, quantize="4bit").model
    for name, layer in model.named_modules():
        if isinstance(layer, torch.nn.Linear) and name != "lm_head":
            fits = layer.in_features % 64 == 0 and layer.out_features % 32 == 0
            assert hasattr(layer, "quant_state") == fits, name
            assert fits or torch.equal(layer.weight, family.parts.model.get_submodule(name).weight.bfloat16()), name


def test_an_unknown_quantization_is_refused(tmp_path):
    with pytest.raises(BadCheckpoint, match="'2bit'; choose among none, 8bit, 4bit"):
        load_target(tmp_path, quantize="2bit")


def test_the_image_changes_the_answer(family):
    logits = [family.target.prefill(family.prompt([tiny.picture(i)], "What?")).logits for i in (1, 2)]
    assert (logits[0] - logits[1]).abs().max() > 1e-2


def test_qwen_positions_agree_with_transformers():
    family = tiny.with_heads(tiny_targets.qwen2_5_vl())
    for images, question in PROMPTS:
        prompt = family.prompt(images, question)
        types = (prompt.ids == family.parts.model.config.image_token_id).int()
        positions, delta = family.parts.model.model.get_rope_index(prompt.ids, types, prompt.grid)
        assert torch.equal(prompt.positions, positions)
        assert prompt.rope_delta == int(delta)


def test_llama_prompts_are_those_of_transformers_own_processor(llama):
    from transformers.models.mllama.processing_mllama import MllamaProcessor

    processor = MllamaProcessor(llama.parts.image_processor, llama.parts.tokenizer, llama.parts.tokenizer.chat_template)
    for images, question in PROMPTS:
        turn = [{"role": "user", "content": [*[{"type": "image"}] * len(images), {"type": "text", "text": question}]}]
        text = processor.apply_chat_template(turn, add_generation_prompt=True)
        theirs = processor(
            images=[images] if images else None, text=text, return_tensors="pt", add_special_tokens=False
        )
        ours = llama.prompt(images, question)
        assert torch.equal(ours.ids, theirs["input_ids"])
        assert set(ours.vision) == set(theirs) - {"input_ids", "attention_mask", "token_type_ids"}
        assert all(torch.equal(ours.vision[name], theirs[name]) for name in ours.vision)


def test_a_missing_tile_mask_would_be_seen(llama):
    """Padding tiles are masked for every later row, not only in the prompt."""
    prompt = llama.prompt([tiny.picture(1, (28, 28))], "What is it?")
    vision = {**prompt.vision, "cross_attention_mask": torch.ones_like(prompt.vision["cross_attention_mask"])}
    prefill = llama.target.prefill(prompt)
    seen = [
        llama.target.verify(prefill.cache.fork(prompt.length + 16), 65, BRANCHY, p).logits
        for p in (prompt, dataclasses.replace(prompt, vision=vision))
    ]
    assert (seen[0] - seen[1]).abs().max() > 1e-2


def test_the_image_is_as_wide_as_the_model_sees_it(family):
    wide = family.seen(tiny.picture(1, (300, 100)))
    assert abs(wide.width - 3 * wide.height) <= 3 * 28
    assert wide.width * wide.height <= (4 * 28) ** 2
    assert wide.width > wide.height


def test_qwen_sees_the_image_at_the_size_of_its_grid():
    family = tiny.with_heads(tiny_targets.qwen2_5_vl())
    for size in ((96, 64), (40, 200), (28, 28), (300, 310), (7, 1000)):
        _, rows, columns = family.prompt([tiny.picture(1, size)], "Q?").grid[0].tolist()
        assert family.seen(tiny.picture(1, size)).size == (14 * columns, 14 * rows)


def test_special_tokens_typed_by_a_visitor_are_ordinary_text(llama):
    image = llama.parts.model.config.image_token_id
    for name in tiny_targets.LLAMA_SPECIAL:
        typed = llama.prompt([tiny.picture(1)], f"Is it {name}?")
        assert int((typed.ids == image).sum()) == 1
        assert typed.question == f"Is it {name}?"


def test_a_prompt_beyond_the_positions_is_refused(family, monkeypatch):
    monkeypatch.setattr(family.parts.model.config.text_config, "max_position_embeddings", 20)
    with pytest.raises(BadInput, match="20 fit"):
        family.prompt([tiny.picture(1)], "What is the name of the thing in the middle?")


def test_windows_of_sliding_attention_are_refused():
    made = tiny_targets.qwen2_5_vl()
    made.model.config.text_config.layer_types = ["full_attention"] * 5 + ["sliding_attention"]
    with pytest.raises(ValueError, match="sliding-window"):
        Target(made.model)


def test_an_unknown_family_is_refused():
    with pytest.raises(BadCheckpoint, match="'llava' is not supported; choose one of Qwen3-VL"):
        adapter("llava")
    assert len(ADAPTERS) == 3
