"""The two heads: block input, context, caches, positions, limits; identity whatever they draft."""

from __future__ import annotations

import copy
import dataclasses
import sys

import pytest
import torch

from glance.drafters import block, eagle3
from glance.drafters.autoregressive import Autoregressive
from glance.drafters.block import BlockDrafter, BlockHead
from glance.drafters.eagle3 import Eagle3Drafter
from glance.drafters.layers import MRope
from glance.engine import Decoding, Settings, Step
from glance.target import EMBEDDINGS
from tests import tiny
from tests.stubs import Known

IMAGES = {"one": [tiny.picture(1)], "two": [tiny.picture(1), tiny.picture(2, (64, 128))], "none": None}


@pytest.fixture(scope="module", params=[True, False], ids=["tied", "untied"])
def family(request):
    return tiny.family(tied=request.param)


def image_id(family):
    return family.parts.model.config.image_token_id


def decode(family, prompt, drafter, budget=31, cap=24):
    settings = Settings(max_new_tokens=cap, budget=budget)
    run = Decoding(family.target, family.target.prefill(prompt), drafter, settings, family.stop_rules(settings))
    return run, list(run)


@pytest.mark.parametrize("budget", [1, 8, 31, 63])
@pytest.mark.parametrize("lane", ["eagle3", "glance"])
@pytest.mark.parametrize("images", IMAGES.values(), ids=IMAGES)
def test_greedy_identity_for_any_head_budget_and_prompt(family, images, lane, budget):
    prompt = family.prompt(images, "Say it.")
    expected, _ = decode(family, prompt, Autoregressive())
    got, rounds = decode(family, prompt, family.drafter(lane), budget)
    assert got.answer == expected.answer
    assert all(0 < len(r.tokens) <= budget for r in rounds)


def test_layer_rules():
    assert block.default_layer_ids(36, 5) == (1, 9, 17, 25, 33)
    assert block.default_layer_ids(28, 5) == (1, 7, 13, 19, 25)
    assert block.default_layer_ids(36, 1) == (18,)
    assert eagle3.default_layer_ids(36) == (1, 17, 32)


class Spy(torch.nn.Module):
    """Records each call of a head and passes it on."""

    def __init__(self, head):
        super().__init__()
        self.head, self.config, self.calls = head, head.config, []

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.head, name)

    def forward(self, *args, **kwargs):
        """Record, then run."""
        self.calls.append((args, kwargs))
        return self.head(*args, **kwargs)


class Fed:
    """Feeds a head with the commits of a run that follows a known answer, 0 to 4 accepted tokens a round."""

    def __init__(self, head_drafter):
        self.head_drafter = head_drafter

    def begin(self, prefill, capacity):
        """Begin both."""
        self.head_drafter.begin(prefill, capacity)
        self.known.begin(prefill, capacity)

    def propose(self, budget):
        """Run the head, but draft from the known answer, some more or fewer tokens each round."""
        self.tree = self.head_drafter.propose(budget).tree
        self.known.length = (self.known.length + 3) % 5
        return self.known.propose(budget)

    def commit(self, accepted):
        """Tell both."""
        self.head_drafter.commit(accepted)
        self.known.commit(accepted)


def fed_run(family, fed):
    prompt = family.prompt(IMAGES["one"], "Say it.")
    answer = decode(family, prompt, Autoregressive(), cap=40)[0].answer
    size = family.parts.model.config.text_config.vocab_size
    fed.known = Known(answer, vocabulary=size)
    run, rounds = decode(family, prompt, fed, cap=40)
    assert run.answer == answer and {len(r.accepted) for r in rounds} >= {0, 1, 3}
    return prompt, rounds, answer


def test_the_block_is_the_root_and_masks_and_the_context_all_that_lies_before(family):
    spy = Spy(family.block_head)
    drafter = BlockDrafter(spy, family.target.embed_tokens, family.target.lm_head)
    _, rounds, _ = fed_run(family, Fed(drafter))
    size = spy.config.block_size
    prompt_rows, no_block = spy.calls[0][0][:2]
    assert prompt_rows.shape[1] == rounds[0].position - 1 and no_block.shape[1] == 0
    for rnd, (args, _) in zip(rounds, spy.calls[1:], strict=True):
        states, noise, state_positions, block_positions = args
        ids = torch.tensor([rnd.root] + [spy.config.mask_token_id] * (size - 1))
        assert torch.equal(noise[0], family.target.embed_tokens(ids))
        assert state_positions.tolist() == list(range(rnd.position - states.shape[1], rnd.position))
        assert block_positions.tolist() == list(range(rnd.position, rnd.position + size))
    assert drafter.cache.committed == rounds[-1].position


