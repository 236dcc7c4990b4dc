"""Draft passes of fixed shapes: the same drafts and answers, nothing asked of the host inside, a clear fall-back."""

from __future__ import annotations

import copy
import dataclasses
import gc
import weakref

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from glance import padded
from glance.drafters.autoregressive import Autoregressive
from glance.drafters.block import BlockDrafter, BlockHead
from glance.drafters.eagle3 import Eagle3Drafter
from glance.drafters.layers import MRope
from glance.engine import Decoding, Settings, Step
from glance.padded import PaddedVerify, Recorded
from glance.tree import CandidateTree
from tests.stubs import Known


def run_of(family, prefill, drafter, cap=30, budget=20):
    settings = Settings(max_new_tokens=cap, budget=budget)
    return Decoding(family.target, prefill, drafter, settings, family.stop_rules(settings))


@pytest.fixture(scope="module")
def answer(family, prefill):
    run = run_of(family, prefill, Autoregressive())
    list(run)
    return run.answer


def block(family, padded, **changes):
    return BlockDrafter(family.block_head, family.target.embed_tokens, family.target.lm_head, padded=padded, **changes)


def own_vocabulary(family, padded):
    config = dataclasses.replace(
        family.block_head.config, vocab_size=264, draft_vocab_size=40, own_embeddings=True, block_size=4
    )
    torch.manual_seed(0)
    head = BlockHead(config).requires_grad_(False)
    head.t2d[60:100] = True
    return BlockDrafter(head, None, None, padded=padded)


def three_axes(family, padded, lane):
    head = copy.deepcopy({"eagle3": family.eagle3_head, "glance": family.block_head}[lane])
    head.config = dataclasses.replace(head.config, mrope=MRope((4, 2, 2), interleaved=True))
    if lane == "eagle3":
        return eagle3(family, padded, head)
    return BlockDrafter(head, family.target.embed_tokens, family.target.lm_head, padded=padded)


def eagle3(family, padded, head=None, **changes):
    image = family.parts.model.config.image_token_id
    return Eagle3Drafter(head or family.eagle3_head, image, padded=padded, **changes)


DRAFTERS = {
    "block": block,
    "block as a chain": lambda family, padded: block(family, padded, as_chain=True),
    "block of its own vocabulary": own_vocabulary,
    "block of three axes": lambda family, padded: three_axes(family, padded, "glance"),
    "eagle3": eagle3,
    "eagle3, nine wide": lambda family, padded: eagle3(family, padded, steps=8, top_k=9),
    "eagle3 of three axes": lambda family, padded: three_axes(family, padded, "eagle3"),
}


class Pair:
    """Compares a padded drafter with an ordinary one in each round of a run that follows a known answer."""

    def __init__(self, make, family, answer):
        self.ordinary, self.padded = make(family, False), make(family, True)
        size = family.parts.model.config.text_config.vocab_size
        self.known = Known(answer, vocabulary=size)
        self.trees, self.rounds = [], 0

    def begin(self, prefill, capacity):
        """Begin both. What lies behind the prompt's rows must not matter."""
        for drafter in (self.ordinary, self.padded, self.known):
            drafter.begin(prefill, capacity)
        for layer in self.padded.cache.rows:
            layer.keys[:, :, layer.length :] = layer.values[:, :, layer.length :] = torch.nan

    def propose(self, budget):
        """Compare the two drafts, then draft right tokens: each round another number, up to a whole block."""
        want, got = self.ordinary.propose(budget), self.padded.propose(budget)
        assert (got.tree.tokens, got.tree.parents) == (want.tree.tokens, want.tree.parents)
        assert got.tree.log_q == pytest.approx(want.tree.log_q, abs=1e-5)
        (ids, log_q), (wanted_ids, wanted_log_q) = got.top(), want.top()
        assert ids == wanted_ids and log_q == pytest.approx(wanted_log_q, abs=1e-5)
        self.trees.append(got.tree)
        self.known.length = (self.ordinary.horizon, 0, 3, 1)[self.rounds % 4]
        self.rounds += 1
        return self.known.propose(budget)

    def commit(self, accepted):
        """Tell all."""
        for drafter in (self.ordinary, self.padded, self.known):
            drafter.commit(accepted)


