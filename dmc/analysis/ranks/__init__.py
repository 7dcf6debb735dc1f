"""Replicated values, and traffic between ranks.

* exchanges: sums of what two ranks give each other
* sameness: along which axes ranks may hold different values
* replicas: the check that replicas are equal
* traffic: the bytes that collectives send
"""
