"""The command of the experiments, run in this process."""

import pytest
from reproduce.__main__ import main


@pytest.fixture
def run(capsys):
    """Run it; gives its exit code, stdout and stderr."""

    def run(*arguments):
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run
