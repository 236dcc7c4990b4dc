"""Images and a question become a `Prompt`: everything that prefill needs, and nothing read back from the model."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from PIL import Image
from transformers import BaseImageProcessor, PreTrainedTokenizerBase

from .errors import BadInput

MAX_ASPECT_RATIO = 200  # Qwen's image processor refuses more
MAX_QUESTION = 2000  # characters


@dataclass(frozen=True)
class Prompt:
    """One request, ready for prefill.

    Args:
        question: as typed.
        ids: int64 [1, S], image placeholders expanded to one a visual token.
        positions: int64 [3, 1, S], the temporal, height and width axis of M-RoPE.
        rope_delta: what to add to a sequence index behind the prompt to get its position on all three axes.
        pixels: float32 [patches, channels * temporal * patch * patch], or None for text only.
        grid: int64 [images, 3], patches of each image along (t, h, w), or None.
        images: for each image {sha256 of its RGB bytes, width, height, tokens}.
        ids_sha256: hash of the ids, equal for every lane that answers this prompt.
    """

    question: str
    ids: torch.Tensor
    positions: torch.Tensor
    rope_delta: int
    pixels: torch.Tensor | None
    grid: torch.Tensor | None
    images: tuple[dict[str, Any], ...]
    ids_sha256: str

    @property
    def length(self) -> int:
        """Tokens of the prompt, visual tokens counted."""
        return self.ids.shape[1]


def rope_positions(is_image: Sequence[bool], grids: Sequence[Sequence[int]], merge: int) -> tuple[torch.Tensor, int]:
    """M-RoPE positions of a prompt, and the delta for what follows it.

    Text advances all three axes by one. An image keeps one temporal position, spans its merged rows and columns on
    the other two, and the text behind it resumes at its start plus its longer side (Qwen2-VL, §2.1).

    Args:
        is_image: for each prompt token, whether it is a visual token.
        grids: (t, h, w) of each image in patches.
        merge: patches merged into one visual token along each side.

    Returns:
        int64 [3, 1, S], and `max position + 1 - S`.
    """
    columns: list[torch.Tensor] = []
    start = index = 0
    grids = list(grids)
    while index < len(is_image):
        if is_image[index]:
            t, h, w = (int(n) for n in grids.pop(0))
            h, w = h // merge, w // merge
            block = torch.stack(torch.meshgrid(torch.arange(t), torch.arange(h), torch.arange(w), indexing="ij"))
            columns.append(block.reshape(3, -1) + start)
            index += t * h * w
            start += max(h, w)
        else:
            columns.append(torch.full((3, 1), start))
            index += 1
            start += 1
    positions = torch.cat(columns, dim=1).long()
    return positions[:, None], int(positions.max()) + 1 - len(is_image)


def neutralize(text: str, special: Sequence[str]) -> str:
    """Break special-token strings in typed text, so that they read alike but tokenize as ordinary characters.

    A zero-width space behind the opening character is enough: the string is no longer the token's name.
    """
    for name in sorted(special, key=len, reverse=True):
        text = text.replace(name, name[0] + "\u200b" + name[1:])
    return text


def check_question(question: str) -> str:
    """The question without outer white space; halves of a torn emoji become U+FFFD.

    Raises:
        BadInput: empty or too long.
    """
    question = (question or "").strip().encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if not question:
        raise BadInput("Type a question first.")
    if len(question) > MAX_QUESTION:
        raise BadInput(f"The question has {len(question)} characters; shorten it to {MAX_QUESTION}.")
    return question


def check_image(image: Image.Image) -> Image.Image:
    """An RGB image whose sides the image processor takes.

    Raises:
        BadInput: no pixels, or a strip longer than `MAX_ASPECT_RATIO` times its width.
    """
    if 0 in image.size:
        raise BadInput("The image has no pixels; choose another one.")
    ratio = max(image.size) / min(image.size)
    if ratio > MAX_ASPECT_RATIO:
        raise BadInput(f"The image is {ratio:.0f} times as long as wide; crop it below {MAX_ASPECT_RATIO} to 1.")
    return image.convert("RGB")


def build_prompt(
    images: Sequence[Image.Image],
    question: str,
    tokenizer: PreTrainedTokenizerBase,
    image_processor: BaseImageProcessor,
    image_token_id: int,
    max_tokens: int,
) -> Prompt:
    """Tokenize a question about some images (none, one or several) with the chat template of the tokenizer.

    Args:
        image_processor: a PIL image processor of the Qwen2-VL kind; its own size limits cap the visual tokens.
        image_token_id: id of the placeholder that stands for one visual token.
        max_tokens: longest prompt allowed, visual tokens counted.

    Raises:
        BadInput: empty question, an image the processor refuses, or a prompt that is too long.
    """
    question = check_question(question)
    images = [check_image(image) for image in images]
    typed = neutralize(question, tokenizer.all_special_tokens + list(tokenizer.get_added_vocab()))
    content = [{"type": "image"} for _ in images] + [{"type": "text", "text": typed}]
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
    )
    pixels = grid = None
    counts: list[int] = []
    if images:
        inputs = image_processor(images=images, return_tensors="pt")
        pixels, grid = inputs["pixel_values"], inputs["image_grid_thw"]
        counts = (grid.prod(-1) // image_processor.merge_size**2).tolist()

    ids: list[int] = []
    remaining = iter(counts)
    for token in tokenizer(text, add_special_tokens=False)["input_ids"]:
        ids += [token] * next(remaining) if token == image_token_id else [token]
    if len(ids) > max_tokens:
        raise BadInput(f"The prompt has {len(ids)} tokens and {max_tokens} fit; ask a shorter question.")
    merge = image_processor.merge_size
    positions, delta = rope_positions([i == image_token_id for i in ids], [] if grid is None else grid.tolist(), merge)
    row = torch.tensor([ids])
    facts = tuple(
        {
            "sha256": hashlib.sha256(image.tobytes()).hexdigest(),
            "width": image.width,
            "height": image.height,
            "tokens": count,
        }
        for image, count in zip(images, counts, strict=True)
    )
    digest = hashlib.sha256(row.numpy().tobytes()).hexdigest()
    return Prompt(question, row, positions, delta, pixels, grid, facts, digest)
