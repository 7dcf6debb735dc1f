"""Triton kernels generated from regions. (stub until the generator branch is merged)"""
class Declined(Exception):
    """Why a body is not taken."""
def generate(body):
    raise Declined("no generator yet")
