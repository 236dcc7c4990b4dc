"""The heads' corpus: the target's own greedy answers to fresh images of the generator.

Acceptance on answers that the target would not give means nothing, so the corpus belongs to one target and must be
made again when the target changes.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor
from tqdm import tqdm
from transformers import DynamicCache

from glance.checkpoints import TargetParts
from glance.prompt import Prompt
from glance.synth import SIZES, Sample, sample
from glance.synth.vocabulary import Split
from glance.target import capture
from glance.training.batch import SIZE_WEIGHTS


@dataclass(frozen=True)
class Answered:
    """A sample of the generator and the target's greedy answer to it (ids, the end token included)."""

    family: str
    seed: int
    split: Split
    size: tuple[int, int]
    answer: tuple[int, ...]

    def draw(self) -> Sample:
        return sample(self.family, self.seed, self.split, size=self.size)


def make_prompt(parts: TargetParts, drawn: Sample) -> Prompt:
    """The prompt of a sample, exactly as at inference."""
    return parts.prompt([drawn.image], drawn.question)


@torch.inference_mode()
def greedy_answers(parts: TargetParts, prompts: Sequence[Prompt], max_new_tokens: int) -> list[list[int]]:
    """Greedy answers of one batch of prompts of equal length and grid; each ends with its end token or is cut."""
    model, device = parts.model, parts.model.device
    ends = parts.eos_ids
    ids = torch.cat([p.ids for p in prompts]).to(device)
    cache = DynamicCache(config=model.config.text_config)
    out = model(
        input_ids=ids,
        position_ids=prompts[0].positions.expand(3, len(prompts), -1).to(device),
        pixel_values=torch.cat([p.pixels for p in prompts]).to(device, model.dtype),
        image_grid_thw=torch.cat([p.grid for p in prompts]).to(device),
        cache=cache,
        use_cache=True,
        logits_to_keep=1,
    )
    answers: list[list[int]] = [[] for _ in prompts]
    rows = list(range(len(prompts)))  # which prompt each row of the batch belongs to
    position = int(prompts[0].positions.max()) + 1
    for step in range(max_new_tokens):
        token = out.logits[:, -1].argmax(-1)
        for row, t in zip(rows, token.tolist(), strict=True):
            answers[row].append(t)
        alive = [i for i, t in enumerate(token.tolist()) if t not in ends]
        if not alive or step + 1 == max_new_tokens:
            break
        if len(alive) < len(rows):
            keep = torch.tensor(alive, device=device)
            cache.batch_select_indices(keep)
            token, rows = token[keep], [rows[i] for i in alive]
        out = model(
            input_ids=token[:, None],
            position_ids=torch.full((3, len(rows), 1), position + step, device=device),
            cache=cache,
            use_cache=True,
        )
    return answers


def answer_samples(
    parts: TargetParts, drawn: Sequence[Sample], max_new_tokens: int = 160, batch: int = 48, quiet: bool = True
) -> list[list[int]]:
    """Greedy answers to many samples, in their order; prompts of equal shape share a batch."""
    groups: dict[tuple[int, tuple[int, int]], list[int]] = defaultdict(list)
    prompts = [make_prompt(parts, one) for one in drawn]
    for i, (one, prompt) in enumerate(zip(drawn, prompts, strict=True)):
        groups[prompt.length, one.image.size].append(i)
    answers: list[list[int]] = [[] for _ in drawn]
    with tqdm(total=len(drawn), disable=quiet, desc="answers", mininterval=5) as bar:
        for members in groups.values():
            for start in range(0, len(members), batch):
                chosen = members[start : start + batch]
                found = greedy_answers(parts, [prompts[i] for i in chosen], max_new_tokens)
                for i, answer in zip(chosen, found, strict=True):
                    answers[i] = answer
                bar.update(len(chosen))
    return answers


