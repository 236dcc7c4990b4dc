"""Trains a draft head of either kind on the target's own answers: `train_head(recipe, target, out)`."""

from __future__ import annotations

import csv
import json
import math
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import torch
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
from glance.training.muon import Muon
from glance.training.shards import load_answers, load_states, make_shards, shards_of
from glance.training.states import Reads, Row
from glance.training.tokenizer import MASK

_STATE = "state.pt"
Loss = Callable[[list[Row], random.Random], tuple[Tensor, float]]


def build_head(
    recipe: HeadRecipe, parts: TargetParts, corpus: list[Answered], start_from: Path | None = None
) -> BlockHead | Eagle3Head:
    """A head of the recipe's kind, untrained or as the folder `start_from` holds it.

    Raises:
        BadInput: the earlier head has another shape.
    """
    torch.manual_seed(recipe.seed)
    stack = parts.model.model.language_model
    if recipe.kind == "glance":
        head = build_block_head(recipe, stack, parts.tokenizer.convert_tokens_to_ids(MASK))
    else:
        head = build_eagle3_head(recipe, stack.config, parts.model.get_input_embeddings(), corpus)
    if start_from:
        earlier = (load_block_head if recipe.kind == "glance" else load_eagle3_head)(start_from, parts)
        if earlier.config != head.config:
            raise BadInput(f"The head in {start_from} has another shape than recipe {recipe.name} asks for.")
        head.load_state_dict(earlier.state_dict())
    return head.to(parts.model.device)


def loss_of(recipe: HeadRecipe, parts: TargetParts, head: BlockHead | Eagle3Head) -> Loss:
    """The head's loss as a function of some answers."""
    embed, lm_head = parts.model.get_input_embeddings(), parts.model.get_output_embeddings()
    if recipe.kind == "glance":
        looks = [Look(head.layers[i].self_attn) for i in recipe.guided]
        return lambda rows, rng: block_loss(head, rows, embed, lm_head, recipe, rng, looks)

    def eagle3(rows: list[Row], rng: random.Random) -> tuple[Tensor, float]:
        loss, top1 = eagle3_loss(head, rows, lm_head, recipe)
        return loss, top1[0]

    return eagle3


