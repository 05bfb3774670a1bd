"""A page as text, elements and the one block of data for registries."""

import json
from html.parser import HTMLParser


class Page(HTMLParser):
    """Text and elements of a page; every element must be closed."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.attributes, self.open, self.parts, self.scripts = [], [], [], [], []
        self.feed(page)
        self.close()
        assert self.open == []
        self.text = " ".join("".join(self.parts).replace("\N{NO-BREAK SPACE}", " ").split())

    def handle_starttag(self, tag, attrs):
        self.elements.append(tag)
        self.attributes += attrs
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        if tag in {"td", "th", "li", "dt", "dd", "div", "p", "title"}:
            self.parts.append(" ")

    def handle_data(self, data):
        if self.open[-1:] == ["script"]:
            self.scripts.append(data)
        elif self.open[-1:] != ["style"]:
            self.parts.append(data)

    @property
    def summary(self):
        """The one block of data, and its properties by name."""
        (script,) = self.scripts
        content = json.loads(script)
        return content, properties(content)


def properties(content):
    assert all(item["@type"] == "PropertyValue" for item in content["additionalProperty"])
    found = {item["name"]: item["value"] for item in content["additionalProperty"]}
    assert len(found) == len(content["additionalProperty"])
    return found