def build_corpus(
    parts: TargetParts, families: dict[str, float], count: int, seed: int, split: Split = "train", quiet: bool = True
) -> list[Answered]:
    """`count` answered samples; answers that did not end within the limit are left out."""
    rng = random.Random(f"corpus/{seed}/{split}")
    keys = [
        (
            rng.choices(list(families), list(families.values()))[0],
            rng.getrandbits(48),
            rng.choices(SIZES, SIZE_WEIGHTS)[0],
        )
        for _ in range(count)
    ]
    drawn = [sample(family, number, split, size=size) for family, number, size in keys]
    ends = parts.eos_ids
    return [
        Answered(family, number, split, size, tuple(answer))
        for (family, number, size), answer in zip(keys, answer_samples(parts, drawn, quiet=quiet), strict=True)
        if answer and answer[-1] in ends
    ]


def save_corpus(corpus: Sequence[Answered], file: Path) -> None:
    file.write_text("".join(json.dumps(asdict(one)) + "\n" for one in corpus))


def load_corpus(file: Path) -> list[Answered]:
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    return [Answered(**{**row, "size": tuple(row["size"]), "answer": tuple(row["answer"])}) for row in rows]


# ---- what the heads read ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One teacher-forced answer: what the target computed over prompt and answer, S tokens in all.

    Args:
        ids: int64 [S].
        prompt: number of prompt tokens; `ids[prompt]` is the first answer token, which the target gives at prefill.
        states: layer id → float [S, H], as `glance.target.capture` reads them.
        last: float [S, H], the normed last states; the target's output head turns row t into token t + 1.
    """

    ids: Tensor
    prompt: int
    states: dict[int, Tensor]
    last: Tensor


def teacher_forced(
    parts: TargetParts, corpus: Sequence[Answered], layers: Sequence[int], batch: int = 16, quiet: bool = True
) -> list[Row]:
    """Run the target once over each prompt and its answer; rows come in the order of the corpus.

    Prompts of equal shape share a pass. Padding stands behind the answers, where causal rows do not see it.
    """
    prompts = [make_prompt(parts, one.draw()) for one in corpus]
    groups: dict[tuple[int, str], list[int]] = defaultdict(list)
    for i, prompt in enumerate(prompts):
        groups[prompt.length, str(prompt.grid.tolist())].append(i)
    rows: list[Row | None] = [None] * len(corpus)
    with tqdm(total=len(corpus), disable=quiet, desc="states", mininterval=5) as bar:
        for members in groups.values():
            members.sort(key=lambda i: len(corpus[i].answer))
            for start in range(0, len(members), batch):
                chosen = members[start : start + batch]
                found = _forced(parts, [prompts[i] for i in chosen], [corpus[i].answer for i in chosen], layers)
                for i, row in zip(chosen, found, strict=True):
                    rows[i] = row
                bar.update(len(chosen))
    return rows  # type: ignore[return-value]


@torch.no_grad()
def _forced(
    parts: TargetParts, prompts: Sequence[Prompt], answers: Sequence[tuple[int, ...]], layers: Sequence[int]
) -> list[Row]:
    """Rows of prompts of equal shape."""
    model, text, first = parts.model, parts.model.model.language_model, prompts[0]
    top, longest = len(text.layers) - 1, max(len(answer) for answer in answers)
    ids = torch.full((len(prompts), first.length + longest), parts.tokenizer.pad_token_id)
    for i, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        ids[i, : first.length] = prompt.ids[0]
        ids[i, first.length : first.length + len(answer)] = torch.tensor(answer)
    after = (first.length + first.rope_delta + torch.arange(longest)).expand(3, 1, -1)
    with capture(text, {*layers, top}) as states:
        model(
            input_ids=ids,
            position_ids=torch.cat([first.positions, after], dim=-1).expand(3, len(prompts), -1),
            pixel_values=torch.cat([p.pixels for p in prompts]).to(model.dtype),
            image_grid_thw=torch.cat([p.grid for p in prompts]),
            use_cache=False,
            logits_to_keep=1,
        )
    last = text.norm(states[top])
    rows = []
    for i, answer in enumerate(answers):
        size = first.length + len(answer)
        kept = {layer: states[layer][i, :size].clone() for layer in layers}
        rows.append(Row(ids[i, :size].clone(), first.length, kept, last[i, :size].clone()))
    return rows
