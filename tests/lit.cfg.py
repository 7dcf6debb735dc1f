"""lit: `lit tests` runs every .mlir file here."""

# pyright: reportUndefinedVariable=false

import os
import sys
from pathlib import Path

import lit.formats

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
sys.path.insert(0, str(ROOT))

from tests.filecheck import FLAGS, find_filecheck

config.name = "dmc"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.test_source_root = str(TESTS)
config.test_exec_root = str(ROOT / "build" / "lit")
config.substitutions += [
    ("%FileCheck", " ".join([find_filecheck(), *FLAGS])),
    ("%python", sys.executable),
]
# tools/dmc-opt runs this checkout with the python3 of PATH: the one that runs lit.
path = (str(ROOT / "tools"), str(Path(sys.executable).parent), os.environ["PATH"])
config.environment["PATH"] = os.pathsep.join(path)
# What earlier runs left must not decide anything.
config.environment["DMC_CACHE"] = "off"
