"""Where a timeline may be saved: asked before anything is run or imported."""

from pathlib import Path

PICTURES = (".png", ".svg", ".pdf")


def target(path: str | Path) -> Path:
    """Where a timeline is to be saved; asked before there is one. ValueError says what is wrong with it."""
    path = Path(path)
    if path.suffix.lower() not in (*PICTURES, ".json"):
        raise ValueError(
            f"{path}: a timeline is saved as a picture, {', '.join(PICTURES)}, or as a .json trace for ui.perfetto.dev"
        )
    if not path.parent.is_dir():
        raise ValueError(f"{path} cannot be written: there is no folder {path.parent}")
    return path
