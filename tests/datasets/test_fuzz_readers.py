"""A slice of the fuzzer of the readers, the same one every time."""

import importlib.util
from pathlib import Path

import pytest

FUZZER = Path(__file__).parents[2] / "fuzz" / "readers.py"


@pytest.mark.skipif(not FUZZER.is_file(), reason="the fuzzer is not part of this copy")
def test_damaged_files_give_sound_tables_or_clear_errors(tmp_path):
    spec = importlib.util.spec_from_file_location("fuzz_readers", FUZZER)
    readers = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(readers)
    count, faults = readers.run(seed=0, folder=tmp_path, cases=1000)
    print(f"{count} damaged files, {len(faults)} faults")  # noqa: T201
    assert not faults
