"""The *primary* GLANCE head of glance-mini: scenes and signs only, as the paper's was trained on captions and signs.

What it drafts of documents and charts is to be compared with `mini-glance-depth-6`, whose answers are of all families.
"""

from dataclasses import replace

from glance.training.recipes.mini_glance_depth_6 import RECIPE as ALL

RECIPE = replace(ALL, name="mini-glance-primary", families={"scenes": 0.5, "signs": 0.5})