@pytest.mark.parametrize("make", DRAFTERS.values(), ids=DRAFTERS)
def test_padded_drafts_are_ordinary_drafts(family, prefill, answer, make):
    pair = Pair(make, family, answer)
    run = run_of(family, prefill, pair)
    rounds = list(run)
    assert run.answer == answer and len(answer) == 30
    assert {len(r.accepted) for r in rounds} >= {0, pair.ordinary.horizon}
    assert all(len(tree) for tree in pair.trees)
    assert len(pair.padded.cache.passes) == (2 if isinstance(pair.padded, Eagle3Drafter) else 1)
    assert not pair.ordinary.cache.passes
    for mine, other in zip(pair.padded.cache.rows, pair.ordinary.cache.rows, strict=True):
        end = pair.ordinary.cache.committed
        torch.testing.assert_close(mine.keys[:, :, :end], other.keys[:, :, :end], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("make", [block, eagle3])
def test_two_requests_in_turn_do_not_disturb_each_other(family, prefill, answer, make):
    other = family.target.prefill(family.prompt(None, "And this?"))
    alone = run_of(family, other, Autoregressive())
    list(alone)
    runs = [
        run_of(family, prefill, Pair(make, family, answer)),
        run_of(family, other, Pair(make, family, alone.answer)),
    ]
    rounds = [iter(run) for run in runs]
    while rounds:
        rounds = [r for r in rounds if next(r, None)]
    assert [run.answer for run in runs] == [answer, alone.answer]


def test_the_switch_of_the_target_is_that_of_its_drafters(family, monkeypatch):
    assert not family.drafter("glance").padded and not family.drafter("eagle3").padded
    monkeypatch.setattr(family.target, "padded", True)
    assert family.drafter("glance").padded and family.drafter("eagle3").padded


def begin(drafter, prefill, capacity):
    prompt = prefill.prompt
    drafter.begin(Step(prompt.ids[0], 0, prefill.states, 65, prompt.positions[:, 0]), capacity)
    return drafter


@pytest.mark.parametrize(("make", "room", "rows"), [(block, 64, 12), (eagle3, 64, 12), (block, -6, 0)])
def test_rows_that_a_fixed_shape_cannot_hold_take_an_ordinary_pass(family, prefill, make, room, rows):
    """More rows than a round can commit; and a prompt longer than was announced."""
    prompt, drafts = prefill.prompt, []
    states = {layer: state[:rows] for layer, state in prefill.states.items()}
    more = Step(prompt.ids[0, :rows], prompt.length, states, 66, torch.arange(rows).expand(3, -1) + prompt.length)
    for fixed in (False, True):
        drafter = begin(make(family, fixed), prefill, prompt.length + room)
        if rows:
            drafter.commit(more)
        drafts.append(drafter.propose(31).tree)
        assert drafter.cache.passes.keys() <= {(4, 4)}  # at most EAGLE-3's passes over drafted rows
    assert drafts[1].tokens == drafts[0].tokens
    assert drafts[1].log_q == pytest.approx(drafts[0].log_q, abs=1e-5)


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("make", [block, eagle3])
def test_a_prompt_beyond_all_room_is_refused(family, prefill, make, fixed):
    with pytest.raises(ValueError, match="The cache holds"):
        begin(make(family, fixed), prefill, 0).propose(31)


@pytest.mark.parametrize("make", [block, eagle3])
def test_a_draft_pass_that_cannot_be_recorded_is_run(family, prefill, answer, make, monkeypatch, caplog):
    class Stream:
        def __init__(self, *args):
            raise RuntimeError("capture is not permitted")

    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    on_gpu = lambda run, device, **more: Recorded(run, torch.device("cuda"), **more)  # noqa: E731
    monkeypatch.setattr(padded, "Recorded", on_gpu)
    run = run_of(family, prefill, Pair(make, family, answer))
    list(run)
    assert run.answer == answer
    said = "A pass runs without a CUDA graph; recording failed: capture is not permitted."
    assert set(caplog.messages) == {said}
    assert len(caplog.messages) == (1 if make is block else 2)


class NothingOfTheHost(TorchDispatchMode):
    """Fails where a GPU would have to wait for the host, or the host for it: neither can be recorded."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        masks = [t for t in (args[1] if name in ("index", "index_put", "index_put_") else ()) if t is not None]
        by_mask = any(t.dtype == torch.bool for t in masks)
        host = name in ("_local_scalar_dense", "lift_fresh", "nonzero", "masked_select") or by_mask
        assert not host, f"{name} in a pass that is to be recorded"
        return function(*args, **(kwargs or {}))


def test_the_guard_sees_what_it_must():
    x = torch.arange(6).view(2, 3)
    for careless in (lambda: x[[0, 1]], lambda: x[x > 2], lambda: x[0, 0].item(), lambda: x + torch.tensor([1, 2, 3])):
        with pytest.raises(AssertionError, match="to be recorded"), NothingOfTheHost():
            careless()


@pytest.mark.parametrize("make", DRAFTERS.values(), ids=DRAFTERS)
def test_a_recorded_draft_asks_nothing_of_the_host(family, prefill, make):
    drafter = begin(make(family, True), prefill, prefill.prompt.length + 64)
    drafter.propose(20)
    assert drafter.cache.passes
    for made in drafter.cache.passes.values():
        with torch.no_grad(), NothingOfTheHost():
            made()


@pytest.mark.parametrize("size", [1, 16])
def test_a_recorded_verify_pass_asks_nothing_of_the_host(family, prefill, size):
    cache = prefill.cache.fork(prefill.prompt.length + 40)
    made = PaddedVerify(family.target, cache, size, prefill.prompt)
    made(cache, 3, CandidateTree(), prefill.prompt)
    with NothingOfTheHost():
        made.run()


def test_a_block_draft_leaves_the_device_as_its_likeliest_tokens_only(family, prefill, monkeypatch):
    drafter = begin(block(family, True), prefill, prefill.prompt.length + 64)
    taken = []
    for name in ("tolist", "item", "cpu", "numpy", "__bool__", "__int__", "__float__", "nonzero"):
        real = getattr(torch.Tensor, name)

        def spy(tensor, *args, real=real, **kwargs):
            taken.append(tuple(tensor.shape))
            return real(tensor, *args, **kwargs)

        monkeypatch.setattr(torch.Tensor, name, spy)
    draft = drafter.propose(20)
    draft.top()
    assert taken == [(7, 20), (7, 20)]


@pytest.mark.parametrize("lane", ["autoregressive", "eagle3", "glance"])
def test_a_request_takes_its_buffers_with_it(family, prefill, lane, monkeypatch):
    monkeypatch.setattr(family.target, "padded", True)
    gc.collect()
    gc.disable()
    try:
        made = family.drafter(lane)
        cache = prefill.cache.fork(prefill.prompt.length + 40)
        begin(made, prefill, prefill.prompt.length + 40)
        draft = made.propose(8)
        family.target.verify(cache, 65, draft.tree, prefill.prompt)
        held = [weakref.ref(cache.rows[0].keys)]
        if lane != "autoregressive":
            held.append(weakref.ref(made.cache.rows[0].keys))
            assert made.cache.passes
        assert cache.passes
        del made, cache, draft
        assert [ref() for ref in held] == [None] * len(held)
    finally:
        gc.enable()
