"""nbgrader's feedback page, with a style in which hints open, tables have room, and a phone can show it."""

from pathlib import Path

from nbconvert.exporters import HTMLExporter

_STYLE = Path(__file__).with_name("feedback.css")
_VIEWPORT = '<meta name="viewport" content="width=device-width, initial-scale=1">'


class Feedback(HTMLExporter):
    """The page as nbgrader's own template makes it, and our head: what it lacks is nothing that a template can add."""

    def from_notebook_node(self, nb, resources=None, **kw):
        """(page, resources)."""
        page, resources = super().from_notebook_node(nb, resources, **kw)
        head = f"{_VIEWPORT}\n<style>\n{_STYLE.read_text(encoding='utf-8')}</style>\n</head>"
        return page.replace("</head>", head, 1), resources
