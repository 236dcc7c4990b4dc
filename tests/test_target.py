"""The real model class, tiny and random: tree rows, captured states, positions, interleaved requests."""

from __future__ import annotations

import dataclasses
import itertools
import operator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from glance.drafters.autoregressive import Autoregressive
from glance.engine import Decoding, Settings
from glance.errors import BadCheckpoint
from glance.stop import StopRules
from glance.target import EMBEDDINGS, Target
from glance.tree import CandidateTree
from tests import tiny
from tests.stubs import Known

BRANCHY = CandidateTree(
    (70, 71, 72, 70, 73, 74, 75, 76, 70), (-1, -1, 0, 0, 1, 2, 5, 4, 7), (-1.0,) * 9
)  # two branches, a depth of four, siblings and cousins that share tokens
IMAGES = {
    "one image": [tiny.picture(1)],
    "two images": [tiny.picture(1), tiny.picture(2, (64, 128))],
    "text only": None,
}


@pytest.fixture(scope="module", params=[True, False], ids=["tied", "untied"])
def family(request):
    return tiny.family(tied=request.param)


def paths(root: int, tree: CandidateTree) -> list[list[int]]:
    """The tokens from the root to each row."""
    out = [[root]]
    for token, parent in zip(tree.tokens, tree.parents, strict=True):
        out.append([*out[parent + 1], token])
    return out


def plain_forward(family, prompt, extra: list[int]) -> torch.Tensor:
    """Logits [V] after prompt + extra, by transformers alone: its own positions, its own mask, no cache."""
    ids = torch.cat((prompt.ids, torch.tensor([extra], dtype=torch.long)), 1)
    model = family.parts.model
    inputs = {**prompt.vision, "mm_token_type_ids": (ids == model.config.image_token_id).int()}
    model.model.rope_deltas = None
    with torch.no_grad():
        return model(input_ids=ids, use_cache=False, **inputs).logits[0, -1]


@pytest.mark.parametrize("images", IMAGES.values(), ids=IMAGES)
def test_each_tree_row_equals_a_plain_forward_of_its_path(family, images):
    prompt = family.prompt(images, "What is it?")
    prefill = family.target.prefill(prompt)
    cache = prefill.cache.fork(prompt.length + 16)
    seen = family.target.verify(cache, 65, BRANCHY, prompt)
    for row, path in enumerate(paths(65, BRANCHY)):
        difference = (seen.logits[row] - plain_forward(family, prompt, path)).abs().max()
        assert difference <= 1e-4, f"row {row}, path {path}: check positions, mask and rope delta"


def test_rows_after_a_compaction_equal_plain_forwards_too(family):
    prompt = family.prompt(IMAGES["one image"], "What is it?")
    cache = family.target.prefill(prompt).cache.fork(prompt.length + 32)
    family.target.verify(cache, 65, BRANCHY, prompt)
    cache.commit([0, 2, 5])  # root, node 1, node 4: neither contiguous nor the first branch
    seen = family.target.verify(cache, 80, BRANCHY, prompt)
    for row, path in enumerate(paths(80, BRANCHY)):
        expected = plain_forward(family, prompt, [65, 71, 73, *path])
        assert (seen.logits[row] - expected).abs().max() <= 1e-4


def test_a_missing_delta_or_row_index_positions_would_be_seen(family):
    """The check above has teeth: the two classic mistakes move the logits by far more than its bar."""
    prompt = family.prompt(IMAGES["one image"], "What is it?")
    prefill = family.target.prefill(prompt)
    right = family.target.verify(prefill.cache.fork(prompt.length + 16), 65, BRANCHY, prompt)
    no_delta = dataclasses.replace(prompt, rope_delta=0)
    by_row = dataclasses.replace(BRANCHY)
    vars(by_row)["depths"] = tuple(range(1, len(BRANCHY) + 1))
    assert prompt.rope_delta < 0
    for astray, tree in ((no_delta, BRANCHY), (prompt, by_row)):
        wrong = family.target.verify(prefill.cache.fork(prompt.length + 16), 65, tree, astray)
        assert (right.logits - wrong.logits).abs().max() > 1e-2


def test_captured_states_are_what_the_next_layer_takes_in(family):
    """After the DeepStack add, also at image rows of the first layers."""
    prompt = family.prompt(IMAGES["one image"], "What is it?")
    target = Target(family.parts.model, range(-1, 6))
    states = target.prefill(prompt).states
    text = family.parts.model.model.language_model
    is_image = prompt.ids[0] == family.parts.model.config.image_token_id
    position = text.rotary_emb(states[0][None], prompt.positions)
    for layer in range(6):
        with torch.no_grad():
            out = text.layers[layer](states[layer - 1][None], position_embeddings=position, attention_mask=None)[0]
        difference = (out - states[layer]).abs().amax(-1)
        assert difference[~is_image].max() < 1e-4
        if layer < 2:
            assert difference[is_image].min() > 1e-3, "the DeepStack features are missing"
        else:
            assert difference[is_image].max() < 1e-4
    words = family.target.embed_tokens(prompt.ids[0])
    assert torch.equal(states[EMBEDDINGS][~is_image], words[~is_image])
    assert not torch.allclose(states[EMBEDDINGS][is_image], words[is_image])


