"""Dense supervision of the vision tower: what does each visual token hold?

A throw-away linear layer predicts, for each merged cell of 32 × 32 pixels, the character in each of 8 boxes
(2 rows × 4 columns), the mean colour, and in scenes the object and its colour. Without it the text stack never
learns to read; it is not part of the saved model.
"""

from dataclasses import dataclass, fields

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glance.synth import Sample
from glance.synth.canvas import BRIGHT
from glance.synth.shapes import SHAPES
from glance.training.recipe import Shape

CHARACTERS = "".join(chr(code) for code in range(33, 127))
BOX_ROWS, BOX_COLUMNS = 2, 4
BOXES = BOX_ROWS * BOX_COLUMNS
_CLASS = {c: i + 1 for i, c in enumerate(CHARACTERS)}  # 0 = no character
_KIND = {kind: i + 1 for i, kind in enumerate(SHAPES)}
_COLOUR = {colour: i + 1 for i, colour in enumerate(BRIGHT)}
_SIZES = (BOXES * (len(CHARACTERS) + 1), 3, len(SHAPES) + 1, len(BRIGHT) + 1)
EMPTY_WEIGHT = 0.1


@dataclass(frozen=True)
class DenseLabels:
    """For n cells: characters int64 [n, 8], colour float32 [n, 3], kind and paint int64 [n] (-100 outside scenes)."""

    characters: Tensor
    colour: Tensor
    kind: Tensor
    paint: Tensor

    def to(self, device: torch.device) -> "DenseLabels":
        """The same labels on a device."""
        return DenseLabels(*(getattr(self, f.name).to(device, non_blocking=True) for f in fields(self)))


def dense_labels(samples: tuple[Sample, ...], pixels: Tensor, shape: Shape) -> DenseLabels:
    """Labels of all cells of a batch, image after image. `pixels` is `Batch.pixels`."""
    cell = shape.cell
    wide, high = cell // BOX_COLUMNS, cell // BOX_ROWS
    characters, kinds, paints = [], [], []
    for drawn in samples:
        columns, rows = drawn.image.width // cell, drawn.image.height // cell
        boxes = torch.zeros(rows * columns, BOXES, dtype=torch.long)
        for glyph in drawn.glyphs:
            for c, (x, y) in zip(glyph.text, glyph.centres, strict=True):
                if c in _CLASS and 0 <= x < drawn.image.width and 0 <= y < drawn.image.height:
                    box = int(y % cell // high) * BOX_COLUMNS + int(x % cell // wide)
                    boxes[int(y // cell) * columns + int(x // cell), box] = _CLASS[c]
        is_scene = drawn.family == "scenes"
        kind = torch.full((rows, columns), 0 if is_scene else -100)
        paint = kind.clone()
        for thing in drawn.things:
            left, top, right, bottom = (round(v / cell) for v in thing.box)
            area = (slice(max(top, 0), max(bottom, top + 1)), slice(max(left, 0), max(right, left + 1)))
            kind[area], paint[area] = _KIND[thing.kind], _COLOUR[thing.colour]
        characters.append(boxes)
        kinds.append(kind.flatten())
        paints.append(paint.flatten())
    patches = shape.merge**2
    colour = pixels.view(-1, patches, 3, shape.temporal_patch * shape.patch**2).mean((1, 3))
    return DenseLabels(torch.cat(characters), colour, torch.cat(kinds), torch.cat(paints))


class DenseHead(nn.Module):
    """The throw-away layer, for one stream of visual features [n, hidden]."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.linear = nn.Linear(hidden, sum(_SIZES))

    def forward(self, features: Tensor, labels: DenseLabels) -> tuple[Tensor, Tensor]:
        """(loss, accuracy on the boxes that hold a character)."""
        characters, colour, kind, paint = self.linear(features).split(_SIZES, dim=-1)
        logits, target = characters.reshape(-1, len(CHARACTERS) + 1), labels.characters.flatten()
        weight = torch.where(target > 0, 1.0, EMPTY_WEIGHT)
        loss = (F.cross_entropy(logits, target, reduction="none") * weight).sum() / weight.sum()
        loss = loss + 2.0 * F.mse_loss(colour, labels.colour)
        if (labels.kind >= 0).any():
            loss = loss + 0.3 * (F.cross_entropy(kind, labels.kind) + F.cross_entropy(paint, labels.paint))
        drawn = target > 0
        accuracy = (logits.argmax(-1) == target)[drawn].float().mean()
        return loss, accuracy.detach()
