"""Samples become tensors: the very pixels, ids and positions that `glance.prompt` makes at inference."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from transformers import PreTrainedTokenizerBase
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from glance.synth import SIZES, Sample, sample
from glance.synth.vocabulary import Split
from glance.targets.qwen_vl import rope_positions
from glance.training.align import pixels_of
from glance.training.recipe import Shape
from glance.training.tokenizer import END, IMAGE

SIZE_WEIGHTS = (2, 1, 1)
ROW = 16  # rows are padded to a multiple of this many tokens


@dataclass(frozen=True)
class Batch:
    """B samples on canvases of one size. Shapes: P patches and n = P / merge² visual tokens an image, T tokens a row.

    Args:
        samples: what the rows were made from.
        pixels: float32 [B, P, channels · temporal · patch²].
        grid: patches (rows, columns) of each image.
        ids: int64 [B, T], prompt then answer then padding.
        positions: int64 [3, 1, T]; equal for all rows, because the image stands at one place and padding comes last.
        first: column of the first visual token.
        labels: int64 [B, T]; `labels[:, t]` is the token that row t must predict, -100 where none.
        pointers: int64 [B, T]; column of the visual token that holds the glyph which the label copies, or the middle
            of the thing which it names, or -1.
    """

    samples: tuple[Sample, ...]
    pixels: Tensor
    grid: tuple[int, int]
    ids: Tensor
    positions: Tensor
    first: int
    labels: Tensor
    pointers: Tensor

    def to(self, device: torch.device) -> "Batch":
        """The same batch with its tensors on a device."""
        tensors = {f.name: value for f in fields(self) if isinstance(value := getattr(self, f.name), Tensor)}
        return replace(self, **{name: value.to(device, non_blocking=True) for name, value in tensors.items()})


class Encoder:
    """Turns samples into batches with one tokenizer and one image processor."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, processor: Qwen2VLImageProcessorPil, shape: Shape) -> None:
        self.tokenizer, self.shape = tokenizer, shape
        self.end, self.image_id = tokenizer.convert_tokens_to_ids([END, IMAGE])
        self.table = torch.from_numpy(self._pixel_table(processor))

    def _pixel_table(self, processor: Qwen2VLImageProcessorPil) -> np.ndarray:
        """float32 [256]: what the image processor makes of each 8-bit value. A table gives bit-equal pixels fast."""
        side = self.shape.patch
        ramp = np.arange(side * side, dtype=np.uint8).reshape(side, side) if side == 16 else None
        if ramp is None:
            raise ValueError("the pixel table is read off one patch of 16 × 16 pixels")
        tiled = np.tile(ramp, (self.shape.merge * 8, self.shape.merge * 8))
        values = processor(images=[Image.fromarray(np.stack([tiled] * 3, -1))], return_tensors="np")["pixel_values"]
        return np.ascontiguousarray(values[0, : side * side])

    def patches(self, images: Sequence[Image.Image]) -> Tensor:
        """uint8 [B, P, channels, patch²] of images that need no resizing."""
        p, m = self.shape.patch, self.shape.merge
        raw = np.stack([np.asarray(image) for image in images])
        b, height, width, channels = raw.shape
        blocks = raw.reshape(b, height // (p * m), m, p, width // (p * m), m, p, channels)
        blocks = blocks.transpose(0, 1, 4, 2, 5, 7, 3, 6)  # B, rows, columns, m, m, C, p, p
        return torch.from_numpy(blocks.reshape(b, -1, channels, p * p))

    def pixels(self, patches: Tensor) -> Tensor:
        """float32 [B, P, channels · temporal · patch²]; each frame stands twice, as for a still image."""
        values = self.table.to(patches.device)[patches.int()]
        return values[..., None, :].expand(-1, -1, -1, self.shape.temporal_patch, -1).flatten(2)

    def prompt_ids(self, question: str, visual_tokens: int) -> list[int]:
        """The prompt up to where the answer begins."""
        content = [{"type": "image"}, {"type": "text", "text": question}]
        text = self.tokenizer.apply_chat_template(
            [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
        )
        ids: list[int] = []
        for token in self.tokenizer(text, add_special_tokens=False)["input_ids"]:
            ids += [token] * visual_tokens if token == self.image_id else [token]
        return ids

    def answer_ids(self, drawn: Sample) -> tuple[list[int], list[int]]:
        """Answer ids with the end token, and for each the merged cell where what it says is drawn, or -1."""
        coded = self.tokenizer(drawn.answer, add_special_tokens=False, return_offsets_mapping=True)
        origin = pixels_of(drawn)
        cells = []
        for start, stop in coded["offset_mapping"]:
            places = [origin[i] for i in range(start, stop) if origin[i] is not None and drawn.answer[i] != " "]
            cells.append(self._cell(drawn, places[0]) if places else -1)
        return coded["input_ids"] + [self.end], [*cells, -1]

    def _cell(self, drawn: Sample, pixel: tuple[float, float]) -> int:
        side = self.shape.cell
        column, row = int(pixel[0] // side), int(pixel[1] // side)
        columns, rows = drawn.image.width // side, drawn.image.height // side
        return row * columns + column if 0 <= column < columns and 0 <= row < rows else -1

    def __call__(self, samples: Sequence[Sample]) -> Batch:
        """One batch; all images have one size."""
        width, height = samples[0].image.size
        grid = (height // self.shape.patch, width // self.shape.patch)
        visual = grid[0] * grid[1] // self.shape.merge**2
        rows = [(self.prompt_ids(s.question, visual), *self.answer_ids(s)) for s in samples]
        first = rows[0][0].index(self.image_id)
        longest = max(len(prompt) + len(answer) for prompt, answer, _ in rows)
        length = -(-longest // ROW) * ROW
        ids = torch.full((len(rows), length), self.tokenizer.pad_token_id)
        labels, pointers = torch.full_like(ids, -100), torch.full_like(ids, -1)
        for i, (prompt, answer, cells) in enumerate(rows):
            start, stop = len(prompt), len(prompt) + len(answer)
            ids[i, :stop] = torch.tensor(prompt + answer)
            labels[i, start - 1 : stop - 1] = torch.tensor(answer)
            columns = [first + cell if cell >= 0 else -1 for cell in cells]
            pointers[i, start - 1 : stop - 1] = torch.tensor(columns)
        is_image = [first <= t < first + visual for t in range(length)]
        positions, _ = rope_positions(is_image, [(1, *grid)], self.shape.merge)
        images = self.pixels(self.patches([s.image for s in samples]))
        return Batch(tuple(samples), images, grid, ids, positions, first, labels, pointers)


def draw_pool(
    families: dict[str, float], batch: int, count: int, seed: str, split: Split, level: float
) -> list[list[Sample]]:
    """`count` lists of `batch` fresh samples of one canvas size. Deterministic in `seed`.

    The pool is sorted by length before it is cut, so that the rows of one batch waste little padding.
    """
    rng = random.Random(seed)
    names, weights = list(families), list(families.values())
    size = rng.choices(SIZES, SIZE_WEIGHTS)[0]
    drawn = [
        sample(rng.choices(names, weights)[0], rng.getrandbits(48), split, level, size) for _ in range(count * batch)
    ]
    drawn.sort(key=lambda s: len(s.answer))
    pool = [drawn[start : start + batch] for start in range(0, len(drawn), batch)]
    rng.shuffle(pool)
    return pool
