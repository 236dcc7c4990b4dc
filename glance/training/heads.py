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
from glance.training.head_trainer import HeadTrainer, Loss
from glance.training.run_folder import CURVE, STATE, begin_curve, claim
from glance.training.shards import SIZE, load_answers, load_states, make_shards, shards_of
from glance.training.states import Reads, Row
from glance.training.tokenizer import MASK

Ends = tuple[nn.Module, nn.Module]  # a target's embeddings and its output head


def earlier_head(recipe: HeadRecipe, parts: TargetParts, folder: str | Path) -> BlockHead | Eagle3Head:
    """A finished head of the recipe's kind to begin with; its own shape counts.

    Raises:
        BadInput: one of a kind that is not trained here, or that the recipe does not fit.
        BadCheckpoint: none that can be loaded.
    """
    blocks = recipe.kind == "glance"
    head = (load_block_head if blocks else load_eagle3_head)(folder, parts)
    config = head.config
    if config.mrope or (blocks and (config.own_embeddings or config.draft_vocab_size)):
        raise BadInput(f"The head {folder} has M-RoPE, embeddings or an output head; begin with one without them.")
    if blocks and recipe.guided and config.num_hidden_layers != recipe.layers:
        raise BadInput(f"The head {folder} has {config.num_hidden_layers} layers, the recipe {recipe.layers}.")
    if not {*config.target_layer_ids} <= {*reads_of(recipe, parts.model.config.text_config.num_hidden_layers).layers}:
        raise BadInput(f"The head {folder} reads layers {config.target_layer_ids}, not those of the recipe.")
    head.requires_grad_(True)
    if not blocks:
        head.embed_tokens.requires_grad_(False)
    return head.float().to(parts.model.device)


def build_head(recipe: HeadRecipe, parts: TargetParts, corpus: list[Answered]) -> BlockHead | Eagle3Head:
    """An untrained head of the recipe's kind."""
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

    Raises:
        BadInput: `out` or `corpus` holds something else, or the earlier head does not fit.
    """
    patience = InitProcessGroupKwargs(timeout=timedelta(days=7))  # a corpus takes hours
    processes = Accelerator(cpu=device == "cpu", kwargs_handlers=[patience])
    main, device = processes.is_main_process, device if processes.num_processes == 1 else str(processes.device)
    parts = load_target(target, getattr(torch, dtype), device)
    text = parts.model.config.text_config
    if parts.model.config.model_type != "qwen3_vl":
        raise BadInput(f"{target} is no Qwen3-VL target; heads are trained for those alone.")
    if main:
        claim(out, {**asdict(recipe), "target": str(target), "start_from": str(start_from or "")})
    head = earlier_head(recipe, parts, start_from) if start_from else None
    reads = reads_of(recipe, text.num_hidden_layers)
    sources = {"train": recipe.samples, "validation": recipe.held_out}
    size = max(16, SIZE * 256 // text.hidden_size)  # a wider target's states fill memory sooner
    shards = {split: shards_of(recipe.families, recipe.seed, split, count, size) for split, count in sources.items()}
    folder, wanted = corpus or out, [*shards["validation"], *shards["train"]]
    if main:
        make_shards(target, wanted, folder, reads, workers, device, dtype, recipe.max_new_tokens, quiet, parts)
    processes.wait_for_everyone()
    rows, held_out = load_states(shards["train"], folder), load_states(shards["validation"], folder)
    if not rows or not held_out:
        raise BadInput(f"No answer ended within {recipe.max_new_tokens} tokens; nothing can be learnt from these.")
    head = head or build_head(recipe, parts, load_answers(shards["train"], folder))
    threads = workers if device == "cpu" else 1
    ends = ends_of(parts)
    trainer = HeadTrainer(recipe, head, loss_of(recipe, head, ends), rows, threads, processes)
    if (out / STATE).exists():
        trainer.load(out)
    if main:
        begin_curve(out, ("step", "rate", "loss", "first_accuracy"), trainer.done)
    recent: list[tuple[float, float]] = []
    quiet = quiet or not main
    bar = tqdm(trainer.batches(), recipe.name, trainer.steps, initial=trainer.done, disable=quiet, mininterval=5)
    for batch in bar:
        recent.append(trainer.step(batch))
        if not main:
            continue
        if trainer.done % log_every == 0 or trainer.done == trainer.steps:
            loss, accuracy = torch.tensor(recent).nanmean(0).tolist()
            with (out / CURVE).open("a", newline="") as file:
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
