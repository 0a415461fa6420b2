"""Errors of kernels, named by step and item, on their way from a task to the driver."""

import pickle
import traceback
from collections.abc import Mapping
from typing import Any

# An item that is longer is cut in an error.
_LONGEST = 300


class KernelFailed(RuntimeError):
    """A kernel failed with an error that cannot be sent from one process to another."""


class InTask(Exception):
    """The traceback of an error in its task, as its cause."""


def noted(error: Exception, step: str, item: Mapping[str, Any] | int) -> Exception:
    """Return an error with a note of what failed."""
    what = f"key {item}" if isinstance(item, int) else ", ".join(f"{k}={v}" for k, v in item.items())
    error.add_note(f"in {step}: {what[:_LONGEST]}")
    return error


def sent(error: Exception) -> bytes:
    """Return an error as bytes, with its notes and its traceback."""
    notes, trace = list(getattr(error, "__notes__", ())), traceback.format_exc()
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = KernelFailed(f"{type(error).__name__}: {error}")
    return pickle.dumps((error, notes, trace))


def received(told: bytes) -> Exception:
    """Return the error that ``sent`` made bytes of; these come from a task of this very job."""
    error, notes, trace = pickle.loads(told)
    error.__notes__ = notes
    error.__cause__ = InTask(f"\n{trace}")
    raised: Exception = error
    return raised
