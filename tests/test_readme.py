"""What the README says of the presets is what they are."""

from __future__ import annotations

from pathlib import Path

from glance.presets import PRESETS

README = Path(__file__).resolve().parents[1] / "README.md"


def test_the_table_of_presets():
    rows = [
        tuple(cell.strip() for cell in line.strip("|").split("|"))
        for line in README.read_text(encoding="utf-8").splitlines()
        if line.startswith(("| `qwen", "| `llama"))
    ]
    assert rows == [
        (
            f"`{name}`",
            p.target,
            p.block_head or "none published",
            p.eagle3_head or "none published",
            p.dtype if p.quantize == "none" else f"{p.dtype}, {p.quantize}",
            f"{p.memory:g} GiB",
        )
        for name, p in PRESETS.items()
        if name != "mini"
    ]