@pytest.mark.parametrize("images", IMAGES.values(), ids=IMAGES)
def test_an_accepted_branch_that_is_not_the_first_child_keeps_the_answer(family, images):
    prompt = family.prompt(images, "Read it.")
    settings = Settings(max_new_tokens=40)
    prefill = family.target.prefill(prompt)
    runs = {}
    for name, drafter in (("plain", Autoregressive()), ("known", None)):
        size = family.parts.model.config.text_config.vocab_size
        drafter = drafter or Known(runs["plain"].answer, vocabulary=size)
        run = Decoding(family.target, prefill, drafter, settings, family.stop_rules(settings))
        rounds = list(run)
        runs[name] = run
    assert runs["known"].answer == runs["plain"].answer
    assert any(r.accepted and list(r.accepted) != list(range(len(r.accepted))) for r in rounds)
    assert len(rounds) < len(runs["plain"].answer) / 2


def test_a_long_answer_stays_the_same_through_many_compactions(family):
    prompt = family.prompt(IMAGES["one image"], "Q1?")
    settings = Settings(max_new_tokens=300)
    stop = StopRules((), settings.max_new_tokens)
    prefill = family.target.prefill(prompt)
    plain = Decoding(family.target, prefill, Autoregressive(), settings, stop)
    assert len(list(plain)) == 299
    known = Known(plain.answer, length=6, decoys=3, vocabulary=264)
    tree = Decoding(family.target, prefill, known, settings, stop)
    assert len(list(tree)) < 60
    assert tree.answer == plain.answer


def test_interleaved_requests_do_not_change_each_others_logits(family):
    """Different grids, so different rope deltas; the deltas live in the requests."""
    prompts = [family.prompt([tiny.picture(3, size)], "Well?") for size in ((64, 64), (96, 96))]
    prompts.append(family.prompt(None, "Just text?"))
    assert len({p.rope_delta for p in prompts}) == 3
    settings = Settings(max_new_tokens=24)

    def start(prompt):
        prefill = family.target.prefill(prompt)
        return Decoding(family.target, prefill, family.drafter("glance"), settings, family.stop_rules(settings))

    alone = []
    for prompt in prompts:
        run = start(prompt)
        alone.append((list(run), run.answer))
    runs = [start(p) for p in prompts]
    together = [[] for _ in runs]
    steps = [iter(r) for r in runs]
    for rounds in itertools.zip_longest(*steps):
        for mine, rnd in zip(together, rounds, strict=True):
            mine += [rnd] if rnd else []
    for (rounds, answer), run, mixed in zip(alone, runs, together, strict=True):
        assert run.answer == answer
        assert [r.margin for r in rounds] == [r.margin for r in mixed]


def test_requests_on_threads_of_their_own_do_not_touch_each_other(family):
    settings = Settings(max_new_tokens=16)

    def answer(number):
        prompt = family.prompt([tiny.picture(number, (64 + 32 * number, 64))], f"Q{number}?")
        prefill = family.target.prefill(prompt)
        run = Decoding(family.target, prefill, family.drafter("eagle3"), settings, family.stop_rules(settings))
        return [r.tokens for r in run], run.answer

    alone = [answer(n) for n in range(4)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(answer, range(4))) == alone


def test_the_model_object_holds_no_request(family):
    family.parts.model.model.rope_deltas = None
    family.target.prefill(family.prompt(IMAGES["one image"], "What is it?"))
    assert family.parts.model.model.rope_deltas is None


def test_eager_attention_agrees_with_sdpa():
    made = [tiny.parts(attention=kind) for kind in ("sdpa", "eager")]
    rows = []
    for p in made:
        target = Target(p.model)
        family = tiny.family()
        prompt = family.prompt(IMAGES["one image"], "What is it?")
        prefill = target.prefill(prompt)
        rows.append(target.verify(prefill.cache.fork(prompt.length + 16), 65, BRANCHY, prompt).logits)
    assert (rows[0] - rows[1]).abs().max() < 1e-4


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_logits_that_are_not_finite_are_refused(number):
    made = tiny.family()
    with torch.no_grad():
        made.target.lm_head.weight[70] = number
    with pytest.raises(BadCheckpoint, match=r"are not finite: its weights are damaged .+; copy it again, or"):
        made.target.prefill(made.prompt(None, "What is it?"))


@pytest.mark.parametrize("part", ["config", "config.text_config"])
def test_a_kernel_without_tree_masks_is_refused(part):
    made = tiny.parts()
    operator.attrgetter(part)(made.model)._attn_implementation = "flash_attention_2"
    with pytest.raises(ValueError, match="tree mask"):
        Target(made.model)
