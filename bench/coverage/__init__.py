"""What of PyTorch compiles, by tests that PyTorch wrote: `python -m bench.coverage modules operators architectures`.

`modules.py` takes every entry of PyTorch's `module_db`, `operators.py` every differentiable one of its `op_db`,
`undifferentiable.py` the others, `gradients.py` the gradients of those that are differentiable twice, and
`architectures.py` the models of `transformers` from tiny configurations. `steps.py` makes a training step of each case,
`check.py` compares it with eager, `scope.py` says what no step contains (complex numbers, sparse ones, …), `sweep.py`
runs them in processes of their own, and `report.py` turns what they came to into `bench/results/coverage.json` and
`docs/coverage.md`.
"""
