"""dm-exchange-sums.

* exchange_sums: the pass
* buckets: sums that share their movements
"""

from dmc.passes.placed.exchange_sums.exchange_sums import ExchangeSums

__all__ = ["ExchangeSums"]
