"""What the passes of a round cost at the true shapes of Qwen3-VL-8B, eager and recorded: `scripts/gpu_check.sh`.

The weights are random: time and memory do not depend on their values. Each pass is timed in three ways: as the engine
runs it, with fixed shapes, and with fixed shapes recorded as a CUDA graph. Then the shipped family decodes an example
in fp32 and in bf16, without and with the tie gate. `--tiny --device cpu` runs all of it in seconds, unrecorded.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.table import Table
from torch import nn
from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

from .. import calibrate, presets
from ..cache import TreeCache
from ..drafters.block import BlockConfig, BlockHead
from ..drafters.block import default_layer_ids as block_layers
from ..drafters.eagle3 import STEPS, TOP_K, Eagle3Config, Eagle3Head
from ..drafters.eagle3 import default_layer_ids as eagle3_layers
from ..engine import Settings, clock
from ..errors import BadInput
from ..examples import shipped
from ..options import Json, keep
from ..padded import PaddedVerify, Recorded, WholeBuffers
from ..prompt import Prompt
from ..provenance import machine
from ..target import Prefill, Target
from ..tree import best_first

FRESH = 4  # rows that a round commits, about τ


@dataclass(frozen=True)
class Shape:
    """Sizes of a target and its heads, and what is timed."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    sections: tuple[int, int, int]
    vision: dict[str, Any]  # what differs from the 8B's
    draft_layers: int
    draft_vocabulary: int
    prompt: int
    widths: tuple[int, ...]
    repeats: int


SMALL_EYE = {"depth": 2, "hidden_size": 32, "intermediate_size": 48, "num_heads": 2, "deepstack_visual_indexes": [0]}
SHAPES = {
    "qwen3-vl-8b": Shape(4096, 12288, 36, 32, 8, 128, 151936, (24, 20, 20), {}, 5, 32000, 1024, (16, 32, 64, 128), 20),
    "tiny": Shape(64, 128, 6, 4, 2, 16, 300, (4, 2, 2), SMALL_EYE, 2, 100, 24, (16, 32), 2),
}


@dataclass(frozen=True)
class Cost:
    """One pass: median milliseconds as the engine runs it, with fixed shapes, and recorded (None: `note` says why)."""

    weights: str
    what: str
    eager_ms: float
    fixed_ms: float
    recorded_ms: float | None
    note: str


def target(shape: Shape, dtype: torch.dtype, device: torch.device, four_bit: bool = False) -> Target:
    """A random Qwen3-VL of this shape; with `four_bit`, its decoder's matrices are nf4 with double quantisation."""
    rope = {"rope_type": "default", "rope_theta": 5e6, "mrope_section": shape.sections, "mrope_interleaved": True}
    text = {
        "vocab_size": shape.vocabulary, "hidden_size": shape.hidden, "intermediate_size": shape.intermediate,
        "num_hidden_layers": shape.layers, "num_attention_heads": shape.heads, "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim, "max_position_embeddings": 32768, "rope_parameters": rope,
    }  # fmt: skip
    vision = {"out_hidden_size": shape.hidden, **shape.vision}
    config = Qwen3VLConfig(text_config=text, vision_config=vision, tie_word_embeddings=False)
    with torch.device(device):
        model = Qwen3VLForConditionalGeneration._from_config(config, dtype=dtype, attn_implementation="sdpa")
    if four_bit:
        _four_bit(model.model.language_model.layers, dtype)
    fused = {*block_layers(shape.layers, shape.draft_layers), *eagle3_layers(shape.layers)}
    return Target(model, fused)


def _four_bit(module: nn.Module, dtype: torch.dtype) -> None:
    """Replace every matrix, in place."""
    from bitsandbytes.nn import Linear4bit, Params4bit

    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            device = child.weight.device
            small = Linear4bit(child.in_features, child.out_features, bias=False, compute_dtype=dtype, quant_type="nf4")
            small.weight = Params4bit(child.weight.data.cpu(), requires_grad=False, quant_type="nf4")
            setattr(module, name, small.to(device))
        else:
            _four_bit(child, dtype)


def heads(shape: Shape, dtype: torch.dtype, device: torch.device) -> tuple[BlockHead, Eagle3Head]:
    """Random heads of the published geometry for a target of this shape."""
    s = shape
    attention = (s.heads, s.kv_heads, s.head_dim, 1e-6, 1e6, 40960)
    block = BlockConfig(
        s.hidden, s.intermediate, s.draft_layers, *attention, 16, s.vocabulary - 1,
        block_layers(s.layers, s.draft_layers),
    )  # fmt: skip
    eagle3 = Eagle3Config(
        s.hidden, s.intermediate, *attention, s.vocabulary, s.draft_vocabulary, eagle3_layers(s.layers)
    )
    with torch.device(device):
        return tuple(h.to(dtype).eval().requires_grad_(False) for h in (BlockHead(block), Eagle3Head(eagle3)))


