"""Trains a draft head of either kind on the target's own answers: `train_head(recipe, target, out)`."""

from __future__ import annotations

import copy
import csv
import json
import random
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path

import torch
from accelerate import Accelerator, InitProcessGroupKwargs
from torch import Tensor, nn
from tqdm import tqdm

from glance.checkpoints import TargetParts, load_block_head, load_eagle3_head, load_target
from glance.drafters.block import BlockHead
from glance.drafters.block import default_layer_ids as block_layer_ids
from glance.drafters.eagle3 import Eagle3Head
from glance.drafters.eagle3 import default_layer_ids as eagle3_layer_ids
from glance.errors import BadInput
from glance.exporters import save_head
from glance.target import EMBEDDINGS
from glance.training.corpus import Answered
from glance.training.head_block import Look, block_loss, block_top1, build_block_head
from glance.training.head_eagle3 import build_eagle3_head, eagle3_loss
from glance.training.head_recipe import HeadRecipe
from glance.training.head_trainer import STATE, HeadTrainer, Loss
from glance.training.shards import SIZE, load_answers, load_states, make_shards, shards_of
from glance.training.states import Reads, Row
from glance.training.tokenizer import MASK

Ends = tuple[nn.Module, nn.Module]  # a target's embeddings and its output head


def build_head(
    recipe: HeadRecipe, parts: TargetParts, corpus: list[Answered], start_from: str | Path | None = None
) -> BlockHead | Eagle3Head:
    """A head of the recipe's kind: untrained, or `start_from`, whose own shape then counts.

    Raises:
        BadInput: an earlier head of a kind that is not trained here.
    """
    if start_from:
        head = (load_block_head if recipe.kind == "glance" else load_eagle3_head)(start_from, parts)
        if head.config.mrope or getattr(head.config, "own_embeddings", False):
            raise BadInput(f"The head {start_from} has M-RoPE or its own embeddings; begin with one that has neither.")
        head.requires_grad_(True)
        if recipe.kind == "eagle3":
            head.embed_tokens.requires_grad_(False)
        return head.float().to(parts.model.device)
    torch.manual_seed(recipe.seed)
    stack = parts.model.model.language_model
    if recipe.kind == "glance":
        head = build_block_head(recipe, stack, mask_token_id(parts))
    else:
        head = build_eagle3_head(recipe, stack.config, parts.model.get_input_embeddings(), corpus)
    return head.float().to(parts.model.device)


def mask_token_id(parts: TargetParts) -> int:
    """The mask token of the tokenizer, or the first row of the embeddings that no token uses, as in z-lab's heads.

    Raises:
        BadInput: there is neither.
    """
    known, rows = parts.tokenizer.get_vocab(), parts.model.get_input_embeddings().num_embeddings
    if MASK not in known and len(known) >= rows:
        raise BadInput(f"The target {parts.model.name_or_path} has no embedding to spare for a mask; choose another.")
    return known.get(MASK, len(known))


def ends_of(parts: TargetParts) -> Ends:
    """The target's embeddings and output head, in float32 as the head that learns: copies, where the target is not."""
    both = parts.model.get_input_embeddings(), parts.model.get_output_embeddings()
    if parts.model.dtype == torch.float32:
        return both
    return tuple(copy.deepcopy(one).float() for one in both)


def loss_of(recipe: HeadRecipe, head: BlockHead | Eagle3Head, ends: Ends) -> Loss:
    """The head's loss as a function of some answers."""
    embed, lm_head = ends
    if recipe.kind == "glance":
        looks = [Look(head.layers[i].self_attn) for i in recipe.guided]
        return lambda rows, rng: block_loss(head, rows, embed, lm_head, recipe, rng, looks)

    def eagle3(rows: list[Row], rng: random.Random) -> tuple[Tensor, float]:
        loss, top1 = eagle3_loss(head, rows, lm_head, recipe)
        return loss, top1[0]

    return eagle3


def reads_of(recipe: HeadRecipe, depth: int) -> Reads:
    """What heads of both kinds read of a target of `depth` layers, so that one set of states serves both."""
    layers = {EMBEDDINGS, *block_layer_ids(depth, recipe.fused), *eagle3_layer_ids(depth)}
    return Reads(tuple(sorted(layers)), recipe.pointing)


