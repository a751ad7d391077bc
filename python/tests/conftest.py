"""What several tests need. They run against the installed wheel, never against this folder."""

from __future__ import annotations

import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

LAMP = (
    "The lamp on the second floor flickers when the lift starts, and nobody has found the loose wire "
    "behind the panel."
)


@pytest.fixture
def root() -> pathlib.Path:
    """The project's folder."""
    return ROOT


@pytest.fixture
def lamp() -> str:
    """A text of 20 words."""
    return LAMP


@pytest.fixture
def cable() -> str:
    """The same text with one changed word, 4 bits away."""
    return LAMP.replace("wire", "cable")
