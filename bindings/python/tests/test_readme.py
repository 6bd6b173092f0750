"""The README's example runs as it stands there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BOUND

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("readme", ["bindings/python/README.md", "README.md"])
def test_examples_run(readme, tmp_path):
    programs = re.findall(r"^```python\n(.*?)^```$", (ROOT / readme).read_text(encoding="utf-8"), re.M | re.S)
    programs = [program for program in programs if "import foldlog" in program]
    assert programs, "there is an example"
    for program in programs:
        done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, stdout=subprocess.PIPE, text=True, timeout=BOUND)
        assert done.returncode == 0 and done.stdout, program