def median_ms(run: Callable[[], Any], device: torch.device, repeats: int) -> float:
    """Of single runs, the device idle before and after each; two runs warm up."""
    times = []
    for i in range(repeats + 2):
        started = clock(device)
        run()
        if i > 1:
            times.append(clock(device) - started)
    return statistics.median(times)


def costs(shape: Shape, weights: str, device: torch.device) -> Iterator[Cost]:
    """Time the passes of a round with these weights: "fp32", "bf16", or "nf4"."""
    torch.manual_seed(0)
    dtype = torch.float32 if weights == "fp32" else torch.bfloat16
    made = target(shape, dtype, device, weights == "nf4")
    block, eagle3 = heads(shape, dtype, device)

    def cost(what: str, eager: Callable[[], Any], fixed: Callable[[], Any], recorded: Callable[[], Any], note: str):
        ms = [median_ms(run, device, shape.repeats) for run in (eager, fixed)]
        return Cost(weights, what, *ms, None if note else median_ms(recorded, device, shape.repeats), note)

    with torch.no_grad():
        prefill = made.prefill(_prompt(shape))
        for rows in (1, *shape.widths):
            what = "autoregressive step" if rows == 1 else f"verify, {rows} rows"
            yield cost(what, *_verify(made, prefill, shape, rows))
        yield cost("draft pass of a block", *_block(made, block, shape, device))
        yield cost(f"{STEPS} EAGLE-3 passes", *_eagle3(eagle3, shape, device))


def _prompt(shape: Shape) -> Prompt:
    ids = torch.randint(0, 100, (1, shape.prompt))
    return Prompt("", ids, torch.arange(shape.prompt).expand(3, 1, -1), 0, {}, (), "")


def _verify(made: Target, prefill: Prefill, shape: Shape, rows: int) -> tuple[Any, ...]:
    """One pass over a root and a random tree behind the prompt."""
    tree, prompt = best_first(torch.randn(15, shape.vocabulary), rows - 1), prefill.prompt
    cache = prefill.cache.fork(shape.prompt + max(shape.widths) + 1)

    def once(run: Callable[..., Any]) -> Callable[[], None]:
        def verify() -> None:
            run(cache, 1, tree, prompt)
            cache.rollback()

        return verify

    fixed, recorded = (PaddedVerify(made, cache, rows, prompt, record) for record in (False, True))
    return once(made.verify), once(fixed), once(recorded), recorded.run.note


def _filled(layers: int, shape: Shape, like: torch.Tensor) -> TreeCache:
    """A head's cache with a prompt in it."""
    cache = TreeCache(layers, shape.prompt + 64)
    rows = like.new_zeros(1, shape.kv_heads, shape.prompt, shape.head_dim)
    for layer in range(layers):
        cache.update(rows, rows, layer)
    cache.commit(range(shape.prompt))
    return cache


def _block(made: Target, head: BlockHead, shape: Shape, device: torch.device) -> tuple[Any, ...]:
    """One pass over `FRESH` context rows (fixed: padded to a block) and the block, output head and top 31 included."""
    c, past = head.config, shape.prompt
    cache = _filled(c.num_hidden_layers, shape, head.fc.weight)
    states = torch.randn(1, c.block_size, head.fc.in_features, dtype=head.fc.weight.dtype, device=device)
    ids = torch.full((1, c.block_size), c.mask_token_id, device=device)
    context, slots = torch.arange(past, past + c.block_size, device=device), c.block_size
    behind = context + slots
    view = WholeBuffers(cache, torch.cat((context, behind)))
    mask = torch.ones(1, 1, slots, past + 64, dtype=torch.bool, device=device)
    mask[..., past + FRESH : past + slots] = mask[..., past + 2 * slots :] = False

    def tokens(hidden: torch.Tensor) -> torch.Tensor:
        return made.lm_head(hidden[0, 1:]).float().log_softmax(-1).topk(31).indices

    def eager() -> list[list[int]]:
        found = tokens(head(states[:, :FRESH], made.embed_tokens(ids), context[:FRESH], behind, cache=cache))
        cache.rollback()
        return found.tolist()

    def fixed() -> torch.Tensor:
        return tokens(head(states, made.embed_tokens(ids), context, behind, mask, view))

    recorded = Recorded(fixed, device)
    return eager, lambda: fixed().tolist(), lambda: recorded().tolist(), recorded.note


