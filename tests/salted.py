"""What a program prints in processes that hash texts otherwise, so that sets have another order in each."""

import os
import subprocess
import sys


def printed(program: str) -> set[str]:
    """All that a program prints, in three processes."""
    return {
        subprocess.run(
            [sys.executable, "-"],
            input=program,
            env=os.environ | {"PYTHONHASHSEED": salt},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for salt in ("1", "2", "3")
    }
