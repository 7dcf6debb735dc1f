"""Random training steps against PyTorch eager: `python -m tests.fuzz --minutes 60`.

`operators.py` says what a line of a program may be, `generate.py` draws programs, `program.py` prints one as a module.
`train.py` trains it by eager, by the interpreter on form imported and by compiled steps; `compare.py` and
`check.py` say whether they agree. `workers.py` keeps crashes and hangs in processes of their own, `shrink.py` makes
what was found small, and `campaign.py` counts.
"""
