"""Files of states: every format gives the same rows from any start, in small memory, and bad files are named."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest

from rsa2c.datasets import open_dataset
from rsa2c.errors import DataError, FileFormatError, MissingExtraError, NotFoundError

FEATURES = ("angle", "speed", "load")
STATES = np.random.default_rng(0).normal(size=(1000, 3))


def npz(path, **arrays):
    np.savez(path, **(arrays or {"observations": STATES, "rewards": np.zeros(1000)}))
    return path


def npz_compressed(path):
    np.savez_compressed(path, observations=STATES)
    return path


def npz_fortran(path):
    np.savez(path, states=np.asfortranarray(STATES), other=np.zeros((1000, 2)))
    return path


def npz_fortran_compressed(path):
    np.savez_compressed(path, anything=np.asfortranarray(STATES))
    return path


def npz_columns(path):
    return npz(path, **dict(zip(reversed(FEATURES), STATES.T[::-1], strict=True)))


def npz_single(path):
    np.savez(path, observations=STATES.astype(np.float32))
    return path


def npy(path):
    with open(path, "wb") as file:
        np.save(file, STATES)
    return path


def parquet(path, columns=None, **options):
    arrow = pytest.importorskip("pyarrow", reason="pip install 'rsa2c[explain]'")
    from pyarrow.parquet import write_table

    usual = {"time": np.arange(1000), "load": STATES[:, 2], "speed": STATES[:, 1], "angle": STATES[:, 0]}
    write_table(arrow.table(columns or usual), path, **{"row_group_size": 300, **options})
    return path


def parquet_lists(path):
    return parquet(path, {"id": list(range(1000)), "observations": STATES.tolist()})


def parquet_fixed_lists(path):
    arrow = pytest.importorskip("pyarrow", reason="pip install 'rsa2c[explain]'")
    lists = arrow.FixedSizeListArray.from_arrays(STATES.astype(np.float64).ravel(), 3)
    return parquet(path, {"obs": lists, "time": np.arange(1000)})


def parquet_one_group(path):
    return parquet(path, row_group_size=10**6)


def minari(path, entries=None):
    """More than ten episodes, so that number 10 comes after 9 and not after 1."""
    h5py = pytest.importorskip("h5py", reason="pip install 'rsa2c[explain]'")
    folder = path.with_suffix("") / "data"
    folder.mkdir(parents=True)
    lengths = (1, 401, 11, *[1] * 9, 578)
    with h5py.File(folder / "main_data.hdf5", "w", track_order=True) as file:
        start = 0
        for number, length in enumerate(lengths):
            group = file.create_group(f"episode_{number}")
            rows = STATES[start : start + length]
            start += length
            if entries is None:
                group.create_dataset("observations", data=rows, chunks=True, maxshape=(None, 3))
            else:
                for name, part in entries.items():
                    group.create_dataset(f"observations/{name}", data=rows[:, part])
            group.create_dataset("actions", data=np.zeros((length - 1, 1)))
    return folder.parent


def minari_file(path):
    return minari(path) / "data" / "main_data.hdf5"


FORMATS = [npz, npz_compressed, npz_fortran, npz_fortran_compressed, npz_columns, npz_single, npy, parquet,
           parquet_lists, parquet_fixed_lists, parquet_one_group, minari, minari_file]  # fmt: skip


@pytest.mark.parametrize("write", FORMATS)
def test_every_format_gives_the_rows_from_any_start(write, tmp_path):
    dataset = open_dataset(write(tmp_path / "some.npz"), FEATURES)
    rows = STATES.astype(np.float32).astype(np.float64) if write is npz_single else STATES
    assert dataset.rows == 1000
    for size, start in ((1000, 0), (4096, 0), (7, 0), (64, 64), (64, 299), (300, 300), (10, 401), (5, 999)):
        blocks = list(dataset.blocks(size, start))
        assert [len(block) for block in blocks[:-1]] == [size] * (len(blocks) - 1)
        np.testing.assert_array_equal(np.concatenate(blocks), rows[start:])
    assert list(dataset.blocks(10, 1000)) == []


def test_columns_are_put_side_by_side(tmp_path):
    file = npz(tmp_path / "a.npz", pose=STATES[:, :2], load=STATES[:, 2], observations=np.zeros((1000, 4)))
    np.testing.assert_array_equal(next(open_dataset(file, FEATURES, ["pose", "load"]).blocks(1000)), STATES)
    mixed = parquet(tmp_path / "a.parquet", {"load": STATES[:, 2], "pose": STATES[:, :2].tolist()})
    np.testing.assert_array_equal(next(open_dataset(mixed, FEATURES, ["pose", "load"]).blocks(1000)), STATES)


def test_entries_of_dict_observations_are_found(tmp_path):
    folder = minari(tmp_path / "dict", {"goal/place": [2], "body": [0, 1]})
    dataset = open_dataset(folder, FEATURES, entries=["body", "goal/place"])
    np.testing.assert_array_equal(next(dataset.blocks(1000)), STATES)
    with pytest.raises(DataError, match=r"missing are angle, speed, load.*It has body, goal/place.*--columns"):
        open_dataset(folder, FEATURES)


def test_a_group_of_rows_larger_than_the_memory_is_read_in_small_memory(tmp_path):
    arrow = pytest.importorskip("pyarrow", reason="pip install 'rsa2c[explain]'")
    states = np.random.default_rng(1).normal(size=(1_000_000, 3))
    columns = dict(zip(FEATURES, states.T, strict=True))
    dataset = open_dataset(parquet(tmp_path / "a", columns, row_group_size=10**7, use_dictionary=False), FEATURES)
    before = arrow.total_allocated_bytes()
    largest = max(arrow.total_allocated_bytes() - before for _ in dataset.blocks(1000))
    assert largest < states.nbytes / 3


@pytest.mark.parametrize("arrays, columns, message", [
    ({"observations": STATES[:, :2]}, None, r"must have 3 numbers in a row.*\(angle, speed, load\), got 2: obs"),
    ({"a": STATES, "b": STATES}, None, r"missing are angle, speed, load. It has a, b. .*--columns, or columns="),
    ({"observations": STATES}, ["observation"], r"no column of numbers 'observation'.*Did you mean 'observations'"),
    ({"angle": STATES[:, 0]}, ["angle", "angle"], "'angle' more than once"),
    ({"angle": STATES[:, 0], "speed": STATES[:, 1], "load": STATES[:5, 2]}, None, "equally many rows.*load with 5"),
    ({"observations": STATES[:0]}, None, "holds no states: observations has no rows"),
    ({"names": np.array(["a"])}, None, "has no columns of numbers"),
])  # fmt: skip
def test_a_file_without_the_states_says_what_it_has(arrays, columns, message, tmp_path):
    with pytest.raises(DataError, match=message):
        open_dataset(npz(tmp_path / "a.npz", **arrays), FEATURES, columns)


@pytest.mark.parametrize("columns, message", [
    ({"angle": [1.0], "speed": [2.0]}, "missing are load. It has angle, speed"),
    ({"angle": [1.0], "speed": [2.0], "load": ["heavy"]}, "missing are load. It has angle, speed"),
    ({"states": [[1.0, 2.0]]}, r"got 2: states with 2"),
    ({"angle": [], "speed": [], "load": []}, "no columns of numbers|no rows"),
])  # fmt: skip
def test_a_parquet_file_without_the_states_says_what_it_has(columns, message, tmp_path):
    with pytest.raises(DataError, match=message):
        open_dataset(parquet(tmp_path / "a.parquet", columns), FEATURES)


def test_lists_of_another_length_are_named_by_row(tmp_path):
    lists = STATES.tolist()
    lists[512] = [1.0]
    dataset = open_dataset(parquet(tmp_path / "a.parquet", {"states": lists}), FEATURES)
    with pytest.raises(DataError, match="3 numbers as in row 0, got 1 in row 512"):
        list(dataset.blocks(100))


def test_a_missing_list_is_named_by_row(tmp_path):
    lists = [*STATES.tolist(), None]
    dataset = open_dataset(parquet(tmp_path / "a.parquet", {"states": lists}), FEATURES)
    with pytest.raises(DataError, match="got 0 in row 1000"):
        list(dataset.blocks(100))
    with pytest.raises(DataError, match="got 0: states with 0"):
        open_dataset(parquet(tmp_path / "a.parquet", {"states": lists[::-1]}), FEATURES)


def test_a_file_that_is_written_to_meanwhile_is_refused(tmp_path):
    path = npz(tmp_path / "a.npz", observations=STATES)
    blocks = open_dataset(path, FEATURES).blocks(100)
    next(blocks)
    with open(path, "ab") as file:
        file.write(b"more")
    with pytest.raises(DataError, match="changed while it was read"):
        list(blocks)


def test_a_missing_entry_is_not_a_number(tmp_path):
    columns = {"angle": [1.0, None], "speed": [1, None], "load": [0.0, 0.0]}
    block = next(open_dataset(parquet(tmp_path / "a.parquet", columns), FEATURES).blocks(10))
    np.testing.assert_array_equal(block, [[1, 1, 0], [np.nan, np.nan, 0]])


def test_other_hdf5_files_are_refused(tmp_path):
    h5py = pytest.importorskip("h5py", reason="pip install 'rsa2c[explain]'")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["observations"] = STATES
    with pytest.raises(DataError, match=r"not a Minari dataset.*episode_0, episode_1, ..., got observations"):
        open_dataset(tmp_path / "a.h5", FEATURES)
    folder = minari(tmp_path / "narrow")
    with h5py.File(folder / "data" / "main_data.hdf5", "a") as file:
        del file["episode_2/observations"]
        file["episode_2/observations"] = STATES[:, :2]
    with pytest.raises(DataError, match=r"3 numbers in a row in every episode, got the shape \(1000, 2\) in episode_2"):
        open_dataset(folder, FEATURES)


def test_what_is_no_dataset_is_named(tmp_path):
    (tmp_path / "states.npz").write_bytes(b"")
    (tmp_path / "states.csv").write_text("angle,speed,load\n1,2,3\n")
    with pytest.raises(DataError, match=r"states.npz is empty"):
        open_dataset(tmp_path / "states.npz", FEATURES)
    with pytest.raises(
        FileFormatError, match=r"NPZ, NPY, Parquet or Minari \(HDF5\) file, but it begins with b'angle,sp"
    ):
        open_dataset(tmp_path / "states.csv", FEATURES)
    with pytest.raises(NotFoundError, match=r"state.npz does not exist. Did you mean .*states.npz"):
        open_dataset(tmp_path / "state.npz", FEATURES)
    with pytest.raises(FileFormatError, match=r"folder without data/main_data.hdf5"):
        open_dataset(tmp_path, FEATURES)


@pytest.mark.parametrize("write", [npz, npz_compressed, npy, parquet, minari_file])
@pytest.mark.parametrize("share", [0.1, 0.6, 0.97])
def test_a_file_that_is_cut_off_is_refused(write, share, tmp_path):
    path = write(tmp_path / "some.npz")
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises((FileFormatError, DataError)):
        list(open_dataset(path, FEATURES).blocks(100))


def test_a_changed_byte_is_found_by_the_checksum(tmp_path):
    path = npz(tmp_path / "a.npz", observations=STATES)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match="Bad CRC"):
        list(open_dataset(path, FEATURES).blocks(100))


def test_objects_are_not_unpickled(tmp_path):
    buffer = io.BytesIO()
    np.save(buffer, np.array([{}], dtype=object), allow_pickle=True)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("observations.npy", buffer.getvalue())
    with pytest.raises(DataError, match="no columns of numbers"):
        open_dataset(tmp_path / "a.npz", FEATURES)


@pytest.mark.parametrize("write, module", [(parquet, "pyarrow"), (minari, "h5py")])
def test_without_the_reader_the_extra_is_named(write, module, tmp_path, monkeypatch):
    path = write(tmp_path / "a")
    monkeypatch.setitem(__import__("sys").modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"needs '{module}'.*rsa2c\[explain\]"):
        open_dataset(path, FEATURES)
