"""Files of a model's weights: one of safetensors, or a folder with an index and shards."""

from __future__ import annotations

from pathlib import Path, PurePath

import msgspec

from dmc.errors import StateError
from dmc.program.limits import DECODE_ERRORS, MAX_MANIFEST, Name
from dmc.runtime.files.regular_file import open_regular
from dmc.runtime.files.tensor_file import TensorFile

_COPY = "copy the original file again"
_FORMS = "pass a .safetensors file, or a folder that `save_pretrained` or `step.save_weights` wrote"
_INDEX = ".safetensors.index.json"


def weight_files(path: Path) -> dict[str, TensorFile]:
    """The file of each tensor, by its name: of one file, of an index, or of a folder with either.

    Raises StateError, naming the file, where one is missing or damaged, or where the index is that of other files.
    """
    if path.is_dir():
        return _of_folder(path)
    if path.name.endswith(_INDEX):
        return _of_index(path)
    file = TensorFile(path, _COPY, _FORMS)
    return dict.fromkeys(file.entries, file)


def _of_folder(folder: Path) -> dict[str, TensorFile]:
    indexes, files = sorted(folder.glob(f"*{_INDEX}")), sorted(folder.glob("*.safetensors"))
    if len(indexes) == 1:
        found = _of_index(indexes[0])
        if beside := [file.name for file in files if file not in {each.path for each in found.values()}]:
            fact = f"contains {beside[0]}, which {indexes[0].name} does not name"
            raise StateError(str(folder), fact, hint="pass the file or the index, whichever is meant")
        return found
    if len(files) == 1 and not indexes:
        return weight_files(files[0])
    several = indexes or files
    hint = "pass one of them" if several else _FORMS
    if not several and (others := sorted(folder.glob("*.bin"))):
        hint = f"{others[0].name} is of torch.save: load it with from_pretrained and write it with save_pretrained"
    what = f"{len(several)} files, {several[0].name} and others, and no index of them" if several else "no weights"
    raise StateError(str(folder), f"contains {what}", hint)


class _Index(msgspec.Struct, frozen=True):
    weight_map: dict[Name, Name]


def _of_index(index: Path) -> dict[str, TensorFile]:
    with open_regular(index, StateError, _FORMS, _FORMS) as file:
        data = file.read(MAX_MANIFEST)
    try:
        places = msgspec.json.decode(data, type=_Index).weight_map
    except DECODE_ERRORS as error:
        raise StateError(str(index), f"is no index of safetensors files ({error})", hint=_COPY) from error
    names: dict[str, list[str]] = {}
    for name, file in places.items():
        names.setdefault(file, []).append(name)
    shards = {file: _shard(index, file, own) for file, own in names.items()}
    return {name: shards[file] for name, file in places.items()}


def _shard(index: Path, file: str, names: list[str]) -> TensorFile:
    """A file that holds these tensors, as the index says."""
    if PurePath(file).name != file:
        raise StateError(str(index), f"names {file!r}, which is not in its folder", hint=_COPY)
    some = f"{len(names)} tensors, such as {names[0]!r}"
    shard = TensorFile(index.with_name(file), _COPY, f"{index.name} says that it holds {some}: copy it, too")
    if different := sorted(shard.entries.keys() ^ set(names)):
        verb = "lacks" if different[0] not in shard.entries else "has"
        fact = f"{verb} {different[0]!r}, and {index.name} says otherwise ({len(different)} such tensors)"
        raise StateError(str(shard.path), fact, hint="this is another model's index, or file: copy both again")
    return shard
