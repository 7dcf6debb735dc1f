"""What the exported graph says about attention.

* masks: constant masks
* scores: scores that a function has modified
"""
