"""The yardstick of captures: the whole file, packet by packet, with the standard library."""

from __future__ import annotations
