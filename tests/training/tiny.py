"""Recipes that train in seconds."""

from __future__ import annotations

from glance.training.head_recipe import HeadRecipe
from glance.training.recipe import Shape, Stage, TargetRecipe

SHAPE = Shape(
    vocabulary=272,
    layers=3,
    hidden=32,
    heads=1,
    kv_heads=1,
    head_dim=32,
    mlp=64,
    mrope_section=(6, 5, 5),
    vision_hidden=32,
    vision_depth=2,
    vision_heads=1,
    vision_mlp=64,
    deepstack=(0,),
)

RECIPE = TargetRecipe(
    name="tiny",
    shape=SHAPE,
    batch=2,
    guided_layers=(1,),
    families={"documents": 1.0, "scenes": 1.0},
    stages=(
        Stage("dense", steps=2, vision=True, text=False, dense_weight=1.0, families={"lines": 1.0}),
        Stage("text", steps=2, vision=False, text=True, guide_weight=(0.3, 0.1), level=(0.0, 0.2)),
        Stage("joint", steps=2, vision=True, text=True, dense_weight=0.2, level=(0.0, 0.2), rate=(0.4, 0.02)),
    ),
)

HEAD = HeadRecipe(
    name="tiny-glance",
    kind="glance",
    families={"charts": 1.0},
    samples=4,
    held_out=2,
    epochs=2,
    batch=2,
    layers=2,
    fused=2,
    block_size=5,
    anchors=3,
    draft_vocabulary=40,
)
