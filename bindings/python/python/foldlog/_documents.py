"""Documents: named JSON values with revisions. ``docs/documents.md`` has what holds for them in every language."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple, cast

from ._errors import DocumentDeletedError, FoldlogError, NoDocumentError
from ._values import loads, names, path_text

if TYPE_CHECKING:
    from ._store import Place, Receipt, Workspace

__all__ = ["Bridge", "Document", "DocumentChange", "DocumentPage", "Documents", "Listed", "Synced"]


@dataclass(frozen=True)
class Document:
    """A document as it was when it was read."""

    name: str
    #: Its value. A copy: changing it changes no document.
    value: Any
    #: How many changes it has had; the precondition of the next.
    revision: int
    #: The same with its place in the history: what a commit may expect.
    token: str
    #: What it is, if that was said.
    kind: Optional[str]
    #: Its last event, and its time, RFC 3339.
    seq: int
    time: str
    workspace: str
    #: ``"workspace"`` or ``"global"``, of one that was looked for in both.
    source: Optional[str] = None

    @staticmethod
    def _of(told: Mapping[str, Any]) -> "Document":
        return Document(told["name"], told["value"], told["revision"], told["token"], told["kind"], told["seq"], told["time"],
                        told["workspace"], told.get("from"))


@dataclass(frozen=True)
class Listed:
    """A document without its value."""

    name: str
    kind: Optional[str]
    #: How long its value's text is.
    bytes: int
    revision: int
    token: str
    time: str


@dataclass(frozen=True)
class DocumentPage:
    """Some of the documents that there are, in the order of their names."""

    documents: List[Listed]
    #: What to give as ``after`` for those that follow; ``None`` = these were the last.
    next: Optional[str]

    def __iter__(self) -> Iterator[Listed]:
        return iter(self.documents)

    def __len__(self) -> int:
        return len(self.documents)


@dataclass(frozen=True)
class Synced:
    """What :meth:`Bridge.sync` came to."""

    #: Whether an edit of the file was taken in, and whether the file was written.
    imported: bool
    exported: bool
    #: The document as it stands; ``None`` = there is none.
    token: Optional[str]
    #: Members that both sides had changed, and that are as the document has them.
    kept: Tuple[str, ...]
    #: What was found wrong, each with what was done about it.
    findings: Tuple[Dict[str, Any], ...]


@dataclass(frozen=True)
class DocumentChange:
    """What a commit changed in one document."""

    name: str
    #: As :meth:`Documents.history` has it.
    data: Dict[str, Any]

    @staticmethod
    def _of(told: Dict[str, Any]) -> "DocumentChange":
        return DocumentChange(told["name"], told)

    @property
    def revision(self) -> int:
        """How many changes it has had since."""
        return cast(int, self.data["revision"])

    @property
    def deleted(self) -> bool:
        """Whether it was deleted."""
        return "value" not in self.data

    @property
    def value(self) -> Any:
        """The value that it was left with; ``None`` also if it was deleted."""
        return self.data.get("value")

    @property
    def kind(self) -> Optional[str]:
        """What it is, if that was said."""
        return cast(Optional[str], self.data.get("kind"))

    def __getitem__(self, name: str) -> Any:
        return self.data[name]


class Documents:
    """The documents of one workspace, or of the store's global home.

    Each change is one commit and takes the options of :class:`foldlog.Tasks`; ``expect`` is a revision, a token, ``"absent"`` or
    ``"exists"``. A :class:`foldlog.ConflictError` has the present value as ``item``.
    """

    def __init__(self, workspace: "Workspace") -> None:
        self._workspace = workspace

    def get(self, name: str) -> Optional[Document]:
        """The document, or ``None``."""
        try:
            return Document._of(self._workspace._request("doc_get", {"name": name}))
        except (NoDocumentError, DocumentDeletedError):
            return None

    def __getitem__(self, name: str) -> Document:
        found = self.get(name)
        if found is None:
            raise KeyError(name)
        return found

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def resolve(self, name: str) -> Optional[Document]:
        """The document of this workspace, else the store's global one, with ``source`` saying which; else ``None``."""
        told = self._workspace._request("doc_resolve", {"name": name})
        return None if told is None else Document._of(told)

    def list(self, prefix: str = "", *, kind: Optional[str] = None, limit: Optional[int] = None,
             after: Optional[str] = None) -> DocumentPage:
        """Documents whose names begin so, in the order of their names."""
        asked = {"prefix": prefix, "kind": kind, "limit": limit, "after": after}
        told = self._workspace._request("doc_list", {key: value for key, value in asked.items() if value is not None})
        return DocumentPage([Listed(one["name"], one["kind"], one["bytes"], one["revision"], one["token"], one["time"])
                             for one in told["documents"]], told["next"])

    def __iter__(self) -> Iterator[Listed]:
        after = None
        while True:
            page = self.list(limit=500, after=after)
            yield from page.documents
            after = page.next
            if after is None:
                return

    def history(self, name: str) -> List[Dict[str, Any]]:
        """Every change, with the value that it left."""
        return cast(List[Dict[str, Any]], self._workspace._request("doc_history", {"name": name}))

    def put(self, name: str, value: Any, *, kind: Optional[str] = None, **options: Any) -> "Receipt":
        """Writes all of it. The same value again writes nothing."""
        op = {"op": "doc_put", "name": name, "value": value}
        if kind is not None:
            op["kind"] = kind
        return self._commit(op, options)

    def patch(self, name: str, *, set: Optional[Mapping[str, Any]] = None, unset: Iterable[str] = (), **options: Any) -> "Receipt":
        """Sets and removes members of an object; the others stay as they are."""
        return self._commit({"op": "doc_patch", "name": name, "set": set or {}, "unset": names("unset", unset)}, options)

    def delete(self, name: str, **options: Any) -> "Receipt":
        """Deletes it; a late write is refused."""
        return self._commit({"op": "doc_delete", "name": name}, options)

    def bridge(self, name: str, path: "Place", *, kind: Optional[str] = None) -> "Bridge":
        """Keeps it in step with a JSON file that other programs write."""
        return Bridge(self, name, path_text(path), kind)

    def _commit(self, op: Dict[str, Any], options: Dict[str, Any]) -> "Receipt":
        expect = options.pop("expect", None)
        if expect is not None:
            op["expect_documents"] = {op["name"]: expect}
        return self._workspace._commit(op, **options)


