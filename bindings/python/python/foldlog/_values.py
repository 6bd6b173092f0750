"""Values as JSON, exactly: what JSON does not have is refused, never changed in silence."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any, Iterable, List, Mapping, Union

from . import _native
from ._errors import InvalidError

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
#: Of these types exactly, nothing is to be looked at.
_SCALARS = frozenset({str, int, float, bool, type(None)})


@dataclass(frozen=True)
class Raw:
    """JSON text in place of a value, which is kept exactly as it is spelled: for what Python would spell in another way.

    :class:`foldlog.InvalidError` for a text that is not one JSON value. Values that are read are of this type where they are
    numbers that Python does not read: integers over its limit of 4,300 digits.
    """

    text: str

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise TypeError(f"the text of a Raw is a str, not {type(self.text).__name__}")
        _native.check_value(_utf8(self.text))


def dumps(value: Any) -> str:
    """A value's JSON text, in UTF-8. ``TypeError`` or ``ValueError`` for what JSON does not have."""
    try:
        text = _encode(value)
    except TypeError:
        # There is something in it that the encoder does not know: if it is no Raw or mapping, this says so again.
        text = _spelled(value)
    else:
        _check_keys(value)
    return text if text.isascii() else _utf8(text)


def _check_keys(value: Any) -> None:
    """Whether all keys are texts: of others the encoder makes texts. What contains itself it has refused."""
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise _no_key(key)
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return
    for one in value:
        if type(one) not in _SCALARS:
            _check_keys(one)


def _no_key(key: Any) -> TypeError:
    return TypeError(f"a key is a str in JSON, not {type(key).__name__}: {key!r}")


def _spelled(value: Any) -> str:
    """As the encoder, with the texts of :class:`Raw` as they are, and any mapping as a dict."""
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, Mapping):
        members = []
        for key in value:
            if not isinstance(key, str):
                raise _no_key(key)
            members.append(f"{_encode(key)}:{_spelled(value[key])}")
        return "{" + ",".join(members) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_spelled, value)) + "]"
    return _encode(value)


def _utf8(text: str) -> str:
    """The same text with halves of surrogate pairs, which have no UTF-8, as their escapes."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return "".join(one if one < "\ud800" or one > "\udfff" else f"\\u{ord(one):04x}" for one in text)
    return text


def loads(text: str) -> Any:
    """The value of a JSON text of the library's."""
    try:
        return json.loads(text)
    except ValueError:
        return json.loads(text, parse_int=_integer)


def _integer(text: str) -> Union[int, Raw]:
    try:
        return int(text)
    except ValueError:
        return Raw(text)


def names(what: str, given: Iterable[str]) -> List[str]:
    """Several names, as a list. One is not taken for its letters."""
    if given == ():
        return []
    if isinstance(given, (str, bytes, Mapping)):
        raise TypeError(f"{what} is to be a list of names, not {type(given).__name__}")
    found = list(given)
    for one in found:
        if not isinstance(one, str):
            raise TypeError(f"{what} is to be a list of names, and {one!r} is none")
    return found


def path_text(path: Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]) -> str:
    """A path that is told to others, which is text."""
    text = os.fsdecode(path)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidError(f"the path {os.fsencode(text)!r} is no text", code="invalid",
                           remedy="give a path whose name is UTF-8, or a workspace a key: key:NAME",
                           data={"what": "path", "why": "it is not UTF-8"}) from None
    return text
