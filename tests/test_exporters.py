"""What is written in a published format is read back bit-equal, with the same config."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from glance import exporters
from glance.checkpoints import load_block_head, load_eagle3_head
from glance.drafters.block import BlockHead
from glance.drafters.eagle3 import Eagle3Head
from glance.drafters.layers import MRope
from glance.errors import BadInput
from tests import tiny

MROPE = MRope((4, 2, 2), interleaved=True)
BLOCKS = {
    "plain": {},
    "three axes": {"mrope": MROPE},
    "own vocabulary": {"vocab_size": 264, "draft_vocab_size": 100},
    "own embeddings and output head": {"vocab_size": 264, "draft_vocab_size": 264, "own_embeddings": True},
}
EAGLES = {
    "plain": {},
    "three axes": {"mrope": MRope((2, 3, 3), interleaved=False)},
    "speculators' variants": {"qk_norm": True, "norm_before_residual": True},
    "full vocabulary": {"draft_vocab_size": 264},
}


@pytest.fixture(scope="module", params=[True, False], ids=["tied", "untied"])
def family(request):
    return tiny.family(tied=request.param)


def random_map(head):
    """Give a head some draft vocabulary."""
    size, full = head.config.draft_vocab_size, len(head.t2d)
    kept = torch.randperm(full, generator=torch.Generator().manual_seed(0))[:size].sort().values
    head.t2d[kept] = True
    if hasattr(head, "d2t"):
        head.d2t.copy_(kept - torch.arange(size))


def assert_equal(one, two):
    assert one.config == two.config
    assert set(one.state_dict()) == set(two.state_dict())
    for name, tensor in one.state_dict().items():
        assert torch.equal(tensor, two.state_dict()[name]), name


@pytest.mark.parametrize("changes", BLOCKS.values(), ids=BLOCKS)
def test_block_heads_are_read_back_bit_equal(family, tmp_path, changes):
    head = BlockHead(dataclasses.replace(tiny.block_config(family.parts), **changes))
    if head.config.draft_vocab_size:
        random_map(head)
    folder = exporters.save_speculators(head, family.parts, tmp_path / "speculators")
    assert_equal(load_block_head(folder, family.parts), head)
    if head.config.vocab_size:
        with pytest.raises(BadInput, match="write the speculators format"):
            exporters.save_head(head, family.parts, tmp_path / "z-lab")
        return
    assert_equal(load_block_head(exporters.save_head(head, family.parts, tmp_path / "z-lab"), family.parts), head)


@pytest.mark.parametrize("own", [False, True], ids=["the target's embeddings", "own embeddings"])
@pytest.mark.parametrize("changes", EAGLES.values(), ids=EAGLES)
def test_eagle3_heads_are_read_back_bit_equal(family, tmp_path, changes, own):
    head = Eagle3Head(dataclasses.replace(tiny.eagle3_config(family.parts), **changes))
    random_map(head)
    if not own:
        head.embed_tokens.weight.data.copy_(family.target.embed_tokens.weight)
    for save in (exporters.save_head, exporters.save_speculators):
        folder = save(head, family.parts, tmp_path / save.__name__)
        assert_equal(load_eagle3_head(folder, family.parts), head)


def test_bfloat16_halves_the_file_and_says_so(family, tmp_path):
    folder = exporters.save_head(family.block_head, family.parts, tmp_path, torch.bfloat16)
    loaded = load_block_head(folder, family.parts).state_dict()
    for name, tensor in family.block_head.state_dict().items():
        assert torch.equal(loaded[name], tensor.bfloat16().float()), name
    assert '"dtype": "bfloat16"' in (folder / "config.json").read_text()


def test_a_small_head_is_written_in_shards_and_written_anew_in_one(family, tmp_path, monkeypatch):
    head = family.block_head
    monkeypatch.setattr(exporters, "SHARD", 40_000)
    folder = exporters.save_head(head, family.parts, tmp_path)
    shards = sorted(folder.glob("*.safetensors"))
    assert len(shards) > 1 and all(shard.stat().st_size < 50_000 for shard in shards)
    assert_equal(load_block_head(folder, family.parts), head)
    monkeypatch.undo()
    exporters.save_head(head, family.parts, tmp_path)
    assert [file.name for file in folder.glob("*.safetensors")] == ["model.safetensors"]
    assert_equal(load_block_head(folder, family.parts), head)
