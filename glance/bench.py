"""Speed as ratios within one process: lanes against each other, and against what cannot be beaten.

Absolute times differ between machines; every figure here divides two medians taken side by side.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from .cache import TreeCache
from .engine import Decoding, Drafter, Settings, Step, clock
from .examples import Example
from .presets import Family
from .prompt import Prompt
from .race import LANES
from .target import Prefill
from .trace import Round, summarize


@dataclass(frozen=True)
class Ratio:
    """One ratio over several prompts."""

    name: str
    median: float
    low: float
    high: float
    prompts: int


def ratio(name: str, values: Sequence[float]) -> Ratio:
    """Median, minimum and maximum of per-prompt ratios."""
    return Ratio(name, statistics.median(values), min(values), max(values), len(values))


@dataclass(frozen=True)
class _Call:
    module: nn.Module
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    past: int


def _cache_of(args: Sequence[Any], kwargs: Mapping[str, Any]) -> TreeCache | None:
    return next((v for v in (*args, *kwargs.values()) if isinstance(v, TreeCache)), None)


@contextmanager
def _recorded(modules: Sequence[nn.Module]) -> Iterator[list[_Call]]:
    """Collect the outermost calls of these modules, with the cache length at which each was made."""
    calls: list[_Call] = []
    depth = 0

    def enter(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        nonlocal depth
        if depth == 0:
            cache = _cache_of(args, kwargs)
            calls.append(_Call(module, args, dict(kwargs), cache.get_seq_length() if cache else 0))
        depth += 1

    def leave(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        nonlocal depth
        depth -= 1

    handles = [m.register_forward_pre_hook(enter, with_kwargs=True) for m in modules]
    handles += [m.register_forward_hook(leave) for m in modules]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


class _Rounds:
    """A drafter whose own prefill is not recorded."""

    def __init__(self, inner: Drafter, calls: list[_Call]) -> None:
        self.inner, self.calls = inner, calls
        self.propose, self.commit = inner.propose, inner.commit

    def begin(self, prefill: Step, capacity: int) -> None:
        """Begin, and forget the calls so far."""
        self.inner.begin(prefill, capacity)
        self.calls.clear()


def _replay(calls: Sequence[_Call], device: torch.device) -> float:
    """Milliseconds of the bare calls, one after the other, each on a cache of its own recorded length."""
    spent = 0.0
    with torch.no_grad():
        for call in calls:
            cache = _cache_of(call.args, call.kwargs)
            if cache:
                for layer in cache.layers:
                    layer.length = call.past
            started = clock(device)
            call.module(*call.args, **call.kwargs)
            spent += clock(device) - started
    return spent


class _Ticks:
    """A streamer for `generate()`: notes when the prompt and each token arrive."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def put(self, value: torch.Tensor) -> None:
        """The prompt, then one token at a time."""
        self.times.append(time.perf_counter())

    def end(self) -> None:
        """Nothing to flush."""


def _generate_ms(family: Family, prompt: Prompt, tokens: int) -> float:
    """Decode time of transformers' greedy `generate()` for all but the first of `tokens` tokens, prefill excluded."""
    inputs: dict[str, Any] = {"input_ids": prompt.ids, "attention_mask": torch.ones_like(prompt.ids)}
    if prompt.pixels is not None:
        is_image = prompt.ids == family.parts.model.config.image_token_id
        inputs |= {
            "pixel_values": prompt.pixels,
            "image_grid_thw": prompt.grid,
            "mm_token_type_ids": is_image.int(),
        }
    ticks = _Ticks()
    family.parts.model.generate(
        **inputs,
        do_sample=False,
        repetition_penalty=1.0,  # a target's own default would make another answer of it
        use_cache=True,
        max_new_tokens=tokens,
        eos_token_id=sorted(family.eos_ids),
        pad_token_id=min(family.eos_ids),
        streamer=ticks,
    )
    if len(ticks.times) != 1 + tokens:
        raise RuntimeError(f"generate() gave {len(ticks.times) - 1} tokens and the reference lane {tokens}.")
    return 1e3 * (ticks.times[-1] - ticks.times[1])


