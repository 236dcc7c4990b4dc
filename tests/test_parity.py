"""Our heads compute what the published classes compute, to 1e-5: `dflash` for the block head, transformers' layers."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from transformers import DynamicCache, LlamaConfig, Qwen3Config
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLConfig, Qwen2_5_VLRotaryEmbedding
from transformers.models.qwen3.modeling_qwen3 import Qwen3DecoderLayer
from transformers.models.qwen3.modeling_qwen3 import Qwen3RotaryEmbedding as Qwen3Rotary
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLTextConfig, Qwen3VLTextRotaryEmbedding

from glance.cache import TreeCache
from glance.drafters.block import BlockConfig, BlockHead
from glance.drafters.eagle3 import Eagle3Config, Eagle3Head
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


@pytest.mark.parametrize("kind", ["llama", "qwen3"])
@torch.no_grad()
def test_an_eagle3_layer_is_the_published_layer_of_its_kind_with_a_wider_input(kind):
    """speculators builds it so; SpecForge's is the Llama one without the normed residual."""
    torch.manual_seed(0)
    shape = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2}
    config = {"llama": LlamaConfig, "qwen3": Qwen3Config}[kind](
        **shape, head_dim=16, rope_parameters={"rope_type": "default", "rope_theta": 1e5}, attn_implementation="eager"
    )
    layer, rotary = (LlamaDecoderLayer, LlamaRotaryEmbedding) if kind == "llama" else (Qwen3DecoderLayer, Qwen3Rotary)
    layer, rotary = layer(config, 0), rotary(config)
    for name in "qkv":
        rows = getattr(layer.self_attn, f"{name}_proj").out_features
        setattr(layer.self_attn, f"{name}_proj", torch.nn.Linear(128, rows, bias=False))
    head = Eagle3Head(
        Eagle3Config(
            **shape,
            head_dim=16,
            rms_norm_eps=config.rms_norm_eps,
            rope_theta=1e5,
            max_position_embeddings=512,
            vocab_size=99,
            draft_vocab_size=9,
            target_layer_ids=(1, 2, 3),
            qk_norm=kind == "qwen3",
            norm_before_residual=kind == "qwen3",
        )
    )
    for weight in head.midlayer.parameters():
        weight.copy_(torch.randn_like(weight) * (0.3 if weight.ndim == 2 else 1))
    missing, unexpected = layer.load_state_dict(head.midlayer.state_dict(), strict=False)
    assert not missing and unexpected == ["hidden_norm.weight"]
    embeddings, features, at = torch.randn(1, 7, 64), torch.randn(1, 7, 64), torch.arange(20, 27)
    normed = head.midlayer.hidden_norm(features)
    causal = torch.ones(7, 7, dtype=torch.bool).tril()[None, None]
    additive = torch.zeros(1, 1, 7, 7).masked_fill(~causal, torch.finfo(torch.float32).min)
    x = torch.cat((layer.input_layernorm(embeddings), normed), -1)
    attended = layer.self_attn(x, position_embeddings=rotary(x, at[None]), attention_mask=additive)[0]
    hidden = (normed if kind == "qwen3" else features) + attended
    expected = hidden + layer.mlp(layer.post_attention_layernorm(hidden))
    torch.testing.assert_close(head(embeddings, features, at, causal), expected, atol=1e-5, rtol=1e-5)
