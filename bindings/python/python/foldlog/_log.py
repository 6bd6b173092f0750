"""What foldlog notices by itself, for the logger ``foldlog``. Called by the extension module."""

from __future__ import annotations

import json
import logging

_LOG = logging.getLogger("foldlog")
_LEVELS = {"notice": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR, "damage": logging.ERROR}


def log(text: str) -> None:
    """Logs a finding, as JSON text."""
    told = json.loads(text)
    _LOG.log(_LEVELS.get(told["severity"], logging.WARNING), "%s (%s): %s", told["message"], told["code"], told["remedy"])