def _eagle3(head: Eagle3Head, shape: Shape, device: torch.device) -> tuple[Any, ...]:
    """A pass over `FRESH` committed rows, then seven over the frontier, each with its top children read back."""
    past, capacity = shape.prompt, shape.prompt + 64
    cache = _filled(1, shape, head.fc.weight)
    fused = head.fc.weight.new_zeros(1, FRESH, head.fc.in_features)
    features = head.fc.weight.new_zeros(1, TOP_K, head.config.hidden_size)
    ids = torch.zeros(1, TOP_K, dtype=torch.long, device=device)
    slots = torch.arange(past, past + TOP_K, device=device)
    mask = torch.zeros(1, 1, TOP_K, capacity, dtype=torch.bool, device=device)
    view = WholeBuffers(cache, slots)

    def step(features: torch.Tensor, mask: torch.Tensor, cache: TreeCache | WholeBuffers) -> tuple[torch.Tensor, ...]:
        hidden = head(head.embed_tokens(ids), features, slots, mask, cache)
        return hidden, head.logits(hidden[0]).float().log_softmax(-1).topk(TOP_K).indices

    def eager() -> None:
        for depth in range(STEPS):
            rows = torch.ones(1, 1, TOP_K, past + (depth + 1) * TOP_K, dtype=torch.bool, device=device)
            _, children = step(features if depth else head.fc(fused), rows, cache)
            ids.copy_(torch.tensor(children.tolist())[:1])
        cache.rollback()

    def rounds(first: Callable[[], Any], later: Callable[[], Any]) -> None:
        for depth in range(STEPS):
            slots.copy_(torch.arange(past + depth * TOP_K, past + (depth + 1) * TOP_K))
            mask[..., : past + (depth + 1) * TOP_K] = True
            hidden, children = (later if depth else first)()
            features.copy_(hidden)
            ids.copy_(torch.tensor(children.tolist())[:1])
        mask.zero_()

    runs = (lambda: step(head.fc(fused), mask, view), lambda: step(features, mask, view))
    recorded = [Recorded(run, device) for run in runs]
    return eager, lambda: rounds(*runs), lambda: rounds(*recorded), recorded[0].note or recorded[1].note


def gate(device: torch.device, tokens: int) -> Iterator[dict[str, Any]]:
    """The shipped family on an example, in fp32 and bf16: the measured threshold, and each lane's `calibrate.check`."""
    for dtype in ("float32", "bfloat16"):
        family = presets.load("mini", str(device), dtype=dtype)
        example = shipped()[0]
        prompt, settings = family.prompt(example.open(), example.question), Settings(max_new_tokens=tokens)
        rows = calibrate.measure(family.target, family.target.prefill(prompt), family.stop_rules(settings), 31)
        threshold = calibrate.figures(rows)["threshold"]
        for row in calibrate.check(family, [prompt], replace(settings, tie_threshold=threshold)):
            yield {"dtype": dtype, "threshold": threshold, **row}


def main(
    device: Annotated[str, typer.Option(help="cuda, or cpu with --tiny.")] = "cuda",
    tiny: Annotated[bool, typer.Option("--tiny", help="Small shapes: tries the code, measures nothing.")] = False,
    json_file: Json = None,
) -> None:
    """Print the table of costs."""
    if device == "cuda" and not torch.cuda.is_available():
        typer.echo("There is no GPU here; --tiny --device cpu tries the code without one.", err=True)
        raise typer.Exit(2)
    where, started = torch.device(device), time.perf_counter()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    shape, console = SHAPES["tiny" if tiny else "qwen3-vl-8b"], Console()
    table = Table("Weights", "Pass", "Eager, ms", "Fixed shapes, ms", "Recorded, ms")
    rows, figures = [], {}
    for weights in ("fp32", "bf16") if tiny else ("bf16", "nf4"):
        if where.type == "cuda":
            torch.cuda.reset_peak_memory_stats(where)
        for row in costs(shape, weights, where):
            rows.append(row)
            last = row.note if row.recorded_ms is None else f"{row.recorded_ms:.2f}"
            table.add_row(weights, row.what, f"{row.eager_ms:.2f}", f"{row.fixed_ms:.2f}", last)
            for key in ("eager_ms", "fixed_ms", "recorded_ms"):
                figures[f"{weights}_{row.what}_{key}".replace(", ", "_").replace(" ", "_")] = getattr(row, key)
        if where.type == "cuda":
            figures[f"{weights}_peak_gib"] = torch.cuda.max_memory_allocated(where) / 2**30
            table.add_row(weights, "peak memory", f"{figures[f'{weights}_peak_gib']:.1f} GiB", "", "")
        gc.collect()
    console.print(table)
    gates = list(gate(where, 6 if tiny else 96))
    lanes = Table("Type", "Threshold", "Lane", "Ties", "Identical", "Rounds", "Deferred", "Target passes")
    for g in gates:
        for way in calibrate.WAYS:
            same, *counts = g[way].values()
            said = "yes" if same else "no"
            lanes.add_row(g["dtype"], f"{g['threshold']:.3g}", g["lane"], way, said, *map(str, counts))
    console.print(lanes)
    console.print(f"{time.perf_counter() - started:.0f} s")
    keep(json_file, figures, [asdict(r) for r in rows], machine(), gate=gates, shape=asdict(shape))


if __name__ == "__main__":
    try:
        typer.run(main)
    except BadInput as problem:
        raise SystemExit(str(problem)) from None
