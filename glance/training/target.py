"""Trains the embedded target: `train_target(recipe, out)`."""

import csv
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, astuple, dataclass, replace
from itertools import chain
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from tqdm import tqdm
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from glance.checkpoints import load_target
from glance.errors import BadInput
from glance.synth import Sample
from glance.training.architecture import build_image_processor, build_target, save_target
from glance.training.batch import Batch, Encoder, draw_pool
from glance.training.dense import DenseHead, DenseLabels, dense_labels
from glance.training.feed import Fed, Feed
from glance.training.forward import TargetForward
from glance.training.guided import guided_loss
from glance.training.muon import optimizer_pair
from glance.training.recipe import TargetRecipe
from glance.training.run_folder import CURVE, STATE, begin_curve, claim
from glance.training.schedule import Progress, Schedule
from glance.training.tokenizer import build_tokenizer

POOL = 4  # batches drawn at once and sorted by length
COLUMNS = (
    "step",
    "stage",
    "seconds",
    "images",
    "level",
    "rate",
    "loss",
    "answer_loss",
    "answer_accuracy",
    "copy_accuracy",
    "pointer_accuracy",
    "dense_accuracy",
)


@dataclass(frozen=True)
class StepResult:
    """Scalars of one step; nan where a stage has none.

    `copy` is accuracy on tokens that attention is shown a place for: those drawn in the image, and a scene's things.
    """

    loss: float
    answer_loss: float = float("nan")
    answer: float = float("nan")
    copy: float = float("nan")
    pointer: float = float("nan")
    dense: float = float("nan")


def mean_result(results: list[StepResult]) -> StepResult:
    """The workers' results as one."""
    return StepResult(*torch.tensor([astuple(result) for result in results]).nanmean(0).tolist())


