"""dm-bucket.

* bucket: the pass
* members: which movements may share a bucket
* filling: which of them do
* times: when a bucket arrives, and when it must have
* layouts: how operands go into a bucket and results come out
"""

from dmc.passes.scheduled.bucket.bucket import Bucket

__all__ = ["Bucket"]
