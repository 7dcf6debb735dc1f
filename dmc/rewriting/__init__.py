"""What a pass is, for all that rewrites modules: the compiler's passes, and those that kernels go through for IREE.

* passes: the base of every pass, and the registry
* options: a pass's options as text
* text: splitting the text of pipelines
"""
