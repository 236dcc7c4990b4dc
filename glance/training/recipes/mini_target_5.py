"""The fifth run of the embedded target; it begins with the weights of `mini-target-4` (`--start-from`).

The tower knew 96 of 100 characters and the text stack copied as many, so the tower grows: four blocks become eight.
"""

from dataclasses import replace

from glance.training.recipe import Stage
from glance.training.recipes.mini_target_4 import RECIPE as FOURTH

RECIPE = replace(
    FOURTH,
    name="mini-target-5",
    seed=4,
    bfloat16=False,
    shape=replace(FOURTH.shape, vision_depth=8),
    families={
        "scenes": 0.16,
        "signs": 0.16,
        "infographics": 0.12,
        "documents": 0.36,
        "charts": 0.14,
        "plots": 0.06,
    },
    stages=(
        # the throw-away layers begin afresh: they learn before they teach
        Stage("dense", steps=41, vision=False, text=False, dense_weight=1.0),
        Stage(
            "dense",
            steps=557,
            vision=True,
            text=False,
            dense_weight=1.0,
            rate=(0.8, 0.2),
            families={
                "lines": 0.50,
                "scenes": 0.12,
                "signs": 0.12,
                "infographics": 0.06,
                "documents": 0.10,
                "charts": 0.04,
                "plots": 0.06,
            },
        ),
        Stage(
            "joint",
            steps=638,
            vision=True,
            text=True,
            dense_weight=0.3,
            guide_weight=(0.3, 0.1),
            rate=(0.7, 0.01),
        ),
    ),
)
