"""What MongoDB allows, and how much is asked of it at once."""

from __future__ import annotations

BATCH = 500
"""The most keys that one find looks up."""
CHUNK = 1000
"""The most documents of a range that are brought at once; more stay behind the server's cursor."""
BULK = 2000
"""The most documents of one bulk write."""
