"""dm-bucket.

* bucket: the pass
* members: which movements may share a bucket
* filling: which of them do
* times: when a bucket arrives, and its deadline
* layouts: how operands are packed and results unpacked
"""

from dmc.passes.scheduled.bucket.bucket import Bucket

__all__ = ["Bucket"]
