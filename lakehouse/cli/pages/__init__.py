"""What commands print and draw for people: sentences, tables and pages."""

from __future__ import annotations