@pytest.mark.parametrize("lane", ["eagle3", "glance"])
def test_incremental_context_equals_one_pass_over_everything(family, lane):
    """What a head drafts after many rounds of any length is what it drafts from all true states at once."""
    fed = Fed(family.drafter(lane))
    prompt, rounds, answer = fed_run(family, fed)
    last = rounds[-1]
    ids = torch.cat((prompt.ids, torch.tensor([answer[: last.position - prompt.length]])), 1)
    behind = torch.arange(prompt.length, ids.shape[1]) + prompt.rope_delta
    positions = torch.cat((prompt.positions, behind.expand(3, 1, -1)), -1)
    states = family.target.prefill(dataclasses.replace(prompt, ids=ids, positions=positions)).states
    fresh = family.drafter(lane)
    fresh.begin(Step(ids[0], 0, states, last.root, positions[:, 0]), ids.shape[1] + 40)
    assert_same_tree(fresh.propose(31).tree, fed.tree)


def assert_same_tree(one, two):
    assert (one.tokens, one.parents) == (two.tokens, two.parents)
    assert one.log_q == pytest.approx(two.log_q, abs=1e-4)


def test_eagle3_pairs_each_feature_with_the_next_token(family):
    spy = Spy(family.eagle3_head)
    prompt, rounds, answer = fed_run(family, Fed(Eagle3Drafter(spy, image_id(family), steps=8, top_k=4)))
    prefix = [*prompt.ids[0].tolist(), *answer]
    assert len(spy.calls) == 1 + 8 * len(rounds)
    extends = [spy.calls[0], *spy.calls[1::8]]
    ends = [rounds[0].position - 1, *(rnd.position for rnd in rounds)]
    for end, (args, _) in zip(ends, extends, strict=True):
        embeddings, _, positions = args[:3]
        assert positions.tolist() == list(range(end - embeddings.shape[1], end))
        following = torch.tensor(prefix[positions[0] + 1 : end + 1])
        text = following != family.parts.model.config.image_token_id
        assert torch.equal(embeddings[0][text], family.target.embed_tokens(following)[text])
    first = extends[0][0][0][0]
    states = family.target.prefill(prompt).states
    assert torch.equal(first, states[EMBEDDINGS][1:]), "visual tokens are embedded as the target embeds them"


def test_eagle3_only_drafts_tokens_of_its_vocabulary(family):
    prompt = family.prompt(IMAGES["one"], "Say it.")
    _, rounds = decode(family, prompt, family.drafter("eagle3"))
    assert all(family.eagle3_head.t2d[t] for r in rounds for t in r.tokens)


@pytest.mark.parametrize("size", [1, 3])
def test_a_draft_vocabulary_smaller_than_the_branching_is_enough(family, size):
    head = eagle3.Eagle3Head(tiny.eagle3_config(family.parts, size)).requires_grad_(False)
    prompt = family.prompt(IMAGES["one"], "Say it.")
    expected, _ = decode(family, prompt, Autoregressive())
    got, rounds = decode(family, prompt, Eagle3Drafter(head, image_id(family)))
    assert got.answer == expected.answer
    assert all(rnd.tokens and set(rnd.tokens) <= set(range(size)) for rnd in rounds)


@pytest.mark.parametrize("lane", ["eagle3", "glance"])
def test_building_is_timed_once_the_device_has_finished_the_pass(family, lane, monkeypatch):
    """Reading a pending result waits for it, and that wait belongs to the draft."""
    drafter = family.drafter(lane)
    prompt = family.prompt(IMAGES["one"], "Say it.")
    drafter.begin(
        Step(prompt.ids[0], 0, family.target.prefill(prompt).states, 65, prompt.positions[:, 0]), prompt.length + 64
    )
    log = []
    monkeypatch.setattr(sys.modules[type(drafter).__module__], "clock", lambda device: log.append(device) or 0.0)
    hook = drafter.head.register_forward_hook(lambda *_: log.append("pass"))
    drafter.propose(8)
    hook.remove()
    assert set(log) == {family.target.device, "pass"}
    built = "".join("p" if event == "pass" else "c" for event in log).split("cc")  # a clock before, and one behind
    assert built[0] == "p" and set(built) <= {"p", ""}


