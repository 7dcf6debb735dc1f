"""lit: `lit tests` runs every .mlir file here."""

import os
import sys
from pathlib import Path

import lit.formats

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
sys.path.insert(0, str(TESTS))

from filecheck import FLAGS, find_filecheck  # noqa: E402

config.name = "dmc"  # noqa: F821
config.test_format = lit.formats.ShTest(execute_external=False)  # noqa: F821
config.suffixes = [".mlir"]  # noqa: F821
config.test_source_root = str(TESTS)  # noqa: F821
config.test_exec_root = str(ROOT / "build" / "lit")  # noqa: F821
config.substitutions += [  # noqa: F821
    ("%FileCheck", " ".join([find_filecheck(), *FLAGS])),
    ("%python", sys.executable),
]
# tools/dmc-opt runs this checkout with the python3 of PATH: the one that runs lit.
config.environment["PATH"] = os.pathsep.join([str(ROOT / "tools"), str(Path(sys.executable).parent), os.environ["PATH"]])  # noqa: F821