class Bridge:
    """A document and a JSON state file that other programs still write, kept in step each time :meth:`sync` is called."""

    def __init__(self, documents: Documents, name: str, path: str, kind: Optional[str]) -> None:
        self._documents = documents
        self._asked = {"name": name, "file": path}
        if kind is not None:
            self._asked["kind"] = kind

    def sync(self) -> Synced:
        """Takes in what the file's side changed, or writes the file anew. Malformed contents are set aside and told; where there
        is no document either, :class:`foldlog.BadStateFileError`, and nothing is written."""
        told = self._documents._workspace._request("doc_sync", self._asked)
        return Synced(told["imported"], told["exported"], told["token"], tuple(told["kept"]), tuple(told["findings"]))

    def put(self, value: Any, **options: Any) -> "Receipt":
        """Syncs, writes the document, and syncs again: as :meth:`Documents.put`. What goes wrong with the last, when the
        document stands, has its ``receipt``."""
        self.sync()
        receipt = self._documents.put(self._asked["name"], value, kind=self._asked.get("kind"), **options)
        try:
            self.sync()
        except (FoldlogError, KeyboardInterrupt) as error:
            setattr(error, "receipt", receipt)
            raise
        return receipt


def judged_by(validator: Any) -> Any:
    """A validator as the extension module calls it: of a value, not of its text; what it raises is why not."""

    def judge(name: str, text: str) -> Optional[str]:
        try:
            validator(name, loads(text))
        except Exception as error:
            return str(error) or type(error).__name__
        return None

    return judge