def test_eagle3_drafted_rows_see_their_ancestors_only(family):
    """The tree's log-probabilities equal those of one chain pass over each path."""
    head = family.eagle3_head
    prompt = family.prompt(IMAGES["one"], "Say it.")
    prefill = family.target.prefill(prompt)
    step = Step(prompt.ids[0], 0, prefill.states, 65, prompt.positions[:, 0])
    drafter = Eagle3Drafter(head, image_id(family), steps=4, top_k=3)
    drafter.begin(step, prompt.length + 64)
    tree = drafter.propose(30).tree
    fused = head.fc(torch.cat([step.states[i] for i in head.config.target_layer_ids], -1))
    embeddings = torch.cat((step.states[EMBEDDINGS][1:], head.embed_tokens(torch.tensor([65]))))
    to_draft = {int(i + head.d2t[i]): i for i in range(head.config.draft_vocab_size)}
    for node in range(len(tree)):
        path, at = [], node
        while at >= 0:
            path.insert(0, at)
            at = tree.parents[at]
        features, rows = fused, embeddings
        for index in path:
            n = len(rows)
            causal = torch.ones(n, n, dtype=torch.bool).tril()
            hidden = head(rows[None], features[None], torch.arange(n), causal[None, None])[0]
            log_q = head.logits(hidden[-1]).log_softmax(-1)
            token = tree.tokens[index]
            assert float(log_q[to_draft[token]]) == pytest.approx(tree.log_q[index], abs=1e-4)
            rows = torch.cat((rows, head.embed_tokens(torch.tensor([token]))))
            features = torch.cat((features, hidden[-1:]))


@pytest.mark.parametrize("lane", ["eagle3", "glance"])
def test_beyond_its_positions_a_head_falls_silent_and_the_answer_holds(family, lane, monkeypatch):
    prompt = family.prompt(IMAGES["one"], "Say it.")
    expected, _ = decode(family, prompt, Autoregressive())
    drafter = family.drafter(lane)
    head = drafter.head
    monkeypatch.setattr(head, "config", dataclasses.replace(head.config, max_position_embeddings=prompt.length + 18))
    got, rounds = decode(family, prompt, drafter)
    assert got.answer == expected.answer
    assert rounds[0].tokens and not rounds[-1].tokens


def test_a_chain_of_the_same_head_is_the_first_branch_of_its_tree(family):
    prompt = family.prompt(IMAGES["one"], "Say it.")
    prefill = family.target.prefill(prompt)
    step = Step(prompt.ids[0], 0, prefill.states, 65, prompt.positions[:, 0])
    drafts = []
    for as_chain in (True, False):
        drafter = BlockDrafter(family.block_head, family.target.embed_tokens, family.target.lm_head, as_chain)
        drafter.begin(step, prompt.length + 64)
        drafts.append(drafter.propose(63).tree)
    line, tree = drafts
    assert line.parents == tuple(range(-1, 6))
    assert (line.tokens[0], line.log_q[0]) == (tree.tokens[0], tree.log_q[0])


@pytest.mark.parametrize("lane", ["eagle3", "glance"])
def test_the_likeliest_tokens_after_the_root_are_those_of_the_tree(family, lane):
    _, rounds = decode(family, family.prompt(None, "Say it."), family.drafter(lane))
    for rnd in rounds:
        top = dict(zip(rnd.draft_top, rnd.draft_top_log_q, strict=True))
        children = {t: q for t, p, q in zip(rnd.tokens, rnd.parents, rnd.log_q, strict=True) if p < 0}
        shared = top.keys() & children.keys()
        assert len(top) == 5 and len(shared) == min(5, len(children))
        assert {t: top[t] for t in shared} == pytest.approx({t: children[t] for t in shared}, abs=1e-5)
        assert list(rnd.draft_top_log_q) == sorted(rnd.draft_top_log_q, reverse=True)


