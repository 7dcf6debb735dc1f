"""Imported by the bindings to find the classes of namespace `dm`; it registers nothing, `load` does.

Without a module of this name the bindings search the whole path again for every single op and attribute they pass to
Python, which takes longer than verifying it.
"""
