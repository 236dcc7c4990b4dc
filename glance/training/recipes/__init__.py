"""One file a run. `RECIPE` of each module is what `--recipe` names, with `-` for `_`."""