class HeadTrainer:
    """Optimizes a head over epochs of the corpus, cosine rate after a warm-up. `workers` threads share each batch."""

    def __init__(self, recipe: HeadRecipe, head: nn.Module, loss: Loss, rows: list[Row], workers: int = 1) -> None:
        self.recipe, self.head, self.loss, self.rows, self.workers = recipe, head, loss, rows, workers
        self.threads, self.device = ThreadPoolExecutor(workers), next(head.parameters()).device
        self.steps = recipe.epochs * math.ceil(len(rows) / recipe.batch)
        self.done = 0
        learnt = [(name, p) for name, p in head.named_parameters() if p.requires_grad]
        matrices = [p for name, p in learnt if p.ndim == 2 and "lm_head" not in name]
        others = [p for name, p in learnt if p.ndim != 2 or "lm_head" in name]
        self.optimizers = (
            Muon(matrices, lr=recipe.muon_rate, weight_decay=recipe.weight_decay, threads=self.threads),
            torch.optim.AdamW(others, lr=recipe.adam_rate, betas=(0.9, 0.95), weight_decay=recipe.weight_decay),
        )

    def rate(self) -> float:
        """Factor on both learning rates."""
        warm = max(1, round(self.recipe.warmup * self.steps))
        if self.done < warm:
            return (self.done + 1) / warm
        return 0.5 * (1 + math.cos(math.pi * (self.done - warm) / max(1, self.steps - warm)))

    def batches(self) -> Iterator[list[Row]]:
        """What is left of the run. Rows of one batch are of like length."""
        per_epoch = math.ceil(len(self.rows) / self.recipe.batch)
        while self.done < self.steps:
            epoch, step = divmod(self.done, per_epoch)
            rng = random.Random(f"{self.recipe.seed}/{epoch}")
            order = sorted(range(len(self.rows)), key=lambda i: len(self.rows[i].ids) + 8 * rng.random())
            chunks = [order[i : i + self.recipe.batch] for i in range(0, len(order), self.recipe.batch)]
            rng.shuffle(chunks)
            for chunk in chunks[step:]:
                yield [self.rows[i] for i in chunk]

    def _backward(self, rows: list[Row], rng: random.Random, share: float) -> tuple[float, float]:
        """Add one worker's share of the gradient."""
        with self.device:  # where tensors without a place are made
            loss, accuracy = self.loss(rows, rng)
        (share * loss).backward()
        return loss.item(), accuracy

    def step(self, rows: list[Row]) -> tuple[float, float]:
        """One optimizer step: (loss, top-1 accuracy at the first offset)."""
        factor = self.rate()
        for optimizer, rate in zip(self.optimizers, (self.recipe.muon_rate, self.recipe.adam_rate), strict=True):
            optimizer.param_groups[0]["lr"] = rate * factor
        parts = [rows[i :: self.workers] for i in range(min(self.workers, len(rows)))]
        rngs = [random.Random(f"{self.recipe.seed}/{self.done}/{i}") for i in range(len(parts))]
        shares = [len(part) / len(rows) for part in parts]
        found = torch.tensor(list(self.threads.map(self._backward, parts, rngs, shares)))
        nn.utils.clip_grad_norm_(self.head.parameters(), self.recipe.clip)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad()
        self.done += 1
        return tuple(found.nanmean(0).tolist())

    def save(self, folder: Path) -> None:
        state = {
            "head": self.head.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "done": self.done,
        }
        torch.save(state, folder / "state.tmp")
        (folder / "state.tmp").replace(folder / _STATE)

    def load(self, folder: Path) -> None:
        state = torch.load(folder / _STATE, map_location=self.device, weights_only=True)
        self.head.load_state_dict(state["head"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.done = state["done"]


def reads_of(recipe: HeadRecipe, depth: int) -> Reads:
    """What heads of both kinds read of a target of `depth` layers, so that one set of states serves both."""
    layers = {EMBEDDINGS, *block_layer_ids(depth, recipe.fused), *eagle3_layer_ids(depth)}
    return Reads(tuple(sorted(layers)), recipe.pointing)


def train_head(
    recipe: HeadRecipe,
    target: Path,
    out: Path,
    corpus: Path | None = None,
    workers: int = 1,
    device: str = "cpu",
    save_every: int = 200,
    log_every: int = 20,
    quiet: bool = False,
    start_from: Path | None = None,
) -> Path:
    """Train a head for the target in folder `target`, or go on with the run in `out`.

    Args:
        out: folder of the run: `state.pt`, `curve.csv`, `recipe.json`, `held-out.json` and the finished `head/`.
        corpus: folder of the answers and the target's states, made where missing; share it between heads that are
            compared.
        workers: processes that make the corpus, and threads that share each batch. With one thread of arithmetic each
            (OMP_NUM_THREADS=1) they wait for one another least. A GPU takes each batch whole.
        start_from: folder of a finished head, say of an earlier target, whose weights a new run begins with.

    Returns:
        The folder of the finished head.
    """
    out.mkdir(parents=True, exist_ok=True)
    parts = load_target(target, device=device)
    reads = reads_of(recipe, parts.model.config.text_config.num_hidden_layers)
    sources = {"train": recipe.samples, "validation": recipe.held_out}
    shards = {split: shards_of(recipe.families, recipe.seed, split, count) for split, count in sources.items()}
    folder = corpus or out
    make_shards(target, [*shards["validation"], *shards["train"]], folder, reads, workers, device, quiet)
    rows, held_out = load_states(shards["train"], folder), load_states(shards["validation"], folder)
    head = build_head(recipe, parts, load_answers(shards["train"], folder), start_from)
    trainer = HeadTrainer(recipe, head, loss_of(recipe, parts, head), rows, workers if device == "cpu" else 1)
    if (out / _STATE).exists():
        trainer.load(out)
    else:
        (out / "curve.csv").write_text("step,rate,loss,first_accuracy\n")
    (out / "recipe.json").write_text(json.dumps(asdict(recipe), indent=1))
    recent: list[tuple[float, float]] = []
    bar = tqdm(trainer.batches(), recipe.name, trainer.steps, initial=trainer.done, disable=quiet, mininterval=5)
    for batch in bar:
        recent.append(trainer.step(batch))
        if trainer.done % log_every == 0 or trainer.done == trainer.steps:
            loss, accuracy = torch.tensor(recent).nanmean(0).tolist()
            with (out / "curve.csv").open("a", newline="") as file:
                csv.writer(file).writerow([trainer.done, f"{trainer.rate():.3f}", f"{loss:.4f}", f"{accuracy:.4f}"])
            bar.set_postfix_str(f"loss={loss:.3f} first={accuracy:.3f}")
            recent = []
        if trainer.done % save_every == 0:
            trainer.save(out)
    trainer.save(out)
    save_head(head, parts, out / "head", torch.bfloat16)
    seen = random.Random(0).sample(rows, min(len(rows), len(held_out)))
    with trainer.device:
        found = {name: figures(recipe, head, parts, some) for name, some in (("held_out", held_out), ("train", seen))}
    (out / "held-out.json").write_text(json.dumps(found, indent=1))
    return out / "head"


@torch.no_grad()
def figures(recipe: HeadRecipe, head: nn.Module, parts: TargetParts, rows: list[Row]) -> dict[str, object]:
    """Top-1 accuracy at each offset (EAGLE-3: in each pass of the training-time test), on some answers."""
    embed, lm_head = parts.model.get_input_embeddings(), parts.model.get_output_embeddings()
    if recipe.kind == "glance":
        top1, accepted = block_top1(head, rows, embed, lm_head)
        return {"top1": top1, "chain_accepted": accepted}
    found = [eagle3_loss(head, rows[i : i + recipe.batch], lm_head, recipe) for i in range(0, len(rows), recipe.batch)]
    return {"top1": torch.tensor([top1 for _, top1 in found]).nanmean(0).tolist()}
