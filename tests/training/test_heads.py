"""The heads' trainers: what a block may see, what is revealed, how saved heads load, and that they learn."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from glance.checkpoints import TargetParts, load_block_head, load_eagle3_head, load_target
from glance.drafters.autoregressive import Autoregressive
from glance.drafters.block import BlockDrafter
from glance.drafters.eagle3 import Eagle3Drafter
from glance.engine import Decoding, Settings
from glance.errors import BadInput
from glance.exporters import save_head
from glance.stop import StopRules
from glance.target import EMBEDDINGS, Target
from glance.trace import summarize
from glance.training import corpus
from glance.training.architecture import build_image_processor, build_target, save_target
from glance.training.corpus import Answered, answer_samples, build_corpus, make_prompt, save_corpus
from glance.training.head_block import BlockBatch, Look, block_hidden, block_loss
from glance.training.head_eagle3 import eagle3_loss
from glance.training.head_trainer import HeadTrainer
from glance.training.heads import build_head, earlier_head, ends_of, loss_of, reads_of, train_head
from glance.training.states import Reads, teacher_forced

from .tiny import HEAD as GLANCE
from .tiny import SHAPE

ROOT = Path(__file__).parents[2]
EAGLE3 = dataclasses.replace(GLANCE, name="tiny-eagle3", kind="eagle3", passes=3)
ANSWERS = {seed: (*(random.Random(seed).randrange(20, 260) for _ in range(14)), 2) for seed in range(4)}


@pytest.fixture(scope="module")
def parts(tokenizer, tmp_path_factory) -> TargetParts:
    """An untrained target of five layers, with weights large enough that its answers vary and its tops are clear."""
    folder = tmp_path_factory.mktemp("target")
    shape = dataclasses.replace(SHAPE, layers=5)
    model = build_target(shape, tokenizer, seed=1)
    for p in model.model.language_model.parameters():
        if p.ndim == 2:
            p.data *= 60 if p.shape[0] == shape.vocabulary else 20
    save_target(model, tokenizer, build_image_processor(shape), folder)
    return load_target(folder)


@pytest.fixture(scope="module")
def answered() -> list[Answered]:
    return [Answered("charts", seed, "train", (256, 256), answer) for seed, answer in ANSWERS.items()]


def _rows(parts, answered, recipe):
    return build_head(recipe, parts, answered), teacher_forced(parts, answered, reads_of(recipe, 5))


@pytest.mark.parametrize("tokens", [1, corpus.BATCH_TOKENS])
def test_batched_greedy_answers_are_those_of_the_engine(parts, tokens, monkeypatch):
    monkeypatch.setattr(corpus, "BATCH_TOKENS", tokens)
    drawn = [build.draw() for build in (Answered("scenes", seed, "train", (256, 256), ()) for seed in range(5))]
    scored = []
    handle = parts.model.lm_head.register_forward_hook(lambda module, args, logits: scored.append(logits.shape[:2]))
    found = answer_samples(parts, drawn, max_new_tokens=6, batch=3)
    handle.remove()
    assert max(batch for batch, _ in scored) == (1 if tokens == 1 else 3)
    assert all(rows <= batch for batch, rows in scored)  # the logits of a page would fill a GPU
    target = Target(parts.model, [])
    ends = frozenset(parts.model.generation_config.eos_token_id)
    for one, answer in zip(drawn, found, strict=True):
        prefill = target.prefill(make_prompt(parts, one))
        settings = Settings(max_new_tokens=6)
        run = Decoding(target, prefill, Autoregressive(), settings, StopRules(ends, 6))
        list(run)
        assert run.answer == answer[: len(run.answer)]


def test_states_are_those_of_serving(parts):
    """Prompt rows equal the engine's prefill, and the rows behind them predict the target's own answer."""
    drawn = [Answered("charts", seed, "train", (256, 256), ()) for seed in range(3)]
    found = answer_samples(parts, [one.draw() for one in drawn], max_new_tokens=8)
    corpus = [dataclasses.replace(one, answer=tuple(answer)) for one, answer in zip(drawn, found, strict=True)]
    layers = (EMBEDDINGS, 0, 1, 4)
    target = Target(parts.model, layers)
    for one, row in zip(corpus, teacher_forced(parts, corpus, Reads(layers)), strict=True):
        prefill = target.prefill(make_prompt(parts, one.draw()))
        for layer in layers:
            assert torch.allclose(row.states[layer][: row.prompt], prefill.states[layer], rtol=1e-4, atol=1e-3)
        predicted = target.lm_head(row.last[row.prompt - 1 : -1]).argmax(-1)
        assert predicted.tolist() == list(one.answer)


def test_a_block_sees_only_context_before_its_root(parts, answered):
    """Changing states at and behind the root, or another block, leaves a block's output alone."""
    head, rows = _rows(parts, answered, GLANCE)
    start = rows[0].prompt + 3
    embed = parts.model.get_input_embeddings()
    batch = BlockBatch(rows[:1], head, [[start, start + 4]])
    before = block_hidden(head, batch, embed)
    batch.states[:, start:] += 1.0
    batch.slots[:, 1] = 30
    after = block_hidden(head, batch, embed)
    assert torch.allclose(before[:, 0], after[:, 0], atol=1e-6)
    batch.states[:, start - 1] += 1.0
    assert not torch.allclose(after[:, 0], block_hidden(head, batch, embed)[:, 0], atol=1e-6)