def train_head(
    recipe: HeadRecipe,
    target: str | Path,
    out: Path,
    corpus: Path | None = None,
    workers: int = 1,
    device: str = "cpu",
    dtype: str = "float32",
    start_from: str | Path | None = None,
    save_every: int = 200,
    log_every: int = 20,
    quiet: bool = False,
) -> Path:
    """Train a head for a Qwen3-VL target, or go on with the run in `out`.

    Under `accelerate launch` the first process makes the corpus and writes the run; all of them share each batch.

    Args:
        target: folder or hub id.
        out: folder of the run: `state.pt`, `curve.csv`, `recipe.json`, `held-out.json` and the finished `head/`.
        corpus: folder of the answers and the target's states, made where missing; share it between heads that are
            compared.
        workers: processes that make the corpus, and threads that share each batch. With one thread of arithmetic each
            (OMP_NUM_THREADS=1) they wait for one another least. A GPU takes each batch whole.
        dtype: of the target; the head learns in float32.
        start_from: a finished head (folder or hub id), say a text-only one, with which a new run begins.

    Returns:
        The folder of the finished head.
    """
    patience = InitProcessGroupKwargs(timeout=timedelta(days=7))  # a corpus takes hours
    processes = Accelerator(cpu=device == "cpu", kwargs_handlers=[patience])
    main, device = processes.is_main_process, device if processes.num_processes == 1 else str(processes.device)
    out.mkdir(parents=True, exist_ok=True)
    parts = load_target(target, getattr(torch, dtype), device)
    text = parts.model.config.text_config
    if parts.model.config.model_type != "qwen3_vl":
        raise BadInput(f"{target} is no Qwen3-VL target; heads are trained for those alone.")
    reads = reads_of(recipe, text.num_hidden_layers)
    sources = {"train": recipe.samples, "validation": recipe.held_out}
    size = max(16, SIZE * 256 // text.hidden_size)  # a wider target's states fill memory sooner
    shards = {split: shards_of(recipe.families, recipe.seed, split, count, size) for split, count in sources.items()}
    folder, wanted = corpus or out, [*shards["validation"], *shards["train"]]
    if main:
        make_shards(target, wanted, folder, reads, workers, device, dtype, recipe.max_new_tokens, quiet)
    processes.wait_for_everyone()
    rows, held_out = load_states(shards["train"], folder), load_states(shards["validation"], folder)
    if not rows or not held_out:
        raise BadInput(f"No answer ended within {recipe.max_new_tokens} tokens; nothing can be learnt from these.")
    head = build_head(recipe, parts, load_answers(shards["train"], folder), start_from)
    if not {*head.config.target_layer_ids} <= {*reads.layers}:
        raise BadInput(f"The head {start_from} reads layers {head.config.target_layer_ids}, not those of the recipe.")
    threads = workers if device == "cpu" else 1
    ends = ends_of(parts)
    trainer = HeadTrainer(recipe, head, loss_of(recipe, head, ends), rows, threads, processes)
    if (out / STATE).exists():
        trainer.load(out)
    elif main:
        (out / "curve.csv").write_text("step,rate,loss,first_accuracy\n")
    if main:
        (out / "recipe.json").write_text(json.dumps(asdict(recipe), indent=1))
    recent: list[tuple[float, float]] = []
    quiet = quiet or not main
    bar = tqdm(trainer.batches(), recipe.name, trainer.steps, initial=trainer.done, disable=quiet, mininterval=5)
    for batch in bar:
        recent.append(trainer.step(batch))
        if not main:
            continue
        if trainer.done % log_every == 0 or trainer.done == trainer.steps:
            loss, accuracy = torch.tensor(recent).nanmean(0).tolist()
            with (out / "curve.csv").open("a", newline="") as file:
                csv.writer(file).writerow([trainer.done, f"{trainer.rate():.3f}", f"{loss:.4f}", f"{accuracy:.4f}"])
            bar.set_postfix_str(f"loss={loss:.3f} first={accuracy:.3f}")
            recent = []
        if trainer.done % save_every == 0:
            trainer.save(out)
    if not main:
        return out / "head"
    trainer.save(out)
    save_head(head, parts, out / "head", torch.bfloat16)
    seen = random.Random(0).sample(rows, min(len(rows), len(held_out)))
    with trainer.device:
        found = {name: figures(recipe, head, ends, some) for name, some in (("held_out", held_out), ("train", seen))}
    (out / "held-out.json").write_text(json.dumps(found, indent=1))
    return out / "head"


@torch.no_grad()
def figures(recipe: HeadRecipe, head: nn.Module, ends: Ends, rows: list[Row]) -> dict[str, object]:
    """Top-1 accuracy at each offset (EAGLE-3: in each pass of the training-time test), on some answers."""
    embed, lm_head = ends
    if recipe.kind == "glance":
        top1, accepted = block_top1(head, rows, embed, lm_head)
        return {"top1": top1, "chain_accepted": accepted}
    found = [eagle3_loss(head, rows[i : i + recipe.batch], lm_head, recipe) for i in range(0, len(rows), recipe.batch)]
    return {"top1": torch.tensor([top1 for _, top1 in found]).nanmean(0).tolist()}
