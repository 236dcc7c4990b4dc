"""The heads' corpus: the target's own greedy answers to fresh images of the generator, or to a folder's pictures.

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
from tqdm import tqdm

from glance.cache import TreeCache
from glance.checkpoints import TargetParts
from glance.prompt import Prompt
from glance.synth import SIZES, Sample, sample
from glance.synth.generate import MAKERS
from glance.synth.vocabulary import Split
from glance.training.batch import SIZE_WEIGHTS
from glance.training.photos import photo

BATCHED = ("qwen3_vl", "qwen2_5_vl")  # targets that `greedy_answers` knows
BATCH_TOKENS = 32_768  # of the prompts of a batch: a cache of 5 GB for an 8B


@dataclass(frozen=True)
class Answered:
    """A sample and the target's greedy answer to it (ids, the end token included).

    `family` is one of the generator's, or a folder of pictures, whose `size` is the picture's own.
    """

    family: str
    seed: int
    split: Split
    size: tuple[int, int]
    answer: tuple[int, ...]

    def draw(self) -> Sample:
        return _draw(self.family, self.seed, self.split, self.size)


def _draw(family: str, seed: int, split: Split, size: tuple[int, int]) -> Sample:
    return sample(family, seed, split, size=size) if family in MAKERS else photo(Path(family), seed, split)


def make_prompt(parts: TargetParts, drawn: Sample) -> Prompt:
    """The prompt of a sample, exactly as at inference."""
    return parts.prompt([drawn.image], drawn.question)


@torch.inference_mode()
def greedy_answers(parts: TargetParts, prompts: Sequence[Prompt], max_new_tokens: int) -> list[list[int]]:
    """Greedy answers to one batch of prompts about images of one size; each ends with its end token or is cut.

    Prompts are padded behind, where causal rows do not see it; answer rows are kept from it by a mask.
    """
    model, device, ends = parts.model, parts.model.device, parts.eos_ids
    longest = max(prompts, key=lambda prompt: prompt.length)  # the images stand at one place, so its positions fit all
    width = longest.length
    lengths = torch.tensor([prompt.length for prompt in prompts])
    last, which = lengths.unique(return_inverse=True)  # a row of logits each, not one for every token of a page
    ids = torch.full((len(prompts), width), parts.tokenizer.pad_token_id)
    for row, prompt in zip(ids, prompts, strict=True):
        row[: prompt.length] = prompt.ids[0]
    cache = TreeCache(model.config.text_config.num_hidden_layers, width + max_new_tokens)
    logits = model(
        input_ids=ids.to(device),
        position_ids=longest.positions.expand(3, len(prompts), -1).to(device),
        pixel_values=torch.cat([p.pixels for p in prompts]).to(device, model.dtype),
        image_grid_thw=torch.cat([p.grid for p in prompts]).to(device),
        cache=cache,
        use_cache=True,
        logits_to_keep=(last - 1).to(device),
    ).logits[torch.arange(len(prompts)), which]
    answers: list[list[int]] = [[] for _ in prompts]
    rows = torch.arange(len(prompts))  # which prompt each row of the batch belongs to
    hidden = torch.zeros(len(prompts), 1, 1, width + max_new_tokens, dtype=model.dtype)
    hidden[..., :width].masked_fill_(torch.arange(width) >= lengths[:, None, None, None], torch.finfo(model.dtype).min)
    hidden = hidden.to(device)
    for step in range(max_new_tokens):
        token = logits.argmax(-1)
        for row, t in zip(rows.tolist(), token.tolist(), strict=True):
            if not (answers[row] and answers[row][-1] in ends):
                answers[row].append(t)
        alive = torch.tensor([answers[row][-1] not in ends for row in rows.tolist()])
        if not alive.any() or step + 1 == max_new_tokens:
            break
        if alive.sum() <= 0.75 * len(rows):  # moving the cache costs about as much as a step
            rows, token, hidden = rows[alive], token[alive.to(device)], hidden[alive.to(device)]
            for layer in cache.layers:
                layer.keys, layer.values = layer.keys[alive.to(device)], layer.values[alive.to(device)]
        logits = model(
            input_ids=token[:, None],
            position_ids=(lengths[rows] + longest.rope_delta + step).to(device)[:, None].expand(3, -1, 1),
            attention_mask=hidden[..., : width + step + 1],
            cache=cache,
            use_cache=True,
        ).logits[:, -1]
    return answers


def answer_samples(
    parts: TargetParts, drawn: Sequence[Sample], max_new_tokens: int = 160, batch: int = 48, quiet: bool = True
) -> list[list[int]]:
    """Greedy answers to many samples, in their order; at most `batch` of those whose images have one size share one."""
    by_size: dict[tuple[int, int], list[int]] = defaultdict(list)
    for i, one in enumerate(drawn):
        by_size[one.image.size].append(i)
    answers: list[list[int]] = [[] for _ in drawn]
    with tqdm(total=len(drawn), disable=quiet, desc="answers", mininterval=5) as bar:
        for members in by_size.values():
            members.sort(key=lambda i: len(drawn[i].answer))  # rows that end together waste no steps
            size = min(batch, max(1, BATCH_TOKENS // make_prompt(parts, drawn[members[0]]).length))
            for start in range(0, len(members), size):
                chosen = members[start : start + size]
                found = greedy_answers(parts, [make_prompt(parts, drawn[i]) for i in chosen], max_new_tokens)
                for i, answer in zip(chosen, found, strict=True):
                    answers[i] = answer
                bar.update(len(chosen))
    return answers


def build_corpus(
    parts: TargetParts,
    families: dict[str, float],
    count: int,
    seed: object,
    split: Split = "train",
    max_new_tokens: int = 160,
    quiet: bool = True,
) -> list[Answered]:
    """`count` answered samples; answers that did not end within the limit are left out. Deterministic in `seed`."""
    rng = random.Random(f"corpus/{seed}/{split}")
    keys = [
        (
            rng.choices(list(families), list(families.values()))[0],
            rng.getrandbits(48),
            rng.choices(SIZES, SIZE_WEIGHTS)[0],
        )
        for _ in range(count)
    ]
    drawn = [_draw(family, number, split, size) for family, number, size in keys]
    answers = answer_samples(parts, drawn, max_new_tokens, quiet=quiet)
    return [
        Answered(family, number, split, one.image.size, tuple(answer))
        for (family, number, _), one, answer in zip(keys, drawn, answers, strict=True)
        if answer and answer[-1] in parts.eos_ids
    ]


def save_corpus(corpus: Sequence[Answered], file: Path) -> None:
    unfinished = file.with_suffix(".tmp")
    unfinished.write_text("".join(json.dumps(asdict(one)) + "\n" for one in corpus))
    unfinished.replace(file)  # a file that is there is whole


def load_corpus(file: Path) -> list[Answered]:
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    return [Answered(**{**row, "size": tuple(row["size"]), "answer": tuple(row["answer"])}) for row in rows]