class TargetTrainer:
    """A target, its optimizers and its schedule."""

    def __init__(
        self,
        recipe: TargetRecipe,
        tokenizer: PreTrainedTokenizerBase,
        minutes: float | None = None,
        workers: int = 1,
        device: str = "cpu",
    ) -> None:
        self.recipe, self.tokenizer, self.device = recipe, tokenizer, torch.device(device)
        on_cpu = self.device.type == "cpu"
        self.bfloat16 = recipe.bfloat16 or not on_cpu
        self.workers = workers if on_cpu else 1  # a GPU takes a batch whole, from processes that draw ahead
        self.feed = None if on_cpu else Feed(recipe, tokenizer, workers, POOL)
        self.threads = ThreadPoolExecutor(self.workers)
        self.processor = build_image_processor(recipe.shape)
        self.model = build_target(recipe.shape, tokenizer, recipe.seed).train()
        self.dense = nn.ModuleList(DenseHead(recipe.shape.hidden) for _ in range(1 + len(recipe.shape.deepstack)))
        self.model.to(self.device)
        self.dense.to(self.device)
        self.encoder = Encoder(tokenizer, self.processor, recipe.shape)
        self.run_layers = TargetForward(self.model)
        self.schedule = Schedule(recipe.stages, minutes)
        self.pool: list[list[Sample]] | list[Fed] = []
        learnt = chain(self.dense.named_parameters("dense"), self.model.named_parameters())
        apart = ("dense", "embed", "lm_head")
        self.optimizers = optimizer_pair(learnt, apart, recipe, self.threads, self.bfloat16, decay=0.0)

    # ---- one step -------------------------------------------------------------------------------------------------

    def next_samples(self) -> list[Sample] | Fed:
        progress, recipe = self.schedule.progress, self.recipe
        if self.feed and (not self.pool or progress.step % POOL == 0):
            self.pool = self.feed.pool(progress.stage, progress.step // POOL, self.schedule.level_at)
        elif not self.pool or progress.step % POOL == 0:
            seed = f"{recipe.seed}/{progress.stage}/{progress.step // POOL}"
            families = recipe.families_of(progress.stage)
            self.pool = draw_pool(families, recipe.batch, POOL, seed, "train", self.schedule.level)
        return self.pool[progress.step % POOL]

    def backward(self, drawn: list[Sample] | Fed) -> StepResult:
        """Add one worker's share of the gradient."""
        if isinstance(drawn, list):
            batch = self.encoder(drawn)
            drawn = batch, dense_labels(batch.samples, batch.pixels, self.recipe.shape)
        batch, labels = (part.to(self.device) for part in drawn)
        if batch.pixels.dtype == torch.uint8:
            batch = replace(batch, pixels=self.encoder.pixels(batch.pixels))
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bfloat16):
            loss, result = self.losses(batch, labels)
        (loss / self.workers).backward()
        return result

    def losses(self, batch: Batch, labels: DenseLabels) -> tuple[Tensor, StepResult]:
        stage, loss, found = self.schedule.stage, torch.zeros((), device=batch.ids.device), {}
        with torch.set_grad_enabled(stage.vision):
            features, deep = self.run_layers.see(batch.pixels, batch.grid)
        if stage.dense_weight:
            weights = (1.0, *(0.3 for _ in deep))
            for weight, head, stream in zip(weights, self.dense, (features, *deep), strict=True):
                part, accuracy = head(stream.flatten(0, 1), labels)
                loss = loss + stage.dense_weight * weight * part
                found.setdefault("dense", accuracy.item())
        if stage.text:
            guide = self.schedule.guide_weight
            taps = self.recipe.guided_layers if guide else ()
            states, tapped, rope = self.run_layers.read(batch.ids, batch.positions, batch.first, (features, deep), taps)
            answered = batch.labels >= 0
            logits, target = self.model.lm_head(states[answered]), batch.labels[answered]
            answer_loss = F.cross_entropy(logits, target)
            loss = loss + answer_loss
            right, copied = logits.argmax(-1) == target, batch.pointers[answered] >= 0
            found |= {
                "answer_loss": answer_loss.item(),
                "answer": right.float().mean().item(),
                "copy": right[copied].float().mean().item(),
            }
            if guide:
                layers = self.model.model.language_model.layers
                pull, hit = guided_loss(layers, tapped, rope, batch.pointers)
                loss = loss + guide * pull
                found["pointer"] = hit.item()
        return loss, StepResult(loss.item(), **found)

    def step(self) -> tuple[StepResult, bool]:
        """One optimizer step; returns its scalars and whether it ended a stage."""
        schedule, recipe = self.schedule, self.recipe
        self.model.model.visual.requires_grad_(schedule.stage.vision)
        warm = min(1.0, (schedule.progress.total_steps + 1) / recipe.warmup)
        for optimizer, rate in zip(self.optimizers, (recipe.muon_rate, recipe.adam_rate), strict=True):
            optimizer.param_groups[0]["lr"] = rate * warm * schedule.rate
        drawn = self.next_samples()
        share = -(-recipe.batch // self.workers)
        parts = [drawn[i : i + share] for i in range(0, recipe.batch, share)] if isinstance(drawn, list) else [drawn]
        result = mean_result(list(self.threads.map(self.backward, parts)))
        nn.utils.clip_grad_norm_([*self.model.parameters(), *self.dense.parameters()], recipe.clip)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad()
        return result, schedule.advance()

    def close(self) -> None:
        """End the threads and processes."""
        self.threads.shutdown()
        if self.feed:
            self.feed.close()

    # ---- checkpoints ----------------------------------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        state = {
            "model": self.model.state_dict(),
            "dense": self.dense.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "progress": asdict(self.schedule.progress),
        }
        torch.save(state, folder / "state.tmp")
        (folder / "state.tmp").replace(folder / STATE)

    def start_from(self, earlier: nn.Module) -> None:
        """Take the weights of a finished target, whose vision tower may have fewer blocks than the recipe's.

        Further blocks add nothing to their input at first, so the target answers as before. Raises `BadInput` where
        the rest has another shape.
        """
        tower = getattr(earlier.model, "visual", None)
        known, further = len(getattr(tower, "blocks", ())), {}
        for i, block in enumerate(self.model.model.visual.blocks[known:], known):
            for last in (block.attn.proj, block.mlp.linear_fc2):
                nn.init.zeros_(last.weight)
                nn.init.zeros_(last.bias)
            further |= block.state_dict(prefix=f"model.visual.blocks.{i}.")
        try:
            self.model.load_state_dict(earlier.state_dict() | further)
        except RuntimeError:
            raise BadInput(f"{earlier.name_or_path} has another shape than the recipe; choose another.") from None

    def load(self, folder: Path) -> None:
        state = torch.load(folder / STATE, map_location=self.device, weights_only=True)
        self.model.load_state_dict(state["model"])
        self.dense.load_state_dict(state["dense"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.schedule.progress = Progress(**state["progress"])


def train_target(
    recipe: TargetRecipe,
    out: Path,
    minutes: float | None = None,
    workers: int = 1,
    save_every: int = 200,
    log_every: int = 20,
    quiet: bool = False,
    start_from: Path | None = None,
    device: str = "cpu",
) -> Path:
    """Train, or go on with the run that `out` holds, and save the target in `out/target`.

    Args:
        out: folder of the run: `state.pt` (to resume), `curve.csv`, `recipe.json`, and the finished `target/`.
        minutes: fit the run to this much time instead of the recipe's steps.
        workers: threads that share each batch; on a GPU, processes that draw batches ahead. With one thread of
            arithmetic each (OMP_NUM_THREADS=1) threads wait for one another once a step instead of at every product,
            which matters on a machine with other work.
        start_from: folder of a finished target whose tokenizer and weights a new run begins with. Optimizers and
            throw-away layers begin afresh.
        device: `cpu`, in float32 unless the recipe says otherwise, or `cuda`, with products in bfloat16.

    Returns:
        The folder of the finished target.

    Raises:
        BadInput: `out` holds another run, or the earlier target has another shape.
        BadCheckpoint: the earlier target cannot be loaded.
    """
    resumed = claim(out, {**asdict(recipe), "start_from": str(start_from or "")})
    earlier = load_target(start_from) if start_from and not resumed else None
    if not resumed:
        tokenizer = earlier.tokenizer if earlier else build_tokenizer(recipe.shape.vocabulary)
        tokenizer.save_pretrained(out / "tokenizer")
    tokenizer = AutoTokenizer.from_pretrained(out / "tokenizer")
    trainer = TargetTrainer(recipe, tokenizer, minutes, workers, device)
    schedule, curve = trainer.schedule, out / CURVE
    if resumed:
        trainer.load(out)
    elif earlier:
        trainer.start_from(earlier.model)
    begin_curve(out, COLUMNS, schedule.progress.total_steps)
    schedule.start()
    recent: list[StepResult] = []
    bar = tqdm(total=1000, initial=int(1000 * schedule.overall), disable=quiet, mininterval=10, unit="‰")
    while not schedule.done:
        name, level, rate = schedule.stage.name, schedule.level, schedule.rate
        result, ended = trainer.step()
        recent.append(result)
        progress = schedule.progress
        if progress.total_steps % log_every == 0 or ended:
            row = _row(trainer, name, level, rate, recent)
            with curve.open("a", newline="") as file:
                csv.writer(file).writerow(row)
            shown = zip(COLUMNS, row, strict=True)
            bar.set_postfix_str(" ".join(f"{key[:12]}={value}" for key, value in shown if value != "nan"))
            recent = []
        bar.update(int(1000 * schedule.overall) - bar.n)
        if progress.total_steps % save_every == 0 or ended:
            trainer.save(out)
    bar.close()
    trainer.close()
    save_target(trainer.model.cpu(), tokenizer, trainer.processor, out / "target")
    return out / "target"


def _row(trainer: TargetTrainer, stage: str, level: float, rate: float, recent: list[StepResult]) -> list[str]:
    """One line of the curve: means over the steps since the last line."""
    progress = trainer.schedule.progress

    def mean(name: str) -> str:
        values = torch.tensor([getattr(result, name) for result in recent])
        return f"{values.nanmean().item():.4f}"

    return [
        str(progress.total_steps),
        stage,
        f"{progress.seconds:.0f}",
        str(progress.total_steps * trainer.recipe.batch),
        f"{level:.3f}",
        f"{rate:.3f}",
        *(mean(name) for name in ("loss", "answer_loss", "answer", "copy", "pointer", "dense")),
    ]
