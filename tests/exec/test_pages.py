"""The Python of the documentation runs, and prints what its pages show."""

from __future__ import annotations

from pathlib import Path

import pytest

from dmc.errors import DmcError
from tests.pages import PAGES, blocks, is_as_shown, needed_by, outcomes, run

HINT = "run `python -m tests.pages` and look at what it changes"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_prints_what_it_shows(page: Path) -> None:
    for library in needed_by(page):
        pytest.importorskip(library)
    for block, printed in outcomes(page):
        assert is_as_shown(block, printed), f"{block.code}printed\n{printed}not\n{block.printed}{HINT}"


PAGE = """\
```python
x = 1.2345
print(x)
```
```text
1.2…
```

<!-- not run: needs time -->
```python
y
```

```python
from dmc.errors import DmcError

raise DmcError("here", f"is {x}", hint="go")
```

```text
dmc.errors.DmcError: here: is 1
  hint: go
```
"""


def test_what_differs_is_found() -> None:
    first, second = blocks(PAGE)
    names: dict[str, object] = {}
    assert is_as_shown(first, run(first, names))
    told = run(second, names)
    assert told == "dmc.errors.DmcError: here: is 1.2345\n  hint: go\n"
    assert not is_as_shown(second, told)
    assert PAGE.splitlines()[second.first : second.last][0] == "```text"
    (silent,) = blocks(f"```python\n{second.code}```\n")
    with pytest.raises(DmcError, match="hint: go") as raised:
        run(silent, names)
    assert raised.traceback[-1].lineno == 2
