"""The passes, by the form that they lead to. Importing this package imports all of them, which fills the registry.

* base: pipelines
* where: the targets for which a pass runs
* placed: form imported → form placed
* scheduled: form placed → form scheduled
* planned: form scheduled → form planned
* any: checks of a module in any form
* shared: rewriting and reporting code of several passes
"""

import importlib
import pkgutil

for _module in pkgutil.walk_packages(__path__, f"{__name__}."):
    importlib.import_module(_module.name)
