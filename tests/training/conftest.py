"""One small tokenizer for all tests of training."""

from __future__ import annotations

import pytest
from transformers import PreTrainedTokenizerFast

from glance.training.tokenizer import build_tokenizer

from .tiny import SHAPE


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerFast:
    return build_tokenizer(SHAPE.vocabulary, samples=200)
