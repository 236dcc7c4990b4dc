"""The embedded target, glance-mini. Stage lengths are optimizer steps of `batch` fresh images.

They are those of the shipped run. It still improved when it ended: `--minutes` stretches the stages.
"""

from glance.training.recipe import Stage, TargetRecipe

RECIPE = TargetRecipe(
    name="mini-target",
    families={"scenes": 0.14, "signs": 0.12, "infographics": 0.14, "documents": 0.40, "charts": 0.20},
    batch=32,
    stages=(
        # the vision tower learns what it sees: characters, colours, things
        Stage("dense", steps=821, vision=True, text=False, dense_weight=1.0, rate=(1.0, 0.6)),
        # the text stack learns to read; its first documents have one line
        Stage(
            "text",
            steps=656,
            vision=False,
            text=True,
            guide_weight=(0.3, 0.05),
            level=(0.0, 1.0),
            grown=0.6,
            rate=(1.0, 0.4),
        ),
        # both together, at a falling rate
        Stage("joint", steps=170, vision=True, text=True, dense_weight=0.2, rate=(0.4, 0.02)),
    ),
)
