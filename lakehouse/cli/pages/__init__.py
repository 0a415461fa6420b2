"""The output of commands for people: sentences, tables and pages."""

from __future__ import annotations