def three_axes(family, lane):
    """The family's head and a drafter of it, rotating by the target's three axes."""
    head = copy.deepcopy({"eagle3": family.eagle3_head, "glance": family.block_head}[lane])
    head.config = dataclasses.replace(head.config, mrope=MRope((4, 2, 2), interleaved=True))
    if lane == "eagle3":
        return Spy(head), lambda spy: Eagle3Drafter(spy, image_id(family), steps=8, top_k=4)
    return Spy(head), lambda spy: BlockDrafter(spy, family.target.embed_tokens, family.target.lm_head)


@pytest.mark.parametrize("lane", ["eagle3", "glance"])
def test_a_head_of_three_axes_is_given_the_targets_positions(family, lane):
    """Each image keeps one temporal position and spans the others; behind the prompt all axes advance alike."""
    spy, make = three_axes(family, lane)
    prompt, rounds, answer = fed_run(family, Fed(make(spy)))
    behind = torch.arange(prompt.length, prompt.length + len(answer) + 8) + prompt.rope_delta
    true = torch.cat((prompt.positions[:, 0], behind.expand(3, -1)), -1)
    assert not torch.equal(true[0], true[1]) and prompt.rope_delta < 0
    calls, seen = (spy.calls[1::8] if lane == "eagle3" else spy.calls[1:]), 0
    for (args, _), rnd in zip([spy.calls[0], *calls], [None, *rounds], strict=True):
        rows = args[0].shape[1]
        assert torch.equal(args[2], true[:, seen : seen + rows])
        seen += rows
        if lane == "glance" and rnd:
            assert torch.equal(args[3], true[:, seen : seen + spy.config.block_size])
    if lane == "eagle3":
        for depth, (args, _) in enumerate(spy.calls[2:9], 1):  # drafted rows of the first round
            at = rounds[0].position - 1 + prompt.rope_delta + depth
            assert torch.equal(args[2], torch.full((3, args[0].shape[1]), at))


@pytest.mark.parametrize("lane", ["eagle3", "glance"])
def test_three_axes_change_what_is_drafted_behind_an_image_and_nothing_without_one(family, lane):
    spy, make = three_axes(family, lane)
    for images, same in ((IMAGES["one"], False), (None, True)):
        prompt = family.prompt(images, "Say it.")
        step = Step(prompt.ids[0], 0, family.target.prefill(prompt).states, 65, prompt.positions[:, 0])
        drafts = []
        for drafter in (make(spy), family.drafter(lane)):
            drafter.begin(step, prompt.length + 64)
            drafts.append(drafter.propose(31).tree)
        assert (drafts[0].log_q == pytest.approx(drafts[1].log_q, abs=1e-4)) == same


def test_a_block_head_with_its_own_vocabulary_and_embeddings(family):
    config = dataclasses.replace(
        family.block_head.config, vocab_size=264, draft_vocab_size=3, own_embeddings=True, block_size=4
    )
    head = BlockHead(config).requires_grad_(False)
    head.t2d[[65, 70, 263]] = True  # the mask's id is among them
    drafter = BlockDrafter(head, None, None)  # the target's are not touched
    prompt = family.prompt(IMAGES["one"], "Say it.")
    expected, _ = decode(family, prompt, Autoregressive())
    got, rounds = decode(family, prompt, drafter)
    assert got.answer == expected.answer
    assert {t for r in rounds for t in r.tokens} == {65, 70}
    hidden = torch.randn(2, 32)
    full, drafted = head.logits(hidden, None), head.lm_head(hidden)
    assert torch.equal(full[:, [65, 70, 263]], drafted)
    assert full.isinf().sum() == 2 * 261


def test_an_eagle3_head_embeds_text_by_itself_and_images_as_the_target_does(family):
    head = copy.deepcopy(family.eagle3_head)
    head.embed_tokens.weight.data.mul_(-2)
    spy = Spy(head)
    drafter = Eagle3Drafter(spy, image_id(family))
    prompt = family.prompt(IMAGES["one"], "Say it.")
    states = family.target.prefill(prompt).states
    drafter.begin(Step(prompt.ids[0], 0, states, 65, prompt.positions[:, 0]), prompt.length + 64)
    following = prompt.ids[0, 1:]
    image = following == image_id(family)
    embedded = spy.calls[0][0][0][0]
    assert image.any() and torch.equal(embedded[image], states[EMBEDDINGS][1:][image])
    assert torch.equal(embedded[~image], head.embed_tokens(following[~image]))
