"""Replicated values, and traffic between ranks.

* sameness: along which axes ranks may hold different values
* replicas: the check that replicas are equal
* traffic: the bytes that collectives send
"""
