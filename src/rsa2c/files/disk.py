"""Files that are whole or absent: atomic writes, appended lines, locks, and errors that name file and remedy."""

from __future__ import annotations

import contextlib
import difflib
import os
from collections.abc import Iterator
from pathlib import Path

from rsa2c.errors import NotFoundError, RSA2CError

PathLike = str | os.PathLike[str]


class StorageError(RSA2CError, OSError):
    """The disk refused: full, read-only, or held by another process."""


class HeldError(StorageError):
    """A run that another process is writing."""


def write_atomically(path: PathLike, content: bytes) -> None:
    """Replace `path` by `content`: a reader, or a crash at any moment, finds the old file or the new one."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        try:
            with open(temporary, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        sync_folder(path.parent)
    except FileNotFoundError:
        raise StorageError(f"{path} could not be written: the folder {path.parent} does not exist. Make it.") from None
    except OSError as error:
        raise StorageError(
            f"{path} could not be written: {error.strerror or error}. "
            "Free some space, or choose a folder you may write to."
        ) from error


def append_lines(path: PathLike, text: str) -> None:
    """Append whole lines to a file whose folder the caller has locked, and flush them to the disk.

    A last line without a line end was torn off by a crash and is dropped first (`whole_lines` does not read it either).
    """
    try:
        with open(path, "ab+") as file:
            file.seek(0)
            file.truncate(len(whole_lines(file.read())))
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise StorageError(
            f"{path} could not be written: {error.strerror or error}. "
            "Free some space, or choose a folder you may write to."
        ) from error


def whole_lines(content: bytes) -> bytes:
    """The content up to its last line end: what follows was torn off by a crash."""
    return content[: content.rfind(b"\n") + 1]


@contextlib.contextmanager
def holding(folder: Path, what: str, wait: bool = False) -> Iterator[None]:
    """Hold a folder's lock: a second process is refused, or waits. The lock is released when its process ends, however
    it ends."""
    import fcntl

    try:
        descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise StorageError(f"{what} {folder} cannot be locked: {error.strerror or error}.") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise HeldError(
                f"{what} {folder} is being written by another process. Wait for it, or stop it first."
            ) from None
        except OSError as error:
            raise StorageError(f"{what} {folder} cannot be locked: {error.strerror or error}.") from error
        yield
    finally:
        os.close(descriptor)


def remove(path: Path) -> None:
    """Delete a file, if it exists."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(
            f"{path} could not be deleted: {error.strerror or error}. Delete it, or choose a folder you may write to."
        ) from error


def sync_folder(folder: Path) -> None:
    """Make new names in `folder` survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_bytes(path: PathLike) -> bytes:
    """The file's content; if it is missing, the error suggests files of the same folder with similar names."""
    path = Path(path)
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise NotFoundError(f"{path} does not exist.{near(path)}") from None
    except IsADirectoryError:
        raise StorageError(f"{path} is a folder, a file is needed.") from None
    except OSError as error:
        raise StorageError(f"{path} could not be read: {error.strerror or error}.") from error


def near(path: Path) -> str:
    """ " Did you mean ...?" from the names in the folder of `path`, or the empty string if none is similar."""
    try:
        names = sorted({entry.name for entry in path.parent.iterdir()} - {path.name})
    except OSError:
        return ""
    close = difflib.get_close_matches(path.name, names, n=3, cutoff=0.6)
    return f" Did you mean {' or '.join(str(path.parent / name) for name in close)}?" if close else ""
