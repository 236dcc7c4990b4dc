"""Images and a question become a `Prompt`: everything that prefill needs, and nothing read back from the model."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from PIL import Image
from transformers import PreTrainedTokenizerBase

from .errors import BadCheckpoint, BadInput
from .images import check_aspect

MAX_QUESTION = 2000  # characters


@dataclass(frozen=True)
class Prompt:
    """One request, ready for prefill.

    Args:
        question: as typed.
        ids: int64 [1, S], image placeholders expanded to one a visual token.
        positions: int64 [3, 1, S], the time, height and width axis of M-RoPE; all equal where a family has one axis.
        rope_delta: what to add to a sequence index behind the prompt to get its position.
        vision: what prefill is called with for the images, under the model's own names; empty for text only.
        images: for each image {sha256 of its RGB bytes, width, height, visual tokens}.
        ids_sha256: hash of the ids, equal for every lane that answers this prompt.
    """

    question: str
    ids: torch.Tensor
    positions: torch.Tensor
    rope_delta: int
    vision: Mapping[str, torch.Tensor]
    images: tuple[dict[str, Any], ...]
    ids_sha256: str

    @property
    def length(self) -> int:
        """Tokens of the prompt, with the visual tokens that stand in it."""
        return self.ids.shape[1]

    @property
    def pixels(self) -> torch.Tensor | None:
        """Float32, laid out as the family takes it; None for text only."""
        return self.vision.get("pixel_values")

    @property
    def grid(self) -> torch.Tensor | None:
        """Qwen: int64 [images, 3], patches of each image along (t, h, w)."""
        return self.vision.get("image_grid_thw")


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
        BadInput: no text, empty or too long.
    """
    if not isinstance(question, str | None):
        raise BadInput(f"The question must be a text, not {type(question).__name__}; type one.")
    question = (question or "").strip().encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if not question:
        raise BadInput("Type a question first.")
    if len(question) > MAX_QUESTION:
        raise BadInput(f"The question has {len(question)} characters; shorten it to {MAX_QUESTION}.")
    return question


def check_image(image: Image.Image) -> Image.Image:
    """An RGB image whose sides the image processor takes.

    Raises:
        BadInput: no pixels, or as `check_aspect` does.
    """
    if 0 in image.size:
        raise BadInput("The image has no pixels; choose another one.")
    check_aspect(image)
    return image.convert("RGB")


def chat_ids(tokenizer: PreTrainedTokenizerBase, question: str, images: int, image_token: int) -> list[int]:
    """Ids of a user's turn: the placeholders of some images, then the question, by the tokenizer's chat template.

    Raises:
        BadInput: an empty question or one that is too long.
        BadCheckpoint: a chat template or an image token under which the images have not one placeholder each.
    """
    typed = neutralize(check_question(question), tokenizer.all_special_tokens + list(tokenizer.get_added_vocab()))
    content = [{"type": "image"}] * images + [{"type": "text", "text": typed}]
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
    )
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    if (found := ids.count(image_token)) != images:
        raise BadCheckpoint(
            f"The target's prompt has {found} image tokens where {images} belong; "
            "copy its chat template, its tokenizer and its config.json again."
        )
    return ids


def finish(
    question: str,
    ids: Sequence[int],
    positions: torch.Tensor,
    rope_delta: int,
    vision: Mapping[str, torch.Tensor],
    images: Sequence[Image.Image],
    counts: Sequence[int],
    max_tokens: int,
) -> Prompt:
    """The `Prompt` of some ids, with its hashes. The arguments are its fields, but for these two.

    Args:
        counts: visual tokens of each image.
        max_tokens: longest prompt allowed.

    Raises:
        BadInput: the prompt is too long.
    """
    if len(ids) > max_tokens:
        raise BadInput(f"The prompt has {len(ids)} tokens and {max_tokens} fit; ask a shorter question.")
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
    return Prompt(check_question(question), row, positions, rope_delta, vision, facts, digest)
