"""dm-merge-products.

* merge_products: the pass
* forward: products whose results an attention reads
* backward: products that read what an attention's gradient gives
* sums: products that are added up
* chains: elementwise operations behind a product, and views
* side_by_side: values side by side, computed at once
"""

from dmc.passes.scheduled.tensors.merge_products.merge_products import MergeProducts

__all__ = ["MergeProducts"]
