"""The third run of the embedded target; it begins with the weights of `mini-target-2` (`--start-from`)."""

from dataclasses import replace

from glance.training.recipe import Stage
from glance.training.recipes.mini_target_2 import RECIPE as SECOND

RECIPE = replace(
    SECOND,
    name="mini-target-3",
    seed=2,
    families={
        "scenes": 0.15,
        "signs": 0.11,
        "infographics": 0.15,
        "documents": 0.35,
        "charts": 0.16,
        "plots": 0.08,
    },
    stages=(
        # the throw-away layers begin afresh: they learn before they teach
        Stage("dense", steps=60, vision=False, text=False, dense_weight=1.0),
        Stage(
            "joint",
            steps=500,
            vision=True,
            text=True,
            dense_weight=0.3,
            guide_weight=(0.3, 0.05),
            rate=(0.7, 0.01),
        ),
    ),
)
