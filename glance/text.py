"""Token ids to bytes and text. The engine knows ids only; whoever shows them asks here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

from tokenizers import AddedToken
from transformers import PreTrainedTokenizerBase
from transformers.convert_slow_tokenizer import bytes_to_unicode


class Vocabulary:
    """The byte strings behind a byte-level BPE tokenizer's ids."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer

    @cached_property
    def special(self) -> frozenset[int]:
        """Ids of special tokens: end of text, image placeholders, mask. They are no part of an answer's text."""
        return frozenset(i for i, token in self._added.items() if token.special)

    @cached_property
    def _added(self) -> dict[int, AddedToken]:
        """Tokens outside the byte-level vocabulary; some, such as `<think>`, are ordinary text."""
        return self.tokenizer.added_tokens_decoder

    @cached_property
    def _byte_of(self) -> dict[str, int]:
        return {char: byte for byte, char in bytes_to_unicode().items()}

    def piece(self, token_id: int) -> bytes:
        """The bytes of one token: the literal name of an added token, empty for an id without a token."""
        token = self.tokenizer.convert_ids_to_tokens(token_id)
        if token is None:
            return b""
        if token_id in self._added:
            return token.encode()
        return bytes(self._byte_of[char] for char in token)

    def bytes(self, ids: Iterable[int]) -> bytes:
        """The bytes of an answer; special tokens have none."""
        return b"".join(self.piece(i) for i in ids if i not in self.special)

    def text(self, ids: Sequence[int]) -> str:
        """The text of an answer; bytes that are not UTF-8 become U+FFFD."""
        return self.bytes(ids).decode("utf-8", errors="replace")
