"""What ranks hold alike, and what they send each other.

* sameness: along which axes ranks may hold different values
* replicas: the check that replicas are the same
* traffic: the bytes that collectives send
"""
