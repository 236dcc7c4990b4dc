"""A GLANCE block head for a Qwen3-VL preset, on a folder of pictures (`--images`). Not yet run at this scale.

Begin with a text-only head of its language model where one is published:
`--start-from z-lab/Qwen3-8B-DFlash-b16` for `--preset qwen3-vl-8b`.
"""

from glance.training.head_recipe import HeadRecipe

RECIPE = HeadRecipe(
    name="qwen3-vl-glance",
    kind="glance",
    samples=4_000,
    held_out=256,
    max_new_tokens=512,
    epochs=3,
    batch=32,
    muon_rate=0.002,
    adam_rate=0.0003,
    layers=5,
    anchors=32,
    draft_vocabulary=32_000,
)
