"""Our block head computes what the class of the published heads computes, from the package `dflash`, to 1e-5."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from transformers import DynamicCache, Qwen3Config
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLConfig, Qwen2_5_VLRotaryEmbedding
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLTextConfig, Qwen3VLTextRotaryEmbedding

from glance.cache import TreeCache
from glance.drafters.block import BlockConfig, BlockHead
from glance.drafters.layers import MRope, rope

CONFIG = BlockConfig(64, 96, 3, 4, 2, 16, 1e-6, 1e6, 4096, 8, 250, (1, 3, 5))


@pytest.fixture(scope="module")
def theirs():
    """The published class, of our geometry."""
    model = pytest.importorskip(
        "dflash.model",
        reason="the package dflash is not installed: pip install --no-deps -r requirements-parity.txt",
    )
    names = (
        "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
        "head_dim", "rms_norm_eps", "max_position_embeddings",
    )  # fmt: skip
    config = Qwen3Config(
        **{name: getattr(CONFIG, name) for name in names},
        rope_parameters={"rope_type": "default", "rope_theta": CONFIG.rope_theta},
        vocab_size=264,
        layer_types=["full_attention"] * CONFIG.num_hidden_layers,
    )
    config.num_target_layers, config.block_size = 8, CONFIG.block_size
    config.dflash_config = {"mask_token_id": CONFIG.mask_token_id, "target_layer_ids": list(CONFIG.target_layer_ids)}
    torch.manual_seed(0)
    return model.DFlashDraftModel(config).eval()


@pytest.fixture(scope="module")
def ours(theirs):
    """Our head with the same weights, which are not too small to matter."""
    head = BlockHead(CONFIG).eval()
    with torch.no_grad():
        for weight in theirs.parameters():
            weight.copy_(torch.randn_like(weight) * (0.3 if weight.ndim == 2 else 1))
    head.load_state_dict(theirs.state_dict())
    return head


@torch.no_grad()
def test_several_rounds_give_the_same_hidden_states(theirs, ours):
    generator = torch.Generator().manual_seed(1)
    cache, their_cache = TreeCache(CONFIG.num_hidden_layers, 64), DynamicCache(config=theirs.config)
    their_cache.activate_past_recording()
    start = 0
    for rows in (19, 1, 4, 8):  # the prompt, then accepted rows of some rounds
        states = torch.randn(1, rows, 3 * 64, generator=generator)
        block = torch.randn(1, CONFIG.block_size, 64, generator=generator)
        positions = torch.arange(start, start + rows + CONFIG.block_size)
        expected = theirs(
            target_hidden=states, noise_embedding=block, position_ids=positions[None], past_key_values=their_cache
        )
        got = ours(states, block, positions[:rows], positions[rows:], cache=cache)
        torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-5)
        start += rows
        cache.commit(range(rows))
        their_cache.crop(-CONFIG.block_size)


def test_another_rotary_base_is_noticed(theirs, ours):
    """The comparison above can fail."""
    other = BlockHead(dataclasses.replace(CONFIG, rope_theta=1e4)).eval()
    other.load_state_dict(ours.state_dict())
    states, block, at = torch.randn(1, 9, 192), torch.randn(1, 8, 64), torch.arange(17)
    with torch.no_grad():
        expected = theirs(target_hidden=states, noise_embedding=block, position_ids=at[None])
        assert (other(states, block, at[:9], at[9:]) - expected).abs().max() > 1e-3


@pytest.mark.parametrize("interleaved", [True, False], ids=["Qwen3-VL", "Qwen2.5-VL"])
def test_three_axes_rotate_as_in_transformers(interleaved):
    sections = [24, 20, 20] if interleaved else [16, 24, 24]
    rotary = {"rope_type": "default", "rope_theta": 5e6, "mrope_section": sections, "mrope_interleaved": interleaved}
    shape = {"hidden_size": 256, "num_attention_heads": 2, "num_key_value_heads": 2, "rope_parameters": rotary}
    if interleaved:
        theirs = Qwen3VLTextRotaryEmbedding(Qwen3VLTextConfig(head_dim=128, **shape))
    else:
        theirs = Qwen2_5_VLRotaryEmbedding(Qwen2_5_VLConfig(text_config=shape).text_config)
    positions = torch.randint(0, 500, (3, 1, 11), generator=torch.Generator().manual_seed(0))
    expected = theirs(torch.zeros(1, 11, 256), positions)
    for axes in (positions, positions[:, 0]):
        got = rope(axes, 128, 5e6, torch.float32, MRope(tuple(sections), interleaved))
        for ours, reference in zip(got, expected, strict=True):
            torch.testing.assert_close(ours.view_as(reference), reference, atol=1e-4, rtol=0)
