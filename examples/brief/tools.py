"""The reader's tools: they really list, read and search the documents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from alfine import ToolError

from .documents import Documents

PAGE = 4000
"""How many characters `read_document` returns at most; a large file is read page by page."""


def document_tools(documents: Documents) -> Sequence[Callable[..., Any]]:
    """Return the tools that open these documents, and nothing else on the machine."""

    def list_documents() -> list[dict[str, Any]]:
        """List the documents, with their sizes in characters."""
        return [{"name": name, "characters": len(documents.text(name))} for name in documents.names]

    def read_document(name: str, start: int = 0) -> dict[str, Any]:
        """Read one page of a document.

        Args:
            name: a name that `list_documents` gave.
            start: the character to begin at; take `end` of the page before to go on.
        """
        if name not in documents.names:
            raise ToolError(f"There is no document {name!r}. There are: {', '.join(documents.names)}.")
        text = documents.text(name)
        start = max(0, start)
        end = min(len(text), start + PAGE)
        return {"name": name, "start": start, "end": end, "characters": len(text), "text": text[start:end]}

    def search_documents(query: str) -> list[dict[str, Any]]:
        """Find a word or a phrase in all documents; return the first places, each with the text around it.

        Args:
            query: what to look for, in any case.
        """
        return [asdict(hit) for hit in documents.search(query)]

    return [list_documents, read_document, search_documents]