def test_a_head_that_begins_with_target_layers_holds_their_weights(parts, answered):
    head = build_head(dataclasses.replace(GLANCE, begin=(2, 3)), parts, answered)
    layers = parts.model.model.language_model.layers
    for mine, source in zip(head.layers, (2, 3), strict=True):
        assert mine.state_dict().keys() == layers[source].state_dict().keys()
        for name, value in layers[source].state_dict().items():
            assert torch.equal(mine.state_dict()[name], value), name


def test_soft_labels_are_the_targets_distribution_in_front_of_each_slot(parts, answered):
    """The state before slot j gives token start + j; a wholly soft loss is the cross-entropy against it."""
    recipe = dataclasses.replace(GLANCE, soft=1.0, reveal=0.0, decay=1.0, anchors=1)
    head, rows = _rows(parts, answered[:1], recipe)
    embed, lm_head = parts.model.get_input_embeddings(), parts.model.get_output_embeddings()
    loss, _ = block_loss(head, rows, embed, lm_head, recipe, random.Random(3))
    row = rows[0]
    start = random.Random(3).sample(range(row.prompt, len(row.ids) - 1), 1)[0]
    batch = BlockBatch(rows, head, [[start]])
    count = min(recipe.block_size, len(row.ids) - start)
    wanted = lm_head(row.last[start : start + count - 1]).softmax(-1)
    found = lm_head(block_hidden(head, batch, embed)[0, 0, 1:count]).log_softmax(-1)
    assert loss.item() == pytest.approx(-(wanted * found).sum(-1).mean().item(), rel=1e-4)


def test_kept_attention_is_the_targets(parts, answered):
    """`looks` of a token is the attention row of the token before it, as the model itself gives it."""
    (row,) = teacher_forced(parts, answered[:1], Reads((0,), pointing=2))
    parts.model.set_attn_implementation("eager")
    prompt = make_prompt(parts, answered[0].draw())
    after = (torch.arange(prompt.length, len(row.ids)) + prompt.rope_delta).expand(3, 1, -1)
    with torch.no_grad():
        out = parts.model(
            input_ids=row.ids[None],
            position_ids=torch.cat([prompt.positions, after], -1),
            pixel_values=prompt.pixels,
            image_grid_thw=prompt.grid,
            output_attentions=True,
        )
    parts.model.set_attn_implementation("sdpa")
    cells = slice(row.first, row.first + row.looks.shape[1])
    assert torch.allclose(row.looks[1:], out.attentions[2][0, 0, :-1, cells], atol=1e-4)
    assert row.looks[row.prompt :].sum() > 0


def test_a_guided_layer_learns_to_look_where_the_target_looked(parts, answered):
    recipe = dataclasses.replace(GLANCE, pointing=2, guided=(1,), guide_weight=5.0, epochs=30, batch=4, warmup=0.1)
    head, rows = _rows(parts, answered, recipe)
    look = Look(head.layers[1].self_attn)

    def missed() -> float:
        """Cross-entropy of the layer's attention against the target's."""
        batch = BlockBatch(rows, head, [[row.prompt, row.prompt + 5] for row in rows])
        block_hidden(head, batch, parts.model.get_input_embeddings())
        spread = look.scores(batch.states.shape[1]).unflatten(1, batch.slots.shape[1:]).log_softmax(-1)
        apart = torch.xlogy(batch.looks, batch.looks) - batch.looks * spread
        return apart.sum(-1)[batch.labels >= 0].mean().item()

    before, trainer = missed(), HeadTrainer(recipe, head, loss_of(recipe, head, ends_of(parts)), rows)
    for batch in trainer.batches():
        trainer.step(batch)
    assert missed() < 0.5 * before


