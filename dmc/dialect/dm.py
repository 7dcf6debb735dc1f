"""What the bindings import to find the classes of namespace `dm`: importing it registers nothing, `load` has done so.

Without a module of this name the bindings search the whole path again for every single op and attribute they hand to
Python, which takes longer than verifying it.
"""