class Bench:
    """Measures one family on some prompts, with warm-up, lanes interleaved, and medians of repeated runs."""

    def __init__(self, family: Family, settings: Settings, repeats: int = 3) -> None:
        self.family, self.settings, self.repeats = family, settings, repeats
        self.drafters: dict[str, Callable[[], Drafter]] = {
            **{lane: partial(family.drafter, lane) for lane in LANES},
            "chain": partial(family.drafter, "glance", as_chain=True),
        }
        self.modules = [
            family.parts.model,
            family.target.embed_tokens,
            family.target.lm_head,
            family.block_head,
            *family.eagle3_head.children(),
            family.eagle3_head,
        ]

    def _decode(self, prefill: Prefill, drafter: Drafter) -> list[Round]:
        stop = self.family.stop_rules(self.settings)
        return list(Decoding(self.family.target, prefill, drafter, self.settings, stop))

    def prompt(self, name: str, prompt: Prompt) -> dict[str, Any] | None:
        """All measurements on one prompt: medians over the repeats, in milliseconds a token. None without any round.

        Below fp32 a lane's answer may be of another length than ordinary decoding's, whose own `generate()` follows.
        """
        prefill = self.family.target.prefill(prompt)
        if not self._decode(prefill, self.drafters["autoregressive"]()):
            return None
        ms: dict[str, list[float]] = {lane: [] for lane in self.drafters}
        over: dict[str, list[float]] = {lane: [] for lane in LANES}
        generate: list[float] = []
        tau, tokens = {}, {}
        for repeat in range(self.repeats + 1):  # the first is the warm-up
            for lane in self.drafters:
                rounds = self._decode(prefill, self.drafters[lane]())
                if repeat:
                    ms[lane].append(sum(r.total_ms for r in rounds))
                tau[lane] = summarize(rounds).tau
                tokens[lane] = sum(len(r.emitted) for r in rounds)
            spent = _generate_ms(self.family, prompt, 1 + tokens["autoregressive"])
            if repeat:
                generate.append(spent)
        for _ in range(self.repeats):
            for lane in LANES:
                with _recorded(self.modules) as calls:
                    self._decode(prefill, _Rounds(self.drafters[lane](), calls))
                bare = _replay(calls, self.family.parts.model.device)
                over[lane].append(sum(r.total_ms for r in self._decode(prefill, self.drafters[lane]())) / bare)
        return {
            "name": name,
            "tokens": 1 + tokens["autoregressive"],
            "tau": tau,
            "ms": {lane: statistics.median(v) / tokens[lane] for lane, v in ms.items()},
            "generate_ms": statistics.median(generate) / tokens["autoregressive"],
            "over_bare": {lane: statistics.median(v) for lane, v in over.items()},
        }


def ratios(rows: Sequence[Mapping[str, Any]]) -> list[Ratio]:
    """The figures of a bench; in each, above 1 means that the first named is faster, except `*_round_over_forwards`."""
    pairs = {
        "eagle3_over_autoregressive": ("autoregressive", "eagle3"),
        "glance_over_autoregressive": ("autoregressive", "glance"),
        "glance_over_eagle3": ("eagle3", "glance"),
        "tree_over_chain": ("chain", "glance"),
    }
    out = [ratio(name, [r["ms"][slow] / r["ms"][fast] for r in rows]) for name, (slow, fast) in pairs.items()]
    out.append(ratio("autoregressive_over_generate", [r["generate_ms"] / r["ms"]["autoregressive"] for r in rows]))
    out += [ratio(f"{lane}_round_over_forwards", [r["over_bare"][lane] for r in rows]) for lane in LANES]
    return out


def run(family: Family, examples: Sequence[Example], settings: Settings, repeats: int = 3) -> Iterator[dict[str, Any]]:
    """Measure each example; yields its row. Prompts whose answer is a single token have no decoding to measure."""
    bench = Bench(family, settings, repeats)
    for example in examples:
        row = bench.prompt(example.name, family.prompt(example.open(), example.question))
        if row:
            yield row