def test_labels_stand_at_their_own_positions(parts, answered):
    head, rows = _rows(parts, answered, GLANCE)
    start = rows[1].prompt + 2
    batch = BlockBatch(rows[1:2], head, [[start]])
    assert batch.slots[0, 0].tolist() == [rows[1].ids[start].item(), *[head.config.mask_token_id] * 4]
    assert batch.labels[0, 0].tolist() == [-100, *rows[1].ids[start + 1 : start + 5].tolist()]


def test_revealed_slots_are_true_and_not_trained(parts, answered):
    head, rows = _rows(parts, answered, GLANCE)
    batch = BlockBatch(rows[:1], head, [[rows[0].prompt]])
    labels = batch.labels.clone()
    shown = int(batch.reveal(random.Random(0), share=1.0)[0, 0])
    assert shown > 0
    assert torch.equal(batch.slots[0, 0, 1 : shown + 1], labels[0, 0, 1 : shown + 1])
    assert (batch.labels[0, 0, 1 : shown + 1] == -100).all()
    assert torch.equal(batch.labels[0, 0, shown + 1 :], labels[0, 0, shown + 1 :])


@pytest.mark.parametrize("recipe", [GLANCE, EAGLE3], ids=["glance", "eagle3"])
def test_a_run_saves_a_head_that_loads(parts, answered, recipe, tmp_path):
    save_corpus(answered, tmp_path / "train-000000-000004.jsonl")
    save_corpus(answered[:2], tmp_path / "validation-000000-000002.jsonl")
    folder = train_head(recipe, parts.model.name_or_path, tmp_path, quiet=True, log_every=1)
    load = load_block_head if recipe.kind == "glance" else load_eagle3_head
    head = load(folder, parts)
    assert sum(p.numel() for p in head.parameters()) > 0
    found = json.loads((tmp_path / "held-out.json").read_text())
    assert all(0 <= rate <= 1 for rate in found["train"]["top1"] + found["held_out"]["top1"])
    assert len((tmp_path / "curve.csv").read_text().splitlines()) == 1 + 4


