"""Takes an HTML page apart as a browser does."""

from html.parser import HTMLParser

from typing_extensions import override

_VOID = frozenset({"br", "input", "link", "meta"})
_INLINE = frozenset({"a", "b", "code", "span"})
_UNREAD = frozenset({"script", "style"})


class HtmlPage(HTMLParser):
    """The elements, attributes and words of a page; AssertionError if its elements do not nest."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html = html
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self._open: list[str] = []
        self._words = ""
        self._links: list[tuple[str, str]] = []
        self._headings: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    @property
    def text(self) -> str:
        """Return what is read, with single spaces."""
        return " ".join(self._words.split())

    def values(self, attribute: str) -> list[str]:
        """Return the values of an attribute, in order."""
        return [value for name, value in self.attributes if name == attribute]

    def links_named(self, text: str) -> list[str]:
        """Return where the links with this text lead."""
        return [target for target, words in self._links if words.strip() == text]

    def headings(self) -> list[str]:
        """Return the texts of the heading cells of tables."""
        return [each.strip() for each in self._headings]

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag == "a":
            self._links.append((dict(attrs).get("href") or "", ""))
        elif tag == "th":
            self._headings.append("")
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in _VOID:
            self._open.append(tag)
        if tag not in _INLINE:
            self._words += " "

    @override
    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self._open.pop()

    @override
    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, f"</{tag}> closes another element"

    @override
    def handle_data(self, data: str) -> None:
        if not _UNREAD & set(self._open):
            self._words += data
        if "a" in self._open:
            self._links[-1] = (self._links[-1][0], self._links[-1][1] + data)
        if "th" in self._open:
            self._headings[-1] += data