def test_two_processes_train_the_head_that_two_threads_train(parts, answered, tmp_path):
    for name in ("threads", "processes"):
        (tmp_path / name).mkdir()
        save_corpus(answered, tmp_path / name / "train-000000-000004.jsonl")
        save_corpus(answered[:2], tmp_path / name / "validation-000000-000002.jsonl")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    launched = ["-m", "tests.training.launched", parts.model.name_or_path, str(tmp_path / "processes")]
    subprocess.run([*torchrun, *launched], cwd=ROOT, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    train_head(GLANCE, parts.model.name_or_path, tmp_path / "threads", workers=2, quiet=True)
    one, two = (torch.load(tmp_path / name / "state.pt")["head"] for name in ("threads", "processes"))
    for key, value in one.items():
        assert torch.allclose(value, two[key], atol=1e-5), key
    assert len((tmp_path / "processes" / "curve.csv").read_text().splitlines()) == 1 + 4


@pytest.mark.parametrize("recipe", [GLANCE, EAGLE3], ids=["glance", "eagle3"])
def test_a_run_can_begin_with_an_earlier_head(parts, answered, recipe, tmp_path):
    earlier = build_head(dataclasses.replace(recipe, seed=7), parts, answered)
    save_head(earlier, parts, tmp_path / "earlier", torch.float32)
    begun = earlier_head(dataclasses.replace(recipe, layers=3), parts, tmp_path / "earlier")
    assert begun.config == earlier.config
    for (name, p), q in zip(begun.state_dict().items(), earlier.state_dict().values(), strict=True):
        assert torch.equal(p, q), name
    assert {name for name, p in begun.named_parameters() if p.requires_grad} == {
        name for name, p in earlier.named_parameters() if p.requires_grad
    }
    config = tmp_path / "earlier" / "config.json"
    scaling = {"rope_type": "default", "mrope_section": [6, 5, 5]}
    config.write_text(json.dumps(json.loads(config.read_text()) | {"rope_scaling": scaling}))
    with pytest.raises(BadInput, match="begin with one without"):
        earlier_head(recipe, parts, tmp_path / "earlier")


def test_an_earlier_block_head_has_its_own_slots_and_the_guided_layers(parts, answered, tmp_path, monkeypatch):
    save_head(build_head(dataclasses.replace(GLANCE, block_size=4), parts, answered), parts, tmp_path, torch.float32)
    guided = dataclasses.replace(GLANCE, guided=(1,), pointing=2)
    with pytest.raises(BadInput, match="has 2 layers, the recipe 3"):
        earlier_head(dataclasses.replace(guided, layers=3), parts, tmp_path)
    begun = earlier_head(GLANCE, parts, tmp_path)
    rows = teacher_forced(parts, answered, reads_of(GLANCE, 5))
    loss, _ = block_loss(begun, rows, *ends_of(parts), GLANCE, random.Random(0))
    assert loss.isfinite()
    monkeypatch.setattr("glance.training.heads.block_layer_ids", lambda depth, fused: (0,))
    with pytest.raises(BadInput, match="not those of the recipe"):
        earlier_head(GLANCE, parts, tmp_path)


@pytest.mark.parametrize("recipe", [GLANCE, EAGLE3], ids=["glance", "eagle3"])
def test_a_run_that_was_cut_ends_like_one_that_was_not(parts, answered, recipe, tmp_path, monkeypatch):
    class Cut(Exception):
        """The machine went away."""

    corpus, target = tmp_path / "corpus", parts.model.name_or_path
    corpus.mkdir()
    save_corpus(answered, corpus / "train-000000-000004.jsonl")
    save_corpus(answered[:2], corpus / "validation-000000-000002.jsonl")
    how = {"corpus": corpus, "quiet": True, "log_every": 1, "save_every": 2}
    train_head(recipe, target, tmp_path / "whole", **how)
    step = HeadTrainer.step

    def until_the_fourth(trainer, rows):
        if trainer.done == 3:
            raise Cut
        return step(trainer, rows)

    monkeypatch.setattr(HeadTrainer, "step", until_the_fourth)
    with pytest.raises(Cut):
        train_head(recipe, target, tmp_path / "cut", **how)
    monkeypatch.setattr(HeadTrainer, "step", step)
    with pytest.raises(BadInput, match="choose another folder"):
        train_head(dataclasses.replace(recipe, epochs=3), target, tmp_path / "cut", **how)
    train_head(recipe, target, tmp_path / "cut", **how)
    whole, cut = (torch.load(tmp_path / name / "state.pt") for name in ("whole", "cut"))
    assert whole["done"] == cut["done"] == 4
    for name, p in whole["head"].items():
        assert torch.equal(p, cut["head"][name]), name
    assert (tmp_path / "cut" / "curve.csv").read_text() == (tmp_path / "whole" / "curve.csv").read_text()


@pytest.mark.parametrize("recipe", [GLANCE, EAGLE3], ids=["glance", "eagle3"])
def test_losses_are_finite_for_answers_of_one_token(parts, recipe):
    short = [Answered("charts", 0, "train", (256, 256), (2,)), Answered("charts", 1, "train", (256, 256), (40, 2))]
    head, rows = _rows(parts, short, recipe)
    lm_head = parts.model.get_output_embeddings()
    if recipe.kind == "glance":
        loss, _ = block_loss(head, rows, parts.model.get_input_embeddings(), lm_head, recipe, random.Random(0))
    else:
        loss, _ = eagle3_loss(head, rows, lm_head, recipe)
    assert torch.isfinite(loss)


def test_eagle3_passes_equal_the_drafters_chain(parts, answered):
    """What the head sees in training pass i is what it sees when serving a chain: same hidden states, same logits."""
    recipe = dataclasses.replace(EAGLE3, passes=3, draft_vocabulary=272)
    head, rows = _rows(parts, answered[:1], recipe)
    row, seen = rows[0], []
    head.norm.register_forward_hook(lambda module, args, out: seen.append(args[0].detach()))
    eagle3_loss(head, rows, parts.model.get_output_embeddings(), recipe)
    # serve by hand: rows before the first answer token are committed, the root and two true tokens are drafted
    start = row.prompt
    fused = torch.cat([row.states[i] for i in head.config.target_layer_ids], -1)[:start]
    inputs = torch.cat([row.states[EMBEDDINGS][1:start], head.embed_tokens(row.ids[start : start + 1])])
    features, embedded = head.fc(fused), inputs
    positions = torch.arange(start)
    outputs = []
    for step in range(3):
        size = len(embedded)
        hidden = head(embedded[None], features[None], positions[:size], torch.ones(size, size, dtype=torch.bool).tril())
        outputs.append(hidden[0, -1])
        embedded = torch.cat([embedded, head.embed_tokens(row.ids[start + 1 + step : start + 2 + step])])
        features = torch.cat([features, hidden[0, -1:]])
        positions = torch.arange(len(embedded))
    for step, expected in enumerate(outputs):
        assert torch.allclose(seen[step][0], expected, atol=1e-5), step


@pytest.mark.parametrize("recipe", [GLANCE, EAGLE3], ids=["glance", "eagle3"])
def test_workers_share_a_batch_and_learn_alike(parts, answered, recipe):
    """With every anchor taken and nothing drawn by lot, two workers step as one does: answers have one length."""
    recipe = dataclasses.replace(recipe, batch=4, anchors=14, reveal=0.0, draft_vocabulary=272)
    steps = []
    for workers in (1, 2):
        head, rows = _rows(parts, answered, recipe)
        trainer = HeadTrainer(recipe, head, loss_of(recipe, head, ends_of(parts)), rows, workers)
        loss, _ = trainer.step(rows)
        steps.append((loss, torch.cat([p.flatten() for p in head.parameters()])))
    assert steps[0][0] == pytest.approx(steps[1][0], rel=1e-4)
    assert torch.allclose(steps[0][1], steps[1][1], atol=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", [GLANCE, EAGLE3], ids=["glance", "eagle3"])
def test_an_overfitted_head_drafts_whole_blocks_in_the_engine(parts, recipe):
    """Training and serving match: on prompts learnt by heart almost every draft is accepted."""
    recipe = dataclasses.replace(
        recipe, epochs=200, batch=4, anchors=8, adam_rate=0.005, muon_rate=0.02, draft_vocabulary=272, passes=5
    )
    drawn = [Answered("charts", seed, "train", (256, 256), ()) for seed in range(4)]
    found = answer_samples(parts, [one.draw() for one in drawn], max_new_tokens=24)
    corpus = [dataclasses.replace(one, answer=tuple(answer)) for one, answer in zip(drawn, found, strict=True)]
    head, rows = _rows(parts, corpus, recipe)
    trainer = HeadTrainer(recipe, head, loss_of(recipe, head, ends_of(parts)), rows)
    for batch in trainer.batches():
        trainer.step(batch)
    target = Target(parts.model, reads_of(recipe, 5).layers)
    ends = frozenset(parts.model.generation_config.eos_token_id)
    rounds = []
    for one in corpus:
        if recipe.kind == "glance":
            drafter = BlockDrafter(head.eval(), target.embed_tokens, target.lm_head)
        else:
            drafter = Eagle3Drafter(head.eval(), parts.model.config.image_token_id, steps=4)
        prefill = target.prefill(make_prompt(parts, one.draw()))
        rules = StopRules(ends, 20)
        rounds += list(Decoding(target, prefill, drafter, Settings(max_new_tokens=20, budget=15), rules))
    assert summarize(rounds).tau > 3.0


def test_save_head_leaves_out_the_targets_embeddings(parts, answered, tmp_path):
    head, _ = _rows(parts, answered[:1], EAGLE3)
    save_head(head, parts, tmp_path)
    assert "embed_tokens.weight" not in load_file(tmp_path / "model.safetensors")


def test_a_corpus_holds_only_answers_that_end(parts, monkeypatch):
    found = [[5, 6, 2], [5, 6, 7], []]
    monkeypatch.setattr("glance.training.corpus.answer_samples", lambda parts, drawn, longest, quiet: found)
    corpus = build_corpus(parts, {"charts": 1.0}, 3, seed=0)
    assert [one.answer for one in corpus] == [(5, 6, 2)]
